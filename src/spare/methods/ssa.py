"""SSA: spread spurious attribute.

Nam, Kim, Lee, Shin: Spread Spurious Attribute: Improving Worst-group Accuracy with Spurious
Attribute Estimation, ICLR 2022.

    halve the validation split, whose attributes are known: one half to learn from, one to select by
    divide the training split into 3 folds; for each of them
        learn to predict the attribute from the labeled half and, by pseudo-labels, from the two
        other folds (objectives/pseudo_labels.py) until the worst group of the other half has not
        become better for a while; keep the weights with which it was best; predict the attribute
        of the fold
    train with Group DRO over the groups (label, predicted attribute)

Several attributes are predicted as one, their product. Groups of held-out examples are predicted
too, validation's included: by the mean of the three predictors' probabilities, among the groups
that the class has in training.

A predictor has converged when `attribute_patience` checks in a row, `attribute_check` steps apart,
were no better than the best before them; `attribute_steps` is the most that it may take, and one
that was still becoming better then gets a warning.

Departures: the weights are compared at every check and not at every step; the halves are stratified
by group and the folds by class; labeled examples are not augmented where the validation split is
not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from spare.data.folds import folds, halves
from spare.data.inputs import ConcatInputs
from spare.data.task import Split, Task
from spare.errors import InputError, SpareWarning
from spare.groups.result import groups_from_parts
from spare.limits import Count, NotNegative, Share, check_ranges
from spare.methods.gdro import TRAINER as GDRO
from spare.methods.method import Inference, Inferred, combined, sees
from spare.methods.reference import OwnDecay, refuse_outputs
from spare.models import Classifier
from spare.objectives.pseudo_labels import pseudo_label_loss
from spare.training.batches import paired
from spare.training.loop import Trained
from spare.training.selection import Epoch, Rule, worst_accuracy
from spare.training.settings import early_settings
from spare.training.stages import Stages

FOLDS = 3
#: What the history calls the score of a check.
RULE = "attribute_worst_group"


@dataclass(frozen=True)
class SsaOptions:
    #: The most steps of each of the three attribute predictors, rounded up to whole checks; a step
    #: takes a batch with the attribute and one without.
    attribute_steps: Count = 10_000
    #: Steps from one comparison of their weights on the selection half to the next.
    attribute_check: Count = 250
    #: Comparisons in a row without a better one after which a predictor has converged.
    attribute_patience: Count = 6
    #: tau: how sure a predictor must be of an example of the rarest group to learn from it.
    attribute_confidence: Share = 0.95
    #: Learning rate and weight decay of the predictors; 0 and -1 for those of the settings.
    attribute_lr: NotNegative = 0.0
    attribute_weight_decay: OwnDecay = -1.0

    def __post_init__(self) -> None:
        check_ranges(self)


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
) -> tuple[Trained, dict[str, Any]]:
    """The predictor for a fold, with the weights of the check that is best on the worst group."""
    both = Split(
        ConcatInputs(labeled.split.inputs, unlabeled.inputs),
        np.concatenate([labeled.split.labels, unlabeled.labels]),
    )
    attribute_task = _with_outputs(
        replace(task, train=both, val=selection.split, test=None), values
    )
    checks = math.ceil(options.attribute_steps / options.attribute_check)
    settings = early_settings(stages.settings, options.attribute_lr, options.attribute_weight_decay)

    def score(epoch: Epoch) -> float:
        right = epoch.logits.argmax(1) == selection.attributes
        return worst_accuracy(right, selection.groups)

    trained = stages.train(
        f"early/attribute-{fold}",
        attribute_task,
        paired(len(labeled.groups), len(unlabeled), settings.batch_size, options.attribute_check),
        settings=replace(settings, epochs=checks, accumulate=1),
        objective=pseudo_label_loss(
            labeled.split.labels, labeled.attributes, values, options.attribute_confidence
        ),
        select=Rule(RULE, "best attribute of the worst group", "val groups", score),
        patience=options.attribute_patience,
        weight_seed=fold,
    )
    best = trained.kept[RULE]
    done = len(trained.history)
    note = {
        "worst_group": trained.history[best.epoch - 1][RULE],
        "steps": best.epoch * options.attribute_check,
        "converged": done - best.epoch >= options.attribute_patience,
    }
    _warn(fold, note, values, options)
    return replace(trained, last=best.state), note


def _warn(fold: int, note: dict[str, Any], values: int, options: SsaOptions) -> None:
    share = note["worst_group"]
    if share <= 1 / values:
        text = (
            f"gets only {share:.0%} of a validation group right, no more than guessing would: "
            f"raise attribute_steps, or change attribute_lr."
        )
    elif share < 1 and not note["converged"]:
        text = (
            f"was still becoming better after {options.attribute_steps} steps ({share:.1%} of its "
            f"worst validation group are right): raise attribute_steps."
        )
    else:
        return
    warnings.warn(
        f"ssa's attribute predictor of fold {fold + 1} {text}", SpareWarning, stacklevel=2
    )


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


def _with_outputs(task: Task, count: int) -> Task:
    """The task with a model that predicts so many values, where those are not its classes."""
    if task.build_model is None:
        raise InputError(f"task {task.name!r} has no model: give it a build_model.")
    return replace(task, build_model=partial(_with_head, task.build_model, count))


def _with_head(build_model: Callable[[], nn.Module], count: int) -> nn.Module:
    model = build_model()
    if not isinstance(model, Classifier):
        raise InputError("a model whose outputs are to be changed must be a spare Classifier.")
    model.head = nn.Linear(model.head.in_features, count)
    return model


INFERENCE = Inference("ssa", sees("val"), infer, SsaOptions)
METHOD = combined(
    INFERENCE,
    GDRO,
    name="ssa",
    title="spread spurious attribute: learn it from validation's, predict training's, Group DRO",
    paper="Nam et al. 2022",
    cost="1x + at most 6 attribute_steps / steps",
)
