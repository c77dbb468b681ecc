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
from spare.groups.clusters import Groups, infer_groups
from spare.methods.method import Fitted, Method
from spare.stages import Stages
from spare.task import Task
from spare.train import Trained
from spare.weights import GroupDraw


@dataclass(frozen=True)
class SpareOptions:
    #: T_init: an epoch, or "val" (by validation groups) or "auto" (no group label) to choose one.
    separate_at: int | str = 2
    #: Epochs among which "val" and "auto" choose.
    candidates: tuple[int, ...] = (1, 2)
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
    tried = _separate(task, stages, options)
    epoch = _choose(tried, task, stages, options)
    groups, early = tried[epoch].groups, tried[epoch].model
    batches = weighted(GroupDraw(groups), len(task.train), stages.settings.batch_size)
    held_out = None
    if stages.needs_inferred_groups and task.val is not None:
        outputs = stages.outputs(early, task.val).named(options.output)
        held_out = groups.assign(outputs, task.val.labels)
    start = early.last if options.warm_start else None
    trained = stages.train("train", task, batches, start=start, inferred_groups=held_out)
    return Fitted(trained, groups, {"separated_at": epoch})


@dataclass(frozen=True)
class _Separation:
    groups: Groups
    model: Trained


def _separate(task: Task, stages: Stages, options: SpareOptions) -> dict[int, _Separation]:
    """Train plainly to the last candidate epoch; cluster the outputs at each candidate."""
    settings = replace(
        stages.settings,
        schedule="constant",
        warmup_epochs=0.0,
        lr=options.early_lr or stages.settings.lr,
        weight_decay=(
            stages.settings.weight_decay
            if options.early_weight_decay < 0
            else options.early_weight_decay
        ),
    )
    batches = shuffled(len(task.train), settings.batch_size)
    found: dict[int, _Separation] = {}
    earlier = None
    for epoch in options.epochs_tried():
        name = f"early-{epoch}"
        model = stages.train(
            name,
            task,
            batches,
            settings=replace(settings, epochs=epoch),
            start_from=earlier,
            validate=False,
            as_part="early",
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
        found[epoch] = _Separation(groups, model)
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
    tried: dict[int, _Separation], task: Task, stages: Stages, options: SpareOptions
) -> int:
    """The epoch whose groups are used; the earliest among equals."""
    if len(tried) == 1:
        return next(iter(tried))
    if options.separate_at == "auto":
        return max(tried, key=lambda epoch: clarity(tried[epoch].groups))
    if task.val is None:
        raise InputError("separate_at='val' needs a validation split with group labels.")
    val, true_groups = task.val, task.groups(task.val)

    def recall(epoch: int) -> float:
        outputs = stages.outputs(tried[epoch].model, val).named(options.output)
        assigned = tried[epoch].groups.assign(outputs, val.labels)
        return smallest_recall(val.labels, true_groups, tried[epoch].groups.in_majority(assigned))

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


def clarity(groups: Groups) -> float:
    """How clearly the least clear class falls apart: the smallest silhouette over classes."""
    return min(seen.silhouette or 0.0 for seen in groups.evidence.values())


METHOD = Method(
    name="spare",
    title="SPARE: cluster early outputs, sample clusters by inverse size",
    paper="Yang et al. 2024",
    sees=lambda options: "val" if options.separate_at == "val" else "none",
    fit=fit,
    options=SpareOptions,
    infers_groups=True,
)
