"""Scores by group, and how well inferred minorities match the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.errors import InputError

Z95 = 1.959963984540054


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a proportion; sensible also for few examples and for 0 or n hits.

    >>> [round(bound, 3) for bound in wilson_interval(0, 10)]
    [0.0, 0.278]
    """
    if n == 0:
        return 0.0, 1.0
    share = hits / n
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def group_scores(
    correct: np.ndarray,
    groups: np.ndarray,
    names: Sequence[str],
    train_counts: np.ndarray | None = None,
) -> dict[str, Any]:
    """Accuracy of every group that has examples, the worst of them, and two averages.

    `average` is over examples. `adjusted_average` weights each group's accuracy by its share of
    the training set, as is usual where the test groups are balanced and training's are not.
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
    worst = int(present[accuracy.argmin()])
    scores: dict[str, Any] = {
        "worst_group": float(accuracy.min()),
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


def true_minority(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """True for the examples outside the largest true group of their class."""
    minority = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        largest = np.bincount(groups[rows]).argmax()
        minority[rows] = groups[rows] != largest
    return minority


def minority_recovery(
    labels: np.ndarray, minority: np.ndarray, inferred: np.ndarray
) -> dict[Any, dict[str, float | int | None]]:
    """Per class: which share of the true minority was inferred as such, and how purely."""
    found: dict[Any, dict[str, float | int | None]] = {}
    for label in np.unique(labels).tolist():
        rows = labels == label
        true, guess = minority[rows], inferred[rows]
        both = int((true & guess).sum())
        found[label] = {
            "minority": int(true.sum()),
            "inferred": int(guess.sum()),
            "recall": both / int(true.sum()) if true.any() else None,
            "precision": both / int(guess.sum()) if guess.any() else None,
        }
    return found
