"""SPARE: separate early, then resample.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024.

    train plainly for T_init epochs; take every training example's output (eval, un-augmented)
    cluster the outputs of each class (groups/clusters.py)
    train a fresh model, drawing i of cluster V in class c with probability ~ |V|^-power_c,
    every class the same mass
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from spare.data.folds import halves
from spare.data.task import Split, Task
from spare.errors import InputError, SpareWarning, unknown
from spare.findings.describe import Look
from spare.groups.clusters import CLEAR_SILHOUETTE, concerns, infer_groups
from spare.groups.result import Groups
from spare.groups.weights import CLASS_MASSES, GroupDraw
from spare.methods.method import Inference, Inferred, Trainer, combined
from spare.methods.reference import early_settings
from spare.training.batches import shuffled, weighted
from spare.training.loop import Objective, Trained, cross_entropy
from spare.training.outputs import Outputs
from spare.training.settings import Settings
from spare.training.stages import Stages

#: In fewer steps than this a network learns nothing, not even a shortcut.
LEAST_STEPS = 25


@dataclass(frozen=True)
class SeparationOptions:
    #: T_init: an epoch, or "val" (by validation groups) or "auto" (no group label) to choose one.
    separate_at: int | str = "auto"
    #: Epochs among which "val" and "auto" choose. Where an epoch is shorter than 25 steps, so many
    #: more that nothing is looked at before it was learned.
    candidates: tuple[int, ...] = (1, 2)
    #: "auto" only: how often to start over from other initial weights while some class does not
    #: fall apart clearly (silhouette below 0.9) at any candidate epoch.
    restarts: int = 1
    #: What is clustered: softmax, logits or features (the layer before the last).
    output: str = "softmax"
    #: A fixed number of clusters a class; 0 to search 2..k_max by silhouette.
    k: int = 0
    k_max: int = 5
    #: Sampling power: empty for the silhouette rule, one number for all classes, or one a class.
    power: tuple[float, ...] = ()
    #: Learning rate and weight decay of the early epochs; 0 and -1 for those of the settings.
    early_lr: float = 0.0
    early_weight_decay: float = -1.0
    #: How often the training set is halved so that each example's output comes from models that
    #: did not see it; 0 for the outputs of one model that saw all. For heads on given features,
    #: which fit the examples that they are trained on too soon.
    cross_fit: int = 0
    #: With cross_fit: learning rates tried in turn until every class falls apart clearly.
    early_lrs: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1)

    def __post_init__(self) -> None:
        if isinstance(self.separate_at, str) and self.separate_at not in ("val", "auto"):
            raise InputError(f"separate_at is an epoch, 'val' or 'auto', not {self.separate_at!r}.")
        if self.cross_fit and (self.separate_at != "auto" or self.output == "features"):
            raise InputError(
                "cross_fit averages softmax outputs or logits and chooses when to separate by "
                "itself: use it with output=softmax or logits and separate_at=auto."
            )
        if not self.candidates or min(self.epochs_tried(LEAST_STEPS)) < 1:
            raise InputError("the groups can be separated after epoch 1 at the earliest.")

    def epochs_tried(self, steps: int) -> list[int]:
        """The epochs after which groups are inferred, when an epoch has this many steps."""
        if isinstance(self.separate_at, int):
            return [self.separate_at]
        longer = math.ceil(LEAST_STEPS / steps)
        return sorted({longer * epoch for epoch in self.candidates})


@dataclass(frozen=True)
class SamplingOptions:
    #: Mass of a class: equal (the paper's) or natural, the share of the examples that it has.
    class_mass: str = "equal"
    #: Go on from the early weights instead of starting afresh.
    warm_start: bool = False

    def __post_init__(self) -> None:
        if self.class_mass not in CLASS_MASSES:
            raise unknown("class_mass", self.class_mass, CLASS_MASSES)


def infer(task: Task, stages: Stages, options: SeparationOptions) -> Inferred:
    tried = separations(task, stages, options)
    chosen = choose(tried, task, stages, options)
    for concern in concerns(chosen.groups, task.class_names):
        warnings.warn(concern, SpareWarning, stacklevel=2)
    return Inferred(
        chosen.groups,
        assigned(chosen, task, stages, options),
        {"separated_at": chosen.epoch, "initial": chosen.initial, "early_lr": chosen.lr},
        # The groups are those of a model that started here, so the second training starts here too.
        initial=chosen.initial,
        early=chosen.models[0].last if len(chosen.models) == 1 else None,
        looks=looks(tried, chosen),
    )


def train(
    task: Task,
    stages: Stages,
    found: Inferred,
    options: SamplingOptions,
    *,
    objective: Objective = cross_entropy,
) -> tuple[Trained, np.ndarray]:
    if options.warm_start and found.early is None:
        raise InputError("warm_start needs one early model to go on from, and there is none.")
    with stages.timed("inference"):
        draw = GroupDraw(found.groups, class_mass=options.class_mass)
        batches = weighted(draw, len(task.train), stages.settings.batch_size)
    trained = stages.train(
        "train",
        task,
        batches,
        objective=objective,
        initial=found.initial,
        start=found.early if options.warm_start else None,
        inferred_groups=found.held_out.get("val"),
    )
    return trained, draw.probabilities


@dataclass(frozen=True)
class Separation:
    """Groups inferred after one epoch of one early training, or of several on halves of it."""

    initial: int
    epoch: int
    lr: float
    models: tuple[Trained, ...]
    groups: Groups
    #: Of the training examples.
    logits: Tensor

    def outputs(self, stages: Stages, split: Split, options: SeparationOptions) -> Tensor:
        """What is clustered, for held-out examples: the mean of the models' logits."""
        return _mean([stages.outputs(model, split) for model in self.models]).named(options.output)


