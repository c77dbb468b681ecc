"""Which epoch is kept: rules by name, and which labels each of them looks at.

A rule turns one epoch's validation predictions into a number; the first epoch with the largest
number is the selected one. Nothing here ever sees the test split. Adding a rule: an entry in the
list below, or someone's own by import path: `--set selection=mine:RULE`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spare.errors import InputError, unknown
from spare.imports import check_text, import_object

#: Inferred groups of held-out data smaller than this are too noisy to choose by.
SMALLEST_INFERRED_GROUP = 10
#: What a rule may need, from nothing to the most.
NEEDS = ("nothing", "val labels", "inferred groups", "cross mistakes", "val groups")


@dataclass(frozen=True)
class Epoch:
    """What a model says of the validation examples after one epoch.

    Attributes
    ----------
    number : int
        From 1.
    logits : array of shape (examples, classes)
    labels : array of shape (examples,)
    inferred_groups : array of shape (examples,), optional
        Group ids that an inference gave the examples.
    groups : array of shape (examples,), optional
        True groups; only a rule that declares that it needs them is given any.
    cross_mistakes : array of shape (examples,), optional
        Group ids: the class, and whether XRM's twins get the example wrong (methods/xrm.py).
        Given only if one of the run's rules needs them.

    Examples
    --------
    >>> epoch = Epoch(1, np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    >>> epoch.correct.tolist(), epoch.losses.round(2).tolist(), epoch.confidences.round(2).tolist()
    ([True, False], [0.13, 1.31], [0.88, 0.73])
    """

    number: int
    logits: np.ndarray
    labels: np.ndarray
    inferred_groups: np.ndarray | None = None
    groups: np.ndarray | None = None
    cross_mistakes: np.ndarray | None = None

    @cached_property
    def correct(self) -> np.ndarray:
        """True where the prediction is the label."""
        return np.asarray(self.logits.argmax(1) == self.labels)

    @cached_property
    def probabilities(self) -> np.ndarray:
        shifted = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    @cached_property
    def losses(self) -> np.ndarray:
        """Cross-entropy of every example."""
        of_label = self.probabilities[np.arange(len(self.labels)), self.labels]
        return np.asarray(-np.log(np.clip(of_label, 1e-12, None)))

    @cached_property
    def confidences(self) -> np.ndarray:
        """The largest probability of every example."""
        return np.asarray(self.probabilities.max(1))


@dataclass(frozen=True)
class Rule:
    """How an epoch is selected: the first with the largest score.

    Examples
    --------
    >>> surest = Rule("surest", "most confident", "val labels", lambda e: e.confidences.mean())
    >>> surest.needs
    'val labels'
    """

    name: str
    description: str
    #: One of `NEEDS`: what it must be given.
    needs: str
    score: Callable[[Epoch], float]

    def __post_init__(self) -> None:
        if self.needs not in NEEDS:
            raise unknown("need of a selection rule", self.needs, NEEDS)


def worst_accuracy(correct: np.ndarray, groups: np.ndarray | None, smallest: int = 1) -> float:
    """Accuracy of the worst group of at least `smallest` examples; of all if there is none."""
    if groups is None:
        raise InputError("this selection rule needs groups of the validation examples.")
    sizes = np.bincount(groups)
    hits = np.bincount(groups, weights=correct)
    enough = sizes >= smallest
    if not enough.any():
        return float(correct.mean())
    return float((hits[enough] / sizes[enough]).min())


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "val_worst_group",
            "best validation accuracy of the worst true group",
            "val groups",
            lambda epoch: worst_accuracy(epoch.correct, epoch.groups),
        ),
        Rule(
            "val_average",
            "best validation accuracy over all examples",
            "val labels",
            lambda epoch: float(epoch.correct.mean()),
        ),
        Rule(
            "val_worst_class",
            "best validation accuracy of the worst class",
            "val labels",
            lambda epoch: worst_accuracy(epoch.correct, epoch.labels),
        ),
        Rule(
            "val_inferred_groups",
            "best validation accuracy of the worst inferred group: no group label anywhere",
            "inferred groups",
            lambda epoch: worst_accuracy(
                epoch.correct, epoch.inferred_groups, SMALLEST_INFERRED_GROUP
            ),
        ),
        Rule(
            "val_cross_mistakes",
            "best validation accuracy of the worst class x mistake of XRM's twins, which are "
            "trained first: no group label anywhere",
            "cross mistakes",
            lambda epoch: worst_accuracy(
                epoch.correct, epoch.cross_mistakes, SMALLEST_INFERRED_GROUP
            ),
        ),
        Rule("last", "the last epoch", "nothing", lambda epoch: float(epoch.number)),
    )
}


def rule_named(name: str) -> Rule:
    """A rule of the list or, as `package.module:RULE`, someone's own."""
    check_text("selection rule", name)
    if ":" in name:
        rule: Rule = import_object("selection rule", name, lambda value: isinstance(value, Rule))
        return rule
    if name not in RULES:
        raise unknown("selection rule", name, RULES)
    return RULES[name]
