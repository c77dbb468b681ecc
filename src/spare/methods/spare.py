"""SPARE: separate early, then resample.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024.

    train plainly for T_init epochs; take every training example's output (eval, un-augmented)
    cluster the outputs of each class (groups/clusters.py)
    train a fresh model, drawing i of cluster V in class c with probability ~ |V|^-power_c,
    every class the same mass
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spare.batches import shuffled, weighted
from spare.errors import InputError
from spare.groups.clusters import CLEAR_SILHOUETTE, Groups, infer_groups
from spare.methods.method import Fitted, Method
from spare.stages import Stages
from spare.task import Task
from spare.train import Trained
from spare.weights import GroupDraw


@dataclass(frozen=True)
class SpareOptions:
    #: T_init: an epoch, or "val" (by validation groups) or "auto" (no group label) to choose one.
    separate_at: int | str = "auto"
    #: Epochs among which "val" and "auto" choose.
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
    #: Go on from the early weights instead of starting afresh.
    warm_start: bool = False
    #: Learning rate and weight decay of the early epochs; 0 and -1 for those of the settings.
    early_lr: float = 0.0
    early_weight_decay: float = -1.0

    def __post_init__(self) -> None:
        if isinstance(self.separate_at, str) and self.separate_at not in ("val", "auto"):
            raise InputError(f"separate_at is an epoch, 'val' or 'auto', not {self.separate_at!r}.")
        if not self.candidates or min(self.epochs_tried()) < 1:
            raise InputError("the groups can be separated after epoch 1 at the earliest.")

    def epochs_tried(self) -> list[int]:
        if isinstance(self.separate_at, int):
            return [self.separate_at]
        return sorted(set(self.candidates))


def fit(task: Task, stages: Stages, options: SpareOptions) -> Fitted:
    chosen = _choose(separations(task, stages, options), task, stages, options)
    groups = chosen.groups
    with stages.timed("inference"):
        batches = weighted(GroupDraw(groups), len(task.train), stages.settings.batch_size)
    held_out = None
    if stages.needs_inferred_groups and task.val is not None:
        outputs = stages.outputs(chosen.model, task.val).named(options.output)
        held_out = groups.assign(outputs, task.val.labels)
    trained = stages.train(
        "train",
        task,
        batches,
        # The groups are those of a model that started here, so the second training starts here too.
        initial=chosen.initial,
        start=chosen.model.last if options.warm_start else None,
        inferred_groups=held_out,
    )
    return Fitted(trained, groups, {"separated_at": chosen.epoch, "initial": chosen.initial})


@dataclass(frozen=True)
class Separation:
    """Groups inferred after one epoch of one early training."""

    initial: int
    epoch: int
    model: Trained
    groups: Groups


def separations(task: Task, stages: Stages, options: SpareOptions) -> list[Separation]:
    """Train plainly and cluster at each candidate epoch; `auto` may start over and add more."""
    tried: list[Separation] = []
    attempts = 1 + (options.restarts if options.separate_at == "auto" else 0)
    for initial in range(attempts):
        tried += _early_training(task, stages, options, initial)
        if clarity(clearest(tried).groups) >= CLEAR_SILHOUETTE:
            break
    return tried


def _early_training(
    task: Task, stages: Stages, options: SpareOptions, initial: int
) -> list[Separation]:
    """Plain training to the last candidate epoch, with groups from each candidate."""
    settings = replace(
        stages.settings,
        schedule="constant",
        warmup_epochs=0.0,
        ema=0.0,
        lr=options.early_lr or stages.settings.lr,
        weight_decay=(
            stages.settings.weight_decay
            if options.early_weight_decay < 0
            else options.early_weight_decay
        ),
    )
    batches = shuffled(len(task.train), settings.batch_size)
    found = []
    earlier = None
    for epoch in options.epochs_tried():
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
        outputs = stages.outputs(model, task.train).named(options.output)
        with stages.timed("inference"):
            groups = infer_groups(
                outputs,
                task.train.labels,
                k=options.k or None,
                k_max=options.k_max,
                power=_powers(options.power, task),
                seed=stages.seed,
            )
        found.append(Separation(initial, epoch, model, groups))
    return found


def _powers(power: Sequence[float], task: Task) -> dict[int, float] | None:
    classes = len(task.class_names)
    if not power:
        return None
    if len(power) not in (1, classes):
        raise InputError(
            f"power needs one number or one for each of {classes} classes, not {len(power)}."
        )
    return {label: power[label % len(power)] for label in range(classes)}


def _choose(
    tried: list[Separation], task: Task, stages: Stages, options: SpareOptions
) -> Separation:
    """The separation whose groups are used; the earliest among equals."""
    if options.separate_at != "val":
        return clearest(tried)
    if task.val is None:
        raise InputError("separate_at='val' needs a validation split with group labels.")
    val, true_groups = task.val, task.groups(task.val)

    def recall(one: Separation) -> float:
        outputs = stages.outputs(one.model, val).named(options.output)
        assigned = one.groups.assign(outputs, val.labels)
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


METHOD = Method(
    name="spare",
    title="SPARE: cluster early outputs, sample clusters by inverse size",
    paper="Yang et al. 2024",
    sees=lambda options: "val" if options.separate_at == "val" else "none",
    fit=fit,
    options=SpareOptions,
    infers_groups=True,
)
