"""From predictions to scores: which epoch is selected, and how each kept epoch does by group.

Apart from methods that declare that they see group labels, this is the only place where group
labels meet predictions.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spare.data.task import Task
from spare.errors import DataError, InputError
from spare.methods import METHODS, Fitted, Method
from spare.records.record import Scores
from spare.text import shown
from spare.training.loop import Kept, Trained
from spare.training.metrics import gaps, group_scores, pattern_shares
from spare.training.outputs import outputs
from spare.training.selection import SMALLEST_INFERRED_GROUP, Epoch, rule_named
from spare.training.settings import Settings
from spare.training.stages import Judge


def check_labels(task: Task, method: Method, sees: str) -> None:
    """Refuse a task that lacks the labels that the method needs."""
    if len(task.class_names) < 2:
        raise DataError(
            f"{task.name} has only one class ({task.class_names[0]}): there is nothing to tell it "
            f"from."
        )
    if sees == "train" and not task.train.attributes:
        raise _lacks_groups(task, method, "training")
    if sees == "val" and task.val is None:
        raise InputError(
            f"{method.name} needs a validation split with group labels, and {task.name} has none."
        )
    if sees == "val" and task.val is not None and not task.val.attributes:
        raise _lacks_groups(task, method, "validation")


def check_rule(task: Task, method: Method, selection: str) -> None:
    """Refuse a selection rule that needs what is not there."""
    rule = rule_named(selection)
    if task.val is None and rule.needs != "nothing":
        raise InputError(
            f"selection rule {rule.name!r} needs a validation split, and {task.name} has none: "
            f"use --set selection=last."
        )
    if rule.needs == "val groups" and task.val is not None and not task.val.attributes:
        raise InputError(
            f"{task.name} has no validation group labels: use --set selection=val_average."
        )
    if rule.needs == "inferred groups" and not method.infers_groups:
        raise InputError(
            f"selection rule {rule.name!r} needs a method that infers groups (such as spare), and "
            f"{method.name} does not: use --set selection=val_average."
        )


def _lacks_groups(task: Task, method: Method, split: str) -> InputError:
    free = [name for name, other in METHODS.items() if other.sees(other.options()) == "none"]
    return InputError(
        f"{method.name} needs group labels of the {split} split, and {task.name} has none: name "
        f"their columns with --attributes, or use a method that needs none ({', '.join(free)})."
    )


def rules_of(task: Task, method: Method, selection: str) -> dict[str, str]:
    """The rules by which an epoch is kept: the run's, and that of the method's paper."""
    rules = {"selected": selection}
    if method.paper_rule and method.paper_rule != selection and task.val is not None:
        rules["paper_rule"] = method.paper_rule
    return rules


def judge_of(task: Task, rules: Mapping[str, str]) -> Judge:
    """Score an epoch on validation by these rules; the only place where val groups choose."""
    by_name = {name: rule_named(name) for name in rules.values()}
    true_groups = None
    if task.val is not None and task.val.attributes:
        true_groups = task.groups(task.val)

    def judge(epoch: Epoch) -> tuple[dict[str, float], dict[str, float]]:
        with_groups = replace(epoch, groups=true_groups)
        scores = {
            name: _finite(rule.score(with_groups if rule.needs == "val groups" else epoch), name)
            for name, rule in by_name.items()
        }
        record = {"score": scores[rules["selected"]], "average": float(epoch.correct.mean())}
        if true_groups is not None:
            by_group = group_scores(epoch.correct, true_groups, task.group_names)
            record["worst_group"] = by_group["worst_group"]
        return scores, record

    return judge


def _finite(score: float, rule: str) -> float:
    """A rule's score; one of someone's own may return anything."""
    if not isinstance(score, numbers.Real) or not math.isfinite(score):
        raise InputError(
            f"selection rule {rule!r} gave {shown(score)} instead of a number: let it return a "
            f"finite one for every epoch."
        )
    return float(score)


def kept_epochs(fitted: Fitted, trained: Trained, rules: Mapping[str, str]) -> dict[str, Kept]:
    """The epochs that are scored, by what they are: selected, paper_rule, last, early."""
    last = Kept(len(trained.history), trained.last)
    kept = {"selected": trained.kept.get(rules["selected"], last)}
    if rules.get("paper_rule") in trained.kept:
        kept["paper_rule"] = trained.kept[rules["paper_rule"]]
    kept["last"] = last
    if fitted.inferred is not None and fitted.inferred.early is not None:
        # What plain training had come to, for comparison.
        kept["early"] = Kept(fitted.inferred.early_epoch, fitted.inferred.early)
    return kept


def score(
    task: Task, fitted: Fitted, kept: Mapping[str, Kept], settings: Settings
) -> dict[str, dict[str, Scores]]:
    """Scores by split (val and test), then by kept epoch."""
    assert fitted.trained is not None
    model = fitted.trained.model
    counts = None
    shares: dict[tuple[bool, ...], float] = {}
    if task.train.attributes:
        counts = np.bincount(task.groups(task.train), minlength=len(task.group_names))
        if len(task.shortcuts) > 1:
            shares = pattern_shares(task.holds(task.train))
    scores: dict[str, dict[str, Scores]] = {}
    for name, split in task.splits().items():
        if name == "train":
            continue
        scores[name] = {}
        for when, epoch in kept.items():
            model.load_state_dict(epoch.state)
            predictions = outputs(model, split, settings).logits.argmax(1).numpy()
            correct = predictions == split.labels
            if split.attributes:
                groups, names = task.groups(split), task.group_names
            else:  # no true groups: classes are what can be told apart
                groups, names = split.labels, task.class_names
            by_group = group_scores(correct, groups, names, counts)
            if split.attributes and len(task.shortcuts) > 1:
                broken = gaps(correct, split.labels, task.holds(split), shares)
                by_group = {**by_group, **broken}
            if fitted.inferred is not None and name in fitted.inferred.held_out:
                inferred = fitted.inferred
                by_group["inferred"] = group_scores(
                    correct,
                    inferred.held_out[name],
                    inferred.groups.names(task.class_names),
                    smallest=SMALLEST_INFERRED_GROUP,
                )
            scores[name][when] = by_group
    return scores
