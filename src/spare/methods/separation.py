"""When SPARE separates the groups: the early epochs that are tried, and which of them is used.

- separate_at=T: after T epochs, as in the paper.
- separate_at=val: the candidate epoch that finds most of validation's true minorities.
- separate_at=auto: the candidate epoch after which classes fall apart most clearly; starts over
  from other initial weights while some class does not. Uses no group label.
- cross_fit=N: outputs of models that did not see the example; tries learning rates, not epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from spare.data.folds import halves
from spare.data.task import Split, Task
from spare.errors import InputError
from spare.groups.clusters import CLEAR_SILHOUETTE
from spare.groups.result import Groups
from spare.groups.weights import GroupSampling
from spare.limits import Count, NotNegative, Positive, Range
from spare.methods.method import EarlyOutputs
from spare.methods.outputs import ClusteringOptions, clustered
from spare.methods.reference import OwnDecay, early_settings
from spare.training.batches import weighted
from spare.training.loop import Trained
from spare.training.outputs import Outputs
from spare.training.stages import Stages

#: In fewer steps than this a network learns nothing, not even a shortcut.
LEAST_STEPS = 25


@dataclass(frozen=True)
class SeparationOptions(ClusteringOptions):
    #: T_init: an epoch, or "val" (by validation groups) or "auto" (no group label) to choose one.
    separate_at: Count | str = "auto"
    #: Epochs among which "val" and "auto" choose. Where an epoch is shorter than 25 steps, they
    #: are multiplied until the first has as many, because nothing is learned before.
    candidates: tuple[Count, ...] = (1, 2)
    #: "auto" only: how often to start over from other initial weights while some class does not
    #: fall apart clearly (silhouette below 0.9) at any candidate epoch.
    restarts: Annotated[int, Range(0, 1000)] = 1
    #: Learning rate and weight decay of the early epochs; 0 and -1 for those of the settings.
    early_lr: NotNegative = 0.0
    early_weight_decay: OwnDecay = -1.0
    #: How often the training set is halved so that each example's output comes from models that
    #: did not see it; 0 for the outputs of one model that saw all. For heads on given features,
    #: which fit the examples that they are trained on too soon.
    cross_fit: Annotated[int, Range(0, 1000)] = 0
    #: With cross_fit: learning rates tried in turn until every class falls apart clearly.
    early_lrs: tuple[Positive, ...] = (0.001, 0.003, 0.01, 0.03, 0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.separate_at, str) and self.separate_at not in ("val", "auto"):
            raise InputError(f"separate_at is an epoch, 'val' or 'auto', not {self.separate_at!r}.")
        if self.cross_fit and (self.separate_at != "auto" or self.output == "features"):
            raise InputError(
                "cross_fit averages softmax outputs or logits and chooses when to separate by "
                "itself: use it with output=softmax or logits and separate_at=auto."
            )
        if not self.candidates or not self.early_lrs:
            raise InputError("candidates and early_lrs need at least one number each.")

    def epochs_tried(self, steps: int) -> list[int]:
        """The epochs after which groups are inferred, when an epoch has this many steps."""
        if isinstance(self.separate_at, int):
            return [self.separate_at]
        factor = math.ceil(LEAST_STEPS / steps)
        return sorted({factor * epoch for epoch in self.candidates})


@dataclass(frozen=True)
class Separation:
    """Groups that were inferred from early outputs, and the models that gave these outputs."""

    weight_seed: int
    epoch: int
    lr: float
    #: One, or with cross-fitting one for each half.
    models: tuple[Trained, ...]
    groups: Groups
    #: Of the training examples.
    logits: Tensor

    def outputs(self, stages: Stages, split: Split, options: ClusteringOptions) -> Tensor:
        """What is clustered, for held-out examples: from the mean of the models' logits."""
        of_models = [stages.outputs(model, split) for model in self.models]
        if len(of_models) == 1:
            return of_models[0].named(options.output)
        logits = torch.stack([outputs.logits for outputs in of_models]).mean(0)
        return Outputs(logits, logits).named(options.output)

    def assign(self, stages: Stages, split: Split, options: ClusteringOptions) -> np.ndarray:
        """The groups of held-out examples."""
        return self.groups.assign(self.outputs(stages, split, options), split.labels)


#: (epoch, number of the initial weights, name of a shorter stage to continue from)
Separate = Callable[[int, int, str], Separation]