def assigned(
    chosen: Separation, task: Task, stages: Stages, options: SeparationOptions
) -> dict[str, np.ndarray]:
    """The inferred groups of val and test: for selection, and for scores where no true ones are."""
    return {
        name: chosen.groups.assign(chosen.outputs(stages, split, options), split.labels)
        for name, split in task.splits().items()
        if name != "train"
    }


def separations(task: Task, stages: Stages, options: SeparationOptions) -> list[Separation]:
    """Train plainly and cluster at each candidate epoch; `auto` may start over and add more."""
    if options.cross_fit:
        return _cross_fitted(task, stages, options)
    tried: list[Separation] = []
    attempts = 1 + (options.restarts if options.separate_at == "auto" else 0)
    for initial in range(attempts):
        tried += _early_training(task, stages, options, initial)
        if clarity(clearest(tried).groups) >= CLEAR_SILHOUETTE:
            break
    return tried


def _early_training(
    task: Task, stages: Stages, options: SeparationOptions, initial: int
) -> list[Separation]:
    """Plain training to the last candidate epoch, with groups from each candidate."""
    settings = _early_settings(stages, options)
    batches = shuffled(len(task.train), settings.batch_size)
    found = []
    earlier = None
    steps = math.ceil(len(task.train) / settings.batch_size)
    for epoch in options.epochs_tried(steps):
        name = f"early-{initial}-{epoch}"
        model = stages.train(
            name,
            task,
            batches,
            settings=replace(settings, epochs=epoch),
            start_from=earlier,
            validate=False,
            as_part="early",
            initial=initial,
        )
        earlier = name
        outputs = stages.outputs(model, task.train)
        groups = _infer(outputs, task, stages, options)
        found.append(Separation(initial, epoch, settings.lr, (model,), groups, outputs.logits))
    return found


def _early_settings(stages: Stages, options: SeparationOptions) -> Settings:
    return early_settings(stages.settings, options.early_lr, options.early_weight_decay)


def _cross_fitted(task: Task, stages: Stages, options: SeparationOptions) -> list[Separation]:
    """Each example's output from models of one epoch that were trained on the other half.

    A low rate learns too little to separate anything, a high one too much: rates are tried from the
    lowest up, until every class falls apart clearly.
    """
    tried: list[Separation] = []
    labels = np.asarray(task.train.labels)
    for lr in sorted(options.early_lrs):
        settings = _early_settings(stages, options)
        settings = replace(settings, lr=lr, epochs=1)
        logits = torch.zeros(len(labels), len(task.class_names))
        models: list[Trained] = []
        for fold, (rows, others) in enumerate(_halvings(labels, options.cross_fit, stages.seed)):
            model = stages.train(
                f"early-{lr:g}-{fold}",
                replace(task, train=task.train.some(rows)),
                # Classes in equal numbers, or a rare one is learned too little to fall apart.
                weighted(GroupDraw(labels[rows]), len(rows), settings.batch_size),
                settings=settings,
                validate=False,
                as_part="early",
                initial=fold,
            )
            logits[others] += stages.outputs(model, task.train.some(others)).logits
            models.append(model)
        outputs = Outputs(logits / options.cross_fit, logits)
        groups = _infer(outputs, task, stages, options)
        tried.append(Separation(0, 1, lr, tuple(models), groups, outputs.logits))
        if clarity(groups) >= CLEAR_SILHOUETTE:
            break
    return tried


