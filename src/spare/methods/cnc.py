"""CnC: correct-n-contrast.

Zhang, Sohoni, Zhang, Finn, Ré: Correct-N-Contrast: A Contrastive Approach for Improving Robustness
to Spurious Correlations, ICML 2022.

    train plainly for T epochs; the slice of an example = the class that this model takes it for
    train a fresh model on one sub-batch per anchor: M anchors (class c, slice c), M positives
    (class c, slice not c), M hard negatives (slice c, class not c) and M easy negatives (correct,
    in the slice of the first positive); see objectives/contrastive.py. The gradients of 32
    sub-batches are averaged into a step

An epoch visits the anchors, and each brings 4M images: with every anchor and M = 32 it costs up to
128 plain epochs. `anchor_share` visits only some of the anchors, as the official code does for
CelebA: a tenth is 640,000 images per epoch on Colored MNIST's 50,000, with fewer steps.

Departures: slices are predictions, where the official code clusters features by default; a class
without positives or hard negatives has no anchors, where that code fills in others; one optimizer
serves encoder and head, and both gradients are zeroed after every step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from spare.data.task import Task
from spare.errors import InputError, SpareWarning
from spare.groups.mistakes import mistakes
from spare.groups.result import groups_from_parts
from spare.methods.method import Fitted, Inferred, Method, sees
from spare.methods.reference import ReferenceOptions, train_reference
from spare.models import Classifier
from spare.objectives.contrastive import correct_n_contrast
from spare.training.batches import contrast_pools, contrastive
from spare.training.stages import Stages


@dataclass(frozen=True)
class CncOptions(ReferenceOptions):
    #: Epochs of the second training, in place of the setting `epochs`.
    contrast_epochs: int = 3
    #: M: examples of each role in a sub-batch, where there are so many.
    contrast_size: int = 32
    #: Share of the anchors that an epoch visits.
    anchor_share: float = 1.0
    #: Sub-batches whose gradients are averaged into one step; in place of `accumulate`.
    sub_batches_per_step: int = 32
    #: Temperature of the cosine similarities: the lower, the more the nearest negatives count.
    contrast_temperature: float = 0.05
    #: Weight of the contrast; the rest is cross-entropy.
    contrast_weight: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("contrast_epochs", "contrast_size", "sub_batches_per_step"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is at least 1, not {getattr(self, name)}.")
        if not 0 < self.anchor_share <= 1:
            raise InputError(f"anchor_share is above 0 and at most 1, not {self.anchor_share}.")
        if not self.contrast_temperature > 0:
            raise InputError(f"contrast_temperature is above 0, not {self.contrast_temperature}.")
        if not 0 <= self.contrast_weight < 1:
            raise InputError(
                f"contrast_weight is from 0 to below 1, not {self.contrast_weight}: the head "
                f"learns from the rest."
            )


def fit(task: Task, stages: Stages, options: CncOptions) -> Fitted:
    reference = train_reference(task, stages, options)
    assert isinstance(reference.model, Classifier)
    if not reference.model.trains_features:
        warnings.warn(
            "nothing before the model's head is trained, so contrast has no effect on it: choose a "
            "model whose features are trained, such as mlp.",
            SpareWarning,
            stacklevel=2,
        )
    splits = task.splits()
    logits = {name: stages.outputs(reference, split).logits for name, split in splits.items()}
    slices = logits["train"].argmax(1).numpy()
    labels = np.asarray(task.train.labels)
    pools = contrast_pools(labels, slices)
    wrong = mistakes(logits["train"], labels)
    groups = groups_from_parts(wrong, labels, rank_names=("right", "mistaken"))
    held_out = {
        name: np.asarray(split.labels) * 2 + (logits[name].argmax(1).numpy() != split.labels)
        for name, split in splits.items()
        if name != "train"
    }
    stages.use_groups(held_out.get("val"))
    trained = stages.train(
        "train",
        task,
        contrastive(pools, options.contrast_size, options.anchor_share),
        settings=replace(
            stages.settings,
            epochs=options.contrast_epochs,
            accumulate=options.sub_batches_per_step,
        ),
        objective=correct_n_contrast(
            slices, temperature=options.contrast_temperature, weight=options.contrast_weight
        ),
    )
    return Fitted(
        trained,
        Inferred(groups, held_out, {"mistakes": int(wrong.sum())}),
        pools.probabilities(options.contrast_size),
        {
            "classes_with_anchors": len(pools.classes),
            "anchors_in_a_sub_batch": pools.cut(options.contrast_size),
        },
    )


METHOD = Method(
    name="cnc",
    title="correct-n-contrast: a class's mistakes are pulled to what is right, others pushed away",
    paper="Zhang et al. 2022",
    sees=sees("none"),
    fit=fit,
    options=CncOptions,
    infers_groups=True,
    cost="(T + 4 contrast_size x anchor_share x contrast_epochs)/epochs at most",
)
