"""Scores by group, and how well inferred minorities match the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypedDict

import numpy as np

from spare.data.task import Split, Task
from spare.errors import InputError
from spare.groups.arrays import rows_by_class
from spare.groups.result import Groups
from spare.records.record import Scores

Z95 = 1.959963984540054


class Gaps(TypedDict):
    """What broken shortcuts cost, where there are several."""

    #: Accuracy over patterns, weighted by their shares of the training set.
    id_accuracy: float
    #: By shortcuts: the accuracy where exactly these are broken, minus `id_accuracy`.
    gaps: dict[str, float]
    #: The lowest accuracy of any pattern with a broken shortcut: a milder score than the worst
    #: group, which is not averaged over classes.
    worst_pattern: float


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a proportion; valid for few examples and for 0 or n hits too.

    >>> [round(bound, 3) for bound in wilson_interval(0, 10)]
    [0.0, 0.278]
    """
    if n == 0:
        return 0.0, 1.0
    share = hits / n
    center = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return float(max(0.0, center - half)), float(min(1.0, center + half))


def group_scores(
    correct: np.ndarray,
    groups: np.ndarray,
    names: Sequence[str],
    train_counts: np.ndarray | None = None,
    smallest: int = 1,
) -> Scores:
    """Accuracy of every group that has examples, the worst of them, and two averages.

    `average` is over examples. `adjusted_average` weights each group's accuracy by its share of
    the training set, as is usual where groups are balanced in test but not in training.

    Parameters
    ----------
    correct, groups
        Whether each example is predicted right, and the number of its group.
    names
        Of the groups, by number.
    train_counts
        Training examples of each group, for the adjusted average.
    smallest
        The worst is taken among groups of at least so many examples, among all if none is so large.
    """
    correct = np.asarray(correct, dtype=np.float64)
    if len(correct) != len(groups):
        raise InputError(f"lengths differ: {len(correct)} predictions, {len(groups)} groups.")
    sizes = np.bincount(groups, minlength=len(names))
    hits = np.bincount(groups, weights=correct, minlength=len(names))
    present = np.flatnonzero(sizes)
    if len(present) == 0:
        raise InputError("there are no examples to score.")
    accuracy = hits[present] / sizes[present]
    counted = sizes[present] >= min(smallest, sizes.max())
    worst = int(present[counted][accuracy[counted].argmin()])
    scores: Scores = {
        "worst_group": float(hits[worst] / sizes[worst]),
        "worst_group_interval": list(wilson_interval(round(hits[worst]), int(sizes[worst]))),
        "worst_group_name": names[worst],
        "worst_group_size": int(sizes[worst]),
        "average": float(correct.mean()),
        "groups": {
            names[int(g)]: {"accuracy": float(a), "n": int(sizes[g])}
            for g, a in zip(present, accuracy, strict=True)
        },
    }
    if train_counts is not None:
        shares = np.asarray(train_counts, dtype=np.float64)[present]
        if shares.sum() > 0:
            scores["adjusted_average"] = float((shares * accuracy).sum() / shares.sum())
    return scores


def gaps(
    correct: np.ndarray,
    labels: np.ndarray,
    holds: Mapping[str, np.ndarray],
    train_shares: Mapping[tuple[bool, ...], float],
) -> Gaps:
    """Accuracy in the training distribution, and what each broken shortcut costs (UrbanCars).

    A pattern says for each shortcut whether it holds; the accuracy of a pattern is the mean over
    classes.

    Parameters
    ----------
    correct, labels
        Whether each example is predicted right, and its class.
    holds
        By shortcut: whether it holds for each example.
    train_shares
        By pattern: its share of the training set.
    """
    correct = np.asarray(correct, dtype=np.float64)
    accuracy: dict[tuple[bool, ...], float] = {}
    # First the shortcuts broken one at a time, in their order, then together.
    patterns = product((True, False), repeat=len(holds))
    for pattern in sorted(patterns, key=lambda p: (p.count(False), p)):
        rows = np.ones(len(labels), dtype=bool)
        for in_pattern, in_data in zip(pattern, holds.values(), strict=True):
            rows &= in_data == in_pattern
        by_class = [correct[rows & (labels == c)] for c in np.unique(labels[rows])]
        if by_class:
            accuracy[pattern] = float(np.mean([hits.mean() for hits in by_class]))
    shares = {pattern: train_shares.get(pattern, 0.0) for pattern in accuracy}
    total = sum(shares.values())
    if total == 0:
        raise InputError("no pattern of these examples occurs in training: gaps are undefined.")
    id_accuracy = sum(accuracy[p] * share for p, share in shares.items()) / total
    broken = {p: a for p, a in accuracy.items() if not all(p)}

    def name(pattern: tuple[bool, ...]) -> str:
        return "+".join(n for n, held in zip(holds, pattern, strict=True) if not held)

    return {
        "id_accuracy": id_accuracy,
        "gaps": {name(pattern): value - id_accuracy for pattern, value in broken.items()},
        "worst_pattern": min(broken.values(), default=id_accuracy),
    }


def pattern_shares(holds: Mapping[str, np.ndarray]) -> dict[tuple[bool, ...], float]:
    """The share of examples with each pattern of held and broken shortcuts."""
    held = np.stack(list(holds.values()), axis=1)
    patterns, counts = np.unique(held, axis=0, return_counts=True)
    return {
        tuple(bool(h) for h in pattern): int(n) / len(held)
        for pattern, n in zip(patterns, counts, strict=True)
    }


def true_minority(task: Task, split: Split) -> np.ndarray:
    """True for the examples that contradict a shortcut of the task.

    Where the task names none, for those outside the largest true group of their class. The two
    differ where a class has as many examples against the shortcut as with it: of CelebA's people
    who are not blond, the women are the minority, although there are more of them than men.
    """
    holds = task.holds(split)
    if holds:
        return np.asarray(~np.logical_and.reduce(list(holds.values())))
    labels, groups = np.asarray(split.labels), task.groups(split)
    minority = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        largest = np.bincount(groups[rows]).argmax()
        minority[rows] = groups[rows] != largest
    return minority


def inferred_minority(groups: Groups, minority: np.ndarray) -> np.ndarray:
    """True for the examples that an inference takes for minorities, to be compared with the true.

    Those outside the largest cluster of their class; in a class whose true minority is the larger
    part, those in it. Mistakes and environments are what they are, whatever their size.
    """
    inferred = ~groups.in_majority()
    if not groups.rank_names:
        for rows in rows_by_class(groups.labels).values():
            if minority[rows].mean() > 0.5:
                inferred[rows] = ~inferred[rows]
    return inferred


def minority_recovery(
    labels: np.ndarray, minority: np.ndarray, inferred: np.ndarray
) -> dict[Any, dict[str, float | int | None]]:
    """Recall and precision of the inferred minority of every class."""
    by_class: dict[Any, dict[str, float | int | None]] = {}
    for label in np.unique(labels).tolist():
        rows = labels == label
        is_minority, is_inferred = minority[rows], inferred[rows]
        both = int((is_minority & is_inferred).sum())
        by_class[label] = {
            "minority": int(is_minority.sum()),
            "inferred": int(is_inferred.sum()),
            "recall": both / int(is_minority.sum()) if is_minority.any() else None,
            "precision": both / int(is_inferred.sum()) if is_inferred.any() else None,
        }
    return by_class


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
