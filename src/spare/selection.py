"""Which epoch is kept: rules by name, and which labels each of them looks at.

A rule turns one epoch's validation predictions into a number; the first epoch with the largest
number is the selected one. Nothing here ever sees the test split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spare.errors import InputError, unknown

#: Inferred groups of held-out data smaller than this are too noisy to choose by.
SMALLEST_INFERRED_GROUP = 10


@dataclass(frozen=True)
class Rule:
    name: str
    says: str
    #: "val groups", "inferred groups", "val labels" or "nothing": what it must be given.
    needs: str
    score: Callable[[int, np.ndarray, np.ndarray | None], float]


def worst_accuracy(correct: np.ndarray, groups: np.ndarray | None, smallest: int = 1) -> float:
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
            lambda epoch, correct, groups: worst_accuracy(correct, groups),
        ),
        Rule(
            "val_average",
            "best validation accuracy over all examples",
            "val labels",
            lambda epoch, correct, groups: float(correct.mean()),
        ),
        Rule(
            "val_inferred_groups",
            "best validation accuracy of the worst inferred group: no group label anywhere",
            "inferred groups",
            lambda epoch, correct, groups: worst_accuracy(correct, groups, SMALLEST_INFERRED_GROUP),
        ),
        Rule("last", "the last epoch", "nothing", lambda epoch, correct, groups: float(epoch)),
    )
}


def rule_named(name: str) -> Rule:
    if name not in RULES:
        raise unknown("selection rule", name, RULES)
    return RULES[name]