def _halvings(labels: np.ndarray, times: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`times` random halvings, each class in half; either half, with the other one."""
    rng = np.random.default_rng([seed, 0xF01D])
    for _ in range(times):
        first, second = halves(labels, rng)
        yield first, second
        yield second, first


def _mean(said: list[Outputs]) -> Outputs:
    if len(said) == 1:
        return said[0]
    logits = torch.stack([one.logits for one in said]).mean(0)
    return Outputs(logits, logits)


def _infer(outputs: Outputs, task: Task, stages: Stages, options: SeparationOptions) -> Groups:
    with stages.timed("inference"), warnings.catch_warnings():
        # Of groups that are not chosen nobody needs to know; of the others, `infer` tells.
        warnings.simplefilter("ignore", SpareWarning)
        return infer_groups(
            outputs.named(options.output),
            task.train.labels,
            k=options.k or None,
            k_max=options.k_max,
            power=class_powers(options.power, task),
            seed=stages.seed,
        )


def class_powers(power: Sequence[float], task: Task) -> dict[int, float] | None:
    classes = len(task.class_names)
    if not power:
        return None
    if len(power) not in (1, classes):
        raise InputError(
            f"power needs one number or one for each of {classes} classes, not {len(power)}."
        )
    return {label: power[label % len(power)] for label in range(classes)}


def looks(tried: Sequence[Separation], chosen: Separation) -> tuple[Look, ...]:
    """What was said of the training examples at the epochs of the chosen training, it last."""
    if len(chosen.models) > 1:  # rates were tried there, not epochs
        tried = [chosen]
    own = [one for one in tried if one.initial == chosen.initial and one is not chosen]
    return tuple(
        Look(one.epoch, one.logits.softmax(1).numpy(), one.groups) for one in [*own, chosen]
    )


def choose(
    tried: list[Separation], task: Task, stages: Stages, options: SeparationOptions
) -> Separation:
    """The separation whose groups are used; the earliest among equals."""
    if options.separate_at != "val":
        return clearest(tried)
    if task.val is None:
        raise InputError("separate_at='val' needs a validation split with group labels.")
    val, true_groups = task.val, task.groups(task.val)

    def recall(one: Separation) -> float:
        assigned = one.groups.assign(one.outputs(stages, val, options), val.labels)
        return smallest_recall(val.labels, true_groups, one.groups.in_majority(assigned))

    return max(tried, key=recall)


def smallest_recall(labels: np.ndarray, groups: np.ndarray, majority: np.ndarray) -> float:
    """The smallest share, over classes, of the true minority that is inferred as minority.

    Validation groups may be balanced, so a class's true majority cannot be told by its size there:
    it is the true group that lies most in the inferred majority.
    """
    recalls = []
    for label in np.unique(labels):
        own = labels == label
        inside = {group: majority[groups == group].mean() for group in np.unique(groups[own])}
        most = max(inside, key=lambda group: inside[group])
        minority = own & (groups != most)
        if minority.any():
            recalls.append((~majority[minority]).mean())
    return float(min(recalls, default=0.0))


def clearest(tried: list[Separation]) -> Separation:
    return max(tried, key=lambda one: clarity(one.groups))


def clarity(groups: Groups) -> float:
    """How clearly the least clear class falls apart: the smallest silhouette over classes."""
    scores = [seen.silhouette for seen in groups.evidence.values() if seen.silhouette is not None]
    return min(scores, default=0.0)


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
    title="SPARE: cluster early outputs, sample clusters by inverse size",
    paper="Yang et al. 2024",
    cost="1x + T/epochs",
)
