"""SSA: spread spurious attribute.

Nam, Kim, Lee, Shin: Spread Spurious Attribute: Improving Worst-group Accuracy with Spurious
Attribute Estimation, ICLR 2022.

    halve the validation split, whose attributes are known: one half to learn from, one to select by
    divide the training split into 3 folds; for each of them
        learn to predict the attribute from the labeled half and, by pseudo-labels, from the two
        other folds (objectives/pseudo_labels.py); keep the weights with the best accuracy on the
        worst group of the other half; predict the attribute of the fold
    train with Group DRO over the groups (label, predicted attribute)

Several attributes are predicted as one, their product. Groups of held-out examples are predicted
too, validation's included: by the mean of the three predictors' probabilities, among the groups
that the class has in training.

Departures: the weights are compared at a few evenly spaced steps; the halves are stratified by
group and the folds by class; labeled examples are not augmented where the validation split is not.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch

from spare.data.folds import folds, halves
from spare.data.inputs import ConcatInputs
from spare.data.task import Split, Task
from spare.errors import InputError, SpareWarning
from spare.groups.result import groups_from_parts
from spare.limits import Count, NotNegative, Share, check_ranges
from spare.methods.gdro import TRAINER as GDRO
from spare.methods.method import Inference, Inferred, combined, sees
from spare.methods.reference import OwnDecay, early_settings, refuse_outputs
from spare.objectives.pseudo_labels import pseudo_label_loss
from spare.training.batches import paired
from spare.training.loop import Trained
from spare.training.selection import worst_accuracy
from spare.training.stages import Stages, with_outputs

FOLDS = 3


@dataclass(frozen=True)
class SsaOptions:
    #: Steps of each of the three attribute predictors, rounded up to a multiple of the checks; a
    #: step takes a batch with the attribute and one without.
    attribute_steps: Count = 1000
    #: How often their weights are compared on the selection half, at evenly spaced steps.
    attribute_checks: Count = 5
    #: tau: how sure a predictor must be of an example of the rarest group to learn from it.
    attribute_confidence: Share = 0.95
    #: Learning rate and weight decay of the predictors; 0 and -1 for those of the settings.
    attribute_lr: NotNegative = 0.0
    attribute_weight_decay: OwnDecay = -1.0

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.attribute_checks > self.attribute_steps:
            raise InputError(
                f"attribute_checks is from 1 to attribute_steps ({self.attribute_steps}), not "
                f"{self.attribute_checks}."
            )


@dataclass(frozen=True)
class _Half:
    """One half of the validation split."""

    split: Split
    groups: np.ndarray
    #: All attributes as one number below the number of outputs.
    attributes: np.ndarray


def infer(task: Task, stages: Stages, options: SsaOptions) -> Inferred:
    refuse_outputs(task)
    train = replace(task.train, attributes=None)
    labels = np.asarray(train.labels)
    values = math.prod(len(names) for names in task.attribute_values.values())
    labeled, selection = _halves(task, values, stages.seed)
    fold_of = _folds(labels, stages.seed)
    held_out = {name: split for name, split in task.splits().items() if name != "train"}
    probabilities = {name: torch.zeros(len(split), values) for name, split in held_out.items()}
    predicted = np.empty(len(labels), dtype=np.int64)
    notes = []
    for fold in range(FOLDS):
        inside, outside = (np.flatnonzero(rows) for rows in (fold_of == fold, fold_of != fold))
        predictor, note = _train_predictor(
            fold, task, labeled, train.subset(outside), selection, values, stages, options
        )
        notes.append(note)
        predicted[inside] = stages.outputs(predictor, train.subset(inside)).logits.argmax(1).numpy()
        for name, split in held_out.items():
            probabilities[name] += stages.outputs(predictor, split).probabilities / FOLDS
    with stages.timed("inference"):
        sizes = np.zeros((len(task.class_names), values), dtype=np.int64)
        np.add.at(sizes, (labels, predicted), 1)
        # By class and attribute: the largest group of a class first, those without examples last.
        ranks = np.argsort(np.argsort(-sizes, axis=1, kind="stable"), axis=1)
        groups = groups_from_parts(ranks[labels, predicted], labels)
        first_ids = np.array([groups.evidence[label].first_id for label in range(len(sizes))])

        def assigned(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
            attribute = np.where(sizes[labels] > 0, probabilities, -1).argmax(1)
            return np.asarray(first_ids[labels] + ranks[labels, attribute])

        return Inferred(
            groups,
            {
                name: assigned(np.asarray(split.labels), probabilities[name].numpy())
                for name, split in held_out.items()
            },
            {"attribute_predictors": notes},
        )


def _train_predictor(
    fold: int,
    task: Task,
    labeled: _Half,
    unlabeled: Split,
    selection: _Half,
    values: int,
    stages: Stages,
    options: SsaOptions,
) -> tuple[Trained, dict[str, float]]:
    """The predictor for a fold, with the weights of the check that is best on the worst group."""
    both = Split(
        ConcatInputs(labeled.split.inputs, unlabeled.inputs),
        np.concatenate([labeled.split.labels, unlabeled.labels]),
    )
    attribute_task = with_outputs(replace(task, train=both, val=None, test=None), values)
    steps = math.ceil(options.attribute_steps / options.attribute_checks)
    settings = early_settings(stages.settings, options.attribute_lr, options.attribute_weight_decay)
    best: Trained | None = None
    note = {"worst_group": -1.0, "steps": 0}
    continues = ""
    for check in range(1, options.attribute_checks + 1):
        trained = stages.train(
            f"early/attribute-{fold}-{check}",
            attribute_task,
            paired(len(labeled.groups), len(unlabeled), settings.batch_size, steps),
            settings=replace(settings, epochs=check, accumulate=1),
            objective=pseudo_label_loss(
                labeled.split.labels, labeled.attributes, values, options.attribute_confidence
            ),
            continues=continues,
            weight_seed=fold,
        )
        continues = trained.name
        predictions = stages.outputs(trained, selection.split).logits.argmax(1).numpy()
        worst = worst_accuracy(predictions == selection.attributes, selection.groups)
        if best is None or worst > note["worst_group"]:
            best, note = trained, {"worst_group": worst, "steps": check * steps}
        if worst == 1:  # no later check can be better
            break
    assert best is not None
    if note["worst_group"] <= 1 / values:
        warnings.warn(
            f"ssa's attribute predictor of fold {fold + 1} gets only {note['worst_group']:.0%} of "
            f"a validation group right, no more than guessing would: raise attribute_steps, or "
            f"change attribute_lr.",
            SpareWarning,
            stacklevel=2,
        )
    return best, note


def _halves(task: Task, values: int, seed: int) -> tuple[_Half, _Half]:
    """Two random halves of the validation split, every group in both."""
    if task.val is None or not task.val.attributes:
        raise InputError(
            f"ssa learns from the group labels of a validation split, and task {task.name!r} has "
            f"none: give it some, or use a method that needs none, such as spare."
        )
    val, groups = task.val, task.groups(task.val)
    names, sizes = np.unique(groups, return_counts=True)
    if sizes.min() < 2:
        raise InputError(
            f"validation group {task.group_names[names[sizes.argmin()]]!r} has one example, but "
            f"ssa learns from one half of every group and selects by the other half: add examples "
            f"to it, or leave it out."
        )
    if len(np.unique(groups % values)) < 2:
        raise InputError(
            f"all validation examples of task {task.name!r} have the same attribute, so ssa has "
            f"nothing to learn: add examples of other groups, or use a method such as spare."
        )
    first, second = halves(groups, np.random.default_rng([seed, 0x55A, 0]))

    def half(rows: np.ndarray) -> _Half:
        return _Half(val.subset(rows), groups[rows], groups[rows] % values)

    return half(first), half(second)


def _folds(labels: np.ndarray, seed: int) -> np.ndarray:
    """The fold of every training example: random, every class in all of them."""
    if len(labels) < FOLDS:
        raise InputError(
            f"ssa divides the training split into {FOLDS} folds, and there are {len(labels)} "
            f"examples: add some."
        )
    return folds(labels, FOLDS, np.random.default_rng([seed, 0x55A, 1]))


INFERENCE = Inference("ssa", sees("val"), infer, SsaOptions)
METHOD = combined(
    INFERENCE,
    GDRO,
    name="ssa",
    title="spread spurious attribute: learn it from validation's, predict training's, Group DRO",
    paper="Nam et al. 2022",
    cost="1x + at most 6 attribute_steps / steps",
)
