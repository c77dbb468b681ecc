"""Outputs that someone brings: clustered as they are, with nothing to train.

    spare discover outputs.npz       a file with one column per class

The first half of SPARE for people who trained the early model themselves. What SPARE does with the
outputs of its own early model is the same, so the options and the clustering are shared.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from spare.data.task import Task
from spare.engines import processes
from spare.engines.processes import shared
from spare.errors import InputError, SpareWarning, unknown
from spare.groups.arrays import rows_by_class
from spare.groups.blocks import Block, blocks_of, clusters_of, powers_of
from spare.groups.clusterers import DEFAULT, check_name
from spare.groups.clusters import concerns, infer_groups
from spare.groups.components import as_logits, two_components
from spare.groups.one_class import OF_MANY
from spare.groups.result import Groups
from spare.limits import Range, check_ranges
from spare.methods.method import EarlyOutputs, Inference, Inferred, sees
from spare.processes.world import current
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
    labels, mine = np.asarray(task.train.labels), stages.share_of(task.train)
    probabilities = as_clustered(outputs["train"], "softmax").numpy()[mine]
    predicted = shared(probabilities).gather(probabilities.argmax(1))
    groups, blocks = clustered(
        outputs["train"][mine], labels[mine], labels, predicted, task, stages, options
    )
    if weighs_by_evidence(options):
        groups = groups.with_powers(powers_of(blocks))
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
        early_outputs=(early_outputs(None, probabilities, labels[mine]),),
    )


def early_outputs(
    epoch: int | None, probabilities: np.ndarray, labels: np.ndarray | None = None
) -> EarlyOutputs:
    """What an early model said of every example, from what it said of this process's share.

    Parameters
    ----------
    labels
        Of the share; with them, it is told where each example lies among its class.
    """
    here = shared(probabilities)
    found = EarlyOutputs(
        epoch, here.gather(probabilities.argmax(1)), here.gather(probabilities.max(1))
    )
    if labels is None:
        return found
    points = np.zeros((len(labels), 2), dtype=np.float32)
    # Every process looks at the same classes in the same order, also at those of others alone.
    rows_here = rows_by_class(labels)
    for label in np.unique(here.gather(labels)).tolist():
        rows = rows_here.get(label, np.empty(0, dtype=np.int64))
        points[rows] = two_components(shared(as_logits(probabilities[rows])))
    return replace(found, points=here.gather(points))


def clustered(
    outputs: Tensor,
    labels_here: np.ndarray,
    labels: np.ndarray,
    predicted: np.ndarray,
    task: Task,
    stages: Stages,
    options: ClusteringOptions,
) -> tuple[Groups, dict[Any, Block]]:
    """The groups of training examples by their outputs, and the evidence of each class's block.

    Parameters
    ----------
    outputs, labels_here
        Of this process's share of the examples.
    labels, predicted
        Of all examples.
    """
    with stages.timed("inference"):
        groups = _found(outputs.numpy(), labels_here, labels, stages.seed, options)
        blocks = blocks_of(clusters_of(groups), labels, predicted)
    given = given_powers(options.power, task)
    if given:
        groups = groups.with_powers({label: given[label] for label in groups.evidence})
    elif weighs_by_evidence(options):
        groups = groups.with_powers({label: block.power for label, block in blocks.items()})
    return groups, blocks


def _found(
    outputs: np.ndarray,
    labels_here: np.ndarray,
    labels: np.ndarray,
    seed: int,
    options: ClusteringOptions,
) -> Groups:
    """The groups of all examples, each process having the outputs of its share."""
    how: dict[str, Any] = {
        "k": options.k or None,
        "k_max": options.k_max,
        "clusterer": options.clusterer,
        "seed": seed,
    }
    world, here = current(), shared(outputs)
    with warnings.catch_warnings():
        # These may be dropped for others: of those that are used, `warn_of_concerns` tells.
        warnings.simplefilter("ignore", SpareWarning)
        if world.size > 1 and options.clusterer in OF_MANY:
            groups = processes.infer_groups(outputs, labels_here, group=world.group, **how)
            ids = here.gather(groups.ids)
            return world.once(lambda: replace(groups, ids=ids, labels=labels))
        outputs = here.gather(outputs)  # others need all examples of a class in one place
        return world.once(lambda: infer_groups(outputs, labels, **how))


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
