"""JTT's group inference: the examples that an early model gets wrong."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spare.errors import SpareWarning
from spare.groups.arrays import checked_outputs, class_numbers

#: A minority smaller than this share of the examples is worth a warning.
TINY = 0.001


def mistakes(outputs: Any, labels: Any) -> np.ndarray:
    """True where the largest output is not the label's.

    Parameters
    ----------
    outputs : array or tensor of shape (examples, classes)
        Logits or probabilities, in eval mode, from inputs that are not augmented.
    labels : array of shape (examples,)
        Class numbers.

    Examples
    --------
    >>> mistakes([[2.0, 1.0], [0.2, 0.8], [3.0, 4.0]], [0, 0, 1]).tolist()
    [False, True, False]
    """
    points = checked_outputs(outputs)
    class_of = class_numbers(labels, *points.shape)
    return np.asarray(points.argmax(1) != class_of)


def warn_of_few(minority: np.ndarray, what: str, change: str) -> None:
    """Warn where what a method took for the minority of the training examples is next to nothing.

    >>> warn_of_few(np.array([True, False]), "the early model gets wrong", "train it less")
    """
    count = int(minority.sum())
    if count < TINY * len(minority):
        warnings.warn(
            f"{what} only {count} of {len(minority):,} training examples, so there is almost "
            f"nothing to learn from them: {change}.",
            SpareWarning,
            stacklevel=3,
        )
