"""Outputs that someone brings: clustered as they are, with nothing to train.

    spare discover outputs.npz       a file with one column per class

The first half of SPARE for people who trained the early model themselves. What SPARE does with the
outputs of its own early model is the same, so the options and the clustering are shared.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from spare.data.task import Task
from spare.errors import InputError, SpareWarning, unknown
from spare.groups.blocks import Block, believed, blocks_of, clusters_of
from spare.groups.clusterers import DEFAULT, check_name
from spare.groups.clusters import concerns, infer_groups
from spare.groups.result import Groups
from spare.limits import Range, check_ranges
from spare.methods.method import EarlyOutputs, Inference, Inferred, sees
from spare.training.outputs import OUTPUTS, as_clustered
from spare.training.stages import Stages

WEIGHING = ("evidence", "silhouette")
#: More clusters than this in one class are a slip of the finger.
MAX_K = 1000


@dataclass(frozen=True)
class ClusteringOptions:
    #: What is clustered: softmax, logits or features (the layer before the last).
    output: str = "softmax"
    #: Number of clusters per class; 0 for the best of 2..k_max by silhouette.
    k: Annotated[int, Range(0, MAX_K)] = 0
    k_max: Annotated[int, Range(1, MAX_K)] = 5
    #: Sampling power: empty for the rule that is named next, one number for all classes, or one
    #: per class.
    power: tuple[Annotated[float, Range(0, 100)], ...] = ()
    #: The rule: "evidence" weighs a class by how clearly it has fallen apart, and leaves it as it
    #: is where it has not; "silhouette" is the paper's (1 from 0.9 on, else 2).
    weigh: str = "evidence"
    #: What clusters: kmeans, kmedoids, gmm, agglomerative, or package.module:NAME with
    #: scikit-learn's fit_predict.
    clusterer: str = DEFAULT

    def __post_init__(self) -> None:
        check_ranges(self)
        check_name(self.clusterer)
        if self.weigh not in WEIGHING:
            raise unknown("weigh", self.weigh, WEIGHING)
        if self.output not in OUTPUTS:
            raise unknown("output", self.output, OUTPUTS)
        if self.k == 0 and self.k_max < 2:
            raise InputError(f"k_max is at least 2, not {self.k_max}; for one cluster use k=1.")


def infer(task: Task, stages: Stages, options: ClusteringOptions) -> Inferred:
    if not task.holds_outputs:
        raise InputError(
            f"{task.name} holds inputs, not a model's outputs: use --inference spare, which trains "
            f"an early model on them."
        )
    outputs = {
        name: as_clustered(split.inputs.take(np.arange(len(split))), options.output)
        for name, split in task.splits().items()
    }
    labels = np.asarray(task.train.labels)
    probabilities = as_clustered(outputs["train"], "softmax").numpy()
    groups, blocks = clustered(
        outputs["train"], labels, probabilities.argmax(1), task, stages, options
    )
    if weighs_by_evidence(options) and not believed(blocks.values()):
        groups = groups.with_powers(dict.fromkeys(groups.evidence, 0.0))
    warn_of_concerns(groups, task)
    held_out = {
        name: groups.assign(outputs[name], split.labels)
        for name, split in task.splits().items()
        if name != "train"
    }
    return Inferred(
        groups,
        held_out,
        {"separated_at": None},
        blocks=blocks,
        early_outputs=(EarlyOutputs(None, probabilities),),
    )


def clustered(
    outputs: Tensor,
    labels: np.ndarray,
    predicted: np.ndarray,
    task: Task,
    stages: Stages,
    options: ClusteringOptions,
) -> tuple[Groups, dict[Any, Block]]:
    """The groups of training examples by their outputs, and the evidence of each class's block."""

    def find() -> tuple[Groups, dict[Any, Block]]:
        with warnings.catch_warnings():
            # These may be dropped for others: of those that are used, `warn_of_concerns` tells.
            warnings.simplefilter("ignore", SpareWarning)
            groups = infer_groups(
                outputs,
                labels,
                k=options.k or None,
                k_max=options.k_max,
                clusterer=options.clusterer,
                seed=stages.seed,
            )
        return groups, blocks_of(clusters_of(groups), labels, predicted)

    groups, blocks = stages.once("inference", find)
    given = given_powers(options.power, task)
    if given:
        groups = groups.with_powers({label: given[label] for label in groups.evidence})
    elif weighs_by_evidence(options):
        groups = groups.with_powers({label: block.power for label, block in blocks.items()})
    return groups, blocks


def weighs_by_evidence(options: ClusteringOptions) -> bool:
    """Whether clusters get the mass that the evidence of their class allows."""
    return options.weigh == "evidence" and not options.power


def warn_of_concerns(groups: Groups, task: Task) -> None:
    """The warnings for groups that are used, with the names of their classes."""
    for concern in concerns(groups, task.class_names):
        warnings.warn(concern, SpareWarning, stacklevel=3)


def given_powers(power: Sequence[float], task: Task) -> dict[int, float]:
    """The power of each class, where the options give any."""
    classes = len(task.class_names)
    if not power:
        return {}
    if len(power) not in (1, classes):
        raise InputError(
            f"power needs one number or one for each of {classes} classes, not {len(power)}."
        )
    return {label: power[label % len(power)] for label in range(classes)}


INFERENCE = Inference("outputs", sees("none"), infer, ClusteringOptions)
