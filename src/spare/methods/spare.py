"""SPARE: separate early, then resample.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024.

    train plainly for T_init epochs; take every training example's output (eval, not augmented)
    cluster the outputs of each class (groups/clusters.py)
    train a fresh model, sampling example i of cluster V in class c with probability ~ |V|^-power_c,
    every class with the same mass

Two methods: `spare`, which looks after every epoch until each class has fallen apart and weighs a
class by the evidence for it (separation.py, groups/blocks.py), and `spare_paper` as published, with
T_init given or chosen by validation groups and the silhouette rule for the powers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from spare.data.task import Task
from spare.errors import InputError, SpareWarning, unknown
from spare.groups.arrays import rows_by_class
from spare.groups.clusterers import clusterer_named
from spare.groups.result import Groups
from spare.groups.weights import CLASS_MASSES, GroupSampling, importance_weights
from spare.limits import check_ranges
from spare.methods.looks import Look, Separation
from spare.methods.method import Fitted, Inference, Inferred, Trainer, combined
from spare.methods.outputs import infer as infer_from_outputs
from spare.methods.outputs import warn_of_concerns
from spare.methods.separation import SeparationOptions, separate
from spare.training.batches import shuffled, weighted
from spare.training.loop import Objective, cross_entropy
from spare.training.stages import Stages

#: A model that is no further above chance than this has learned next to nothing.
HARDLY = 0.02


@dataclass(frozen=True)
class SamplingOptions:
    #: Mass of a class: equal, as in the paper, or natural, the share of the examples that it has.
    class_mass: str = "equal"
    #: Continue from the early weights instead of fresh ones.
    warm_start: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.class_mass not in CLASS_MASSES:
            raise unknown("class_mass", self.class_mass, CLASS_MASSES)


def infer(task: Task, stages: Stages, options: SeparationOptions) -> Inferred:
    """Train a little, and cluster what the model says of each class."""
    if task.holds_outputs:
        return infer_from_outputs(task, stages, options)
    clusterer_named(options.clusterer)  # one that cannot be used is refused before any training
    if options.early_layers == "head":
        task = stages.task_of_features(task)
    separation = separate(task, stages, options)
    warn_of_concerns(separation.groups, task)
    _warn_of_the_early_model(separation)
    last = separation.looks[-1]
    epochs = separation.epochs()
    return Inferred(
        separation.groups,
        {
            name: separation.assign(stages, split, options)
            for name, split in task.splits().items()
            if name != "train"
        },
        {
            "separated_at": max(epochs.values()),
            "separated_at_by_class": {task.class_names[c]: epoch for c, epoch in epochs.items()},
            "early_epochs": last.epoch,
            "early_lr": last.lr,
        },
        early=_one_early_model(last, options),
        early_epoch=last.epoch,
        early_outputs=separation.early_outputs(stages, task.train),
        blocks=dict(separation.blocks),
    )


def _one_early_model(look: Look, options: SeparationOptions) -> dict[str, Tensor] | None:
    """The early model's weights, unless there are several models, or only heads were trained."""
    whole = options.early_layers == "all"
    return look.models[0].last if whole and len(look.models) == 1 else None


def _warn_of_the_early_model(separation: Separation) -> None:
    """Say so where it has learned nothing yet, or everything already: then nothing can be seen."""
    right = separation.predicted() == separation.groups.labels
    # Every class counts the same, or naming the largest one would seem to be something.
    by_class = [right[rows].mean() for rows in rows_by_class(separation.groups.labels).values()]
    share, by_chance = float(np.mean(by_class)), 1 / len(by_class)
    if share == 1:
        text = (
            "the early model is already right on every training example, so no shortcut can be "
            "seen: lower early_lr, or look earlier."
        )
    elif share < by_chance + HARDLY:
        text = (
            f"the early model has learned next to nothing ({100 * share:.1f} % of a class are "
            f"right; by chance it would be {100 * by_chance:.1f} %), so no shortcut can be seen: "
            f"raise early_lr, or early_budget where looks go by epoch."
        )
    else:
        return
    warnings.warn(text, SpareWarning, stacklevel=2)


def train(
    task: Task,
    stages: Stages,
    inferred: Inferred,
    options: SamplingOptions,
    *,
    objective: Objective = cross_entropy,
) -> Fitted:
    """Train a fresh model on examples that are sampled by the inverse size of their cluster.

    Where no class has fallen apart, train it plainly: as ERM would, batch for batch.
    """
    if options.warm_start and inferred.early is None:
        raise InputError("warm_start needs one early model to continue from, and there is none.")
    count, batch_size = len(task.train), stages.settings.batch_size
    with stages.timed("inference"):
        probabilities = sampling_probabilities(inferred.groups, options)
        if probabilities is None:
            batches = shuffled(count, batch_size)
        else:
            sampling = GroupSampling(inferred.groups, class_mass=options.class_mass)
            batches = weighted(sampling, count, batch_size)
    trained = stages.train(
        "train",
        task,
        batches,
        objective=objective,
        start=inferred.early if options.warm_start else None,
    )
    return Fitted(trained, inferred, probabilities)


def sampling_probabilities(groups: Groups, options: SamplingOptions) -> np.ndarray | None:
    """How likely each example is sampled; None where no class has fallen apart, so all alike."""
    if not any(groups.powers().values()):
        return None
    return importance_weights(groups, groups.labels, class_mass=options.class_mass)


INFERENCE = Inference(
    "spare",
    lambda options: "val" if options.separate_at == "val" else "none",
    infer,
    SeparationOptions,
)
TRAINER = Trainer("spare", train, SamplingOptions)
METHOD = combined(
    INFERENCE,
    TRAINER,
    name="spare",
    title="SPARE: cluster early outputs when classes have fallen apart, sample by inverse size",
    paper="Yang et al. 2024",
    cost="1x + T/epochs",
)
