"""GEORGE: Group DRO over clusters of a trained model's features.

Sohoni, Dunnmon, Angus, Gu, Ré: No Subclass Left Behind: Fine-Grained Robustness in Coarse-Grained
Classification Problems, NeurIPS 2020.

    train plainly to the end
    cluster each class's features, scaled to length 1 and reduced to two dimensions
    (groups/strata.py)
    train a fresh model with Group DRO over the clusters; its paper selects the epoch by the worst
    cluster's accuracy on validation

The authors' code clusters the epoch of the best validation accuracy, weighted as if its groups had
their shares of training. Where training and validation are alike that needs no group label, and is
`best_average`; where they are not, a method without group labels cannot know it, and the plain
average is best before anything but chance is learned: so the last epoch is clustered.

Departures: the last epoch, and PCA in place of UMAP where umap-learn is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Split, Task
from spare.errors import InputError, unknown
from spare.groups.reduction import REDUCTIONS, SCALINGS, available_reduction
from spare.groups.result import Groups
from spare.groups.strata import infer_strata
from spare.limits import Range, check_ranges
from spare.methods.gdro import TRAINER as GDRO
from spare.methods.method import Inference, Inferred, combined, sees
from spare.methods.reference import refuse_outputs
from spare.models import Classifier
from spare.training.batches import shuffled
from spare.training.loop import Trained
from spare.training.outputs import Outputs
from spare.training.stages import Stages


@dataclass(frozen=True)
class StrataOptions:
    #: How features are scaled first: unit (each example to length 1) or standard (each feature).
    scaling: str = "unit"
    #: How features are reduced: umap or pca (2-D), boundary (1-D, across the decision boundary of
    #: two classes), none, or auto: umap if umap-learn is installed, else pca.
    reduction: str = "auto"
    #: Largest number of clusters per class that is tried.
    strata_max: Annotated[int, Range(2, 1000)] = 10
    #: Split clusters in 5, and keep the pieces that are clear, hard and large enough apart.
    overcluster: bool = True
    #: Cluster the epoch of the best average on validation instead of the last.
    best_average: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.reduction not in REDUCTIONS:
            raise unknown("reduction", self.reduction, REDUCTIONS)
        if self.scaling not in SCALINGS:
            raise unknown("scaling", self.scaling, SCALINGS)


def infer(task: Task, stages: Stages, options: StrataOptions) -> Inferred:
    refuse_outputs(task)
    if options.reduction == "boundary" and len(task.class_names) != 2:
        raise InputError(
            f"reduction=boundary is for two classes, and {task.name} has "
            f"{len(task.class_names)}: use reduction=umap or pca."
        )
    model, epoch = _plain_model(task, stages, options.best_average)
    outputs = {
        name: stages.outputs(model, split, features=True) for name, split in task.splits().items()
    }
    reduction = available_reduction(options.reduction)

    def find() -> tuple[Groups, dict[str, np.ndarray]]:
        groups = infer_strata(
            _features(outputs["train"]),
            task.train.labels,
            _losses(outputs["train"], task.train) if options.overcluster else None,
            val=None if task.val is None else (_features(outputs["val"]), task.val.labels),
            scaling=options.scaling,
            reduction=reduction,
            normal=_normal(model) if reduction == "boundary" else None,
            strata_max=options.strata_max,
            overcluster=options.overcluster,
            seed=stages.seed,
        )
        held_out = {
            name: groups.assign(_features(outputs[name]), split.labels)
            for name, split in task.splits().items()
            if name != "train"
        }
        return groups, held_out

    groups, held_out = stages.once("inference", find)
    return Inferred(
        groups,
        held_out,
        {"separated_at": epoch, "reduction": reduction},
        early=model.last,
        early_epoch=epoch,
    )


def _plain_model(task: Task, stages: Stages, best_average: bool) -> tuple[Trained, int]:
    """The last weights, or those with the best average on validation, and their epoch."""
    trained = stages.train(
        "early/reference",
        task,
        shuffled(len(task.train), stages.settings.batch_size),
        select="val_average" if best_average else "",
    )
    if "val_average" not in trained.kept:
        return trained, len(trained.history)
    best = trained.kept["val_average"]
    return replace(trained, last=best.state), best.epoch


def _features(outputs: Outputs) -> Tensor:
    return outputs.features.flatten(1)


def _losses(outputs: Outputs, split: Split) -> Tensor:
    labels = torch.as_tensor(np.asarray(split.labels), dtype=torch.long)
    return nn.functional.cross_entropy(outputs.logits, labels, reduction="none")


def _normal(trained: Trained) -> Tensor:
    if not isinstance(trained.model, Classifier):
        raise InputError("reduction=boundary needs a model with one linear head.")
    weight = trained.last["head.weight"]
    return weight[1] - weight[0]


INFERENCE = Inference("george", sees("none"), infer, StrataOptions)
METHOD = combined(
    INFERENCE,
    GDRO,
    name="george",
    title="clusters of a trained model's features, then Group DRO over them",
    paper="Sohoni et al. 2020",
    paper_rule="val_inferred_groups",
    cost="2x",
)
