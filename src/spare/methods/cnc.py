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
from typing import Annotated

import numpy as np

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.groups.mistakes import mistakes, warn_of_few
from spare.groups.result import groups_from_parts
from spare.limits import Count, Positive, Range
from spare.methods.method import Fitted, Inferred, Method, sees
from spare.methods.reference import TRAIN_LESS, ReferenceOptions, train_reference
from spare.models import Classifier
from spare.objectives.contrastive import correct_n_contrast
from spare.training.batches import contrast_pools, contrastive
from spare.training.stages import Stages


@dataclass(frozen=True)
class CncOptions(ReferenceOptions):
    #: Epochs of the second training, in place of the setting `epochs`.
    contrast_epochs: Count = 3
    #: M: examples of each role in a sub-batch, where there are so many.
    contrast_size: Count = 32
    #: Share of the anchors that an epoch visits.
    anchor_share: Annotated[float, Range(0, 1, open_low=True)] = 1.0
    #: Sub-batches whose gradients are averaged into one step; in place of `accumulate`.
    sub_batches_per_step: Count = 32
    #: Temperature of the cosine similarities: the lower, the more the nearest negatives count.
    contrast_temperature: Positive = 0.05
    #: Weight of the contrast; the rest is cross-entropy, which the head learns from.
    contrast_weight: Annotated[float, Range(0, 1, open_high=True)] = 0.75


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
    warn_of_few(wrong, "the early model gets wrong", TRAIN_LESS)
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