def separations(
    task: Task, stages: Stages, options: SeparationOptions, separate: Separate
) -> list[Separation]:
    """All that are tried: one per candidate epoch, and more where `auto` starts over."""
    if options.cross_fit:
        return _cross_fitted(task, stages, options)
    epochs = options.epochs_tried(math.ceil(len(task.train) / stages.settings.batch_size))
    tried: list[Separation] = []
    for weight_seed in range(1 + (options.restarts if options.separate_at == "auto" else 0)):
        continues = ""
        for epoch in epochs:
            tried.append(separate(epoch, weight_seed, continues))
            continues = tried[-1].models[0].name
        if clarity(clearest(tried).groups) >= CLEAR_SILHOUETTE:
            break
    return tried


def _cross_fitted(task: Task, stages: Stages, options: SeparationOptions) -> list[Separation]:
    """Each example's output from models of one epoch that were trained on the other half.

    A low rate learns too little to separate anything, a high one too much: rates are tried from the
    lowest up, until every class falls apart clearly.
    """
    tried: list[Separation] = []
    labels = np.asarray(task.train.labels)
    for lr in sorted(options.early_lrs):
        settings = early_settings(stages.settings, lr, options.early_weight_decay)
        settings = replace(settings, epochs=1)
        logits = torch.zeros(len(labels), len(task.class_names))
        models: list[Trained] = []
        for fold, (rows, others) in enumerate(_halvings(labels, options.cross_fit, stages.seed)):
            model = stages.train(
                f"early/{lr:g}-{fold}",
                replace(task, train=task.train.subset(rows)),
                # Classes in equal numbers, or a rare one is learned too little to fall apart.
                weighted(GroupSampling(labels[rows]), len(rows), settings.batch_size),
                settings=settings,
                weight_seed=fold,
            )
            logits[others] += stages.outputs(model, task.train.subset(others)).logits
            models.append(model)
        outputs = Outputs(logits / options.cross_fit, logits)
        groups = clustered(outputs.named(options.output), task, stages, options)
        tried.append(Separation(0, 1, lr, tuple(models), groups, outputs.logits))
        if clarity(groups) >= CLEAR_SILHOUETTE:
            break
    return tried


def _halvings(labels: np.ndarray, times: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`times` random halvings, each class in half: what to train on, and what to look at."""
    rng = np.random.default_rng([seed, 0xF01D])
    # The only example of a class is trained on in both halves: no model can do without its class.
    alone = np.flatnonzero(np.bincount(labels)[labels] == 1)
    for _ in range(times):
        first, second = halves(labels, rng)
        yield np.union1d(first, alone), second
        yield np.union1d(second, alone), first


def choose(
    tried: Sequence[Separation], task: Task, stages: Stages, options: SeparationOptions
) -> Separation:
    """The separation whose groups are used; the earliest of those that are equally good."""
    if options.separate_at != "val":
        return clearest(tried)
    if task.val is None:
        raise InputError("separate_at='val' needs a validation split with group labels.")
    val, true_groups = task.val, task.groups(task.val)

    def recall(separation: Separation) -> float:
        assigned = separation.assign(stages, val, options)
        return smallest_recall(val.labels, true_groups, separation.groups.in_majority(assigned))

    return max(tried, key=recall)


def smallest_recall(labels: np.ndarray, groups: np.ndarray, majority: np.ndarray) -> float:
    """The smallest share, over classes, of the true minority that is inferred as minority.

    Validation groups may be balanced, so a class's true majority cannot be told by its size there:
    it is the true group that lies most in the inferred majority.
    """
    recalls = []
    for label in np.unique(labels):
        in_class = labels == label
        inside = {group: majority[groups == group].mean() for group in np.unique(groups[in_class])}
        true_majority = max(inside, key=lambda group: inside[group])
        minority = in_class & (groups != true_majority)
        if minority.any():
            recalls.append((~majority[minority]).mean())
    return float(min(recalls, default=0.0))


def clearest(tried: Sequence[Separation]) -> Separation:
    return max(tried, key=lambda separation: clarity(separation.groups))


def clarity(groups: Groups) -> float:
    """How clearly the least clear class falls apart: the smallest silhouette over classes."""
    scores = [evidence.silhouette for evidence in groups.evidence.values()]
    return min((score for score in scores if score is not None), default=0.0)


def early_outputs(tried: Sequence[Separation], chosen: Separation) -> tuple[EarlyOutputs, ...]:
    """What the chosen early training said at each epoch that was tried, the chosen epoch last."""
    same_training = [
        separation
        for separation in tried
        if separation.weight_seed == chosen.weight_seed and separation is not chosen
    ]
    if len(chosen.models) > 1:  # learning rates were tried there, not epochs
        same_training = []
    return tuple(
        EarlyOutputs(separation.epoch, separation.logits.softmax(1).numpy(), separation.groups)
        for separation in [*same_training, chosen]
    )
