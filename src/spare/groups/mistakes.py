"""JTT's group inference: the examples that an early model gets wrong."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning
from spare.groups.arrays import as_numpy

#: A set of mistakes smaller than this share of the examples is worth a warning.
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
    points = as_numpy(outputs, np.float64)
    class_of = as_numpy(labels)
    if points.ndim != 2 or len(points) != len(class_of):
        raise InputError(
            f"outputs need one row per example: their shape is {points.shape} for {len(class_of)} "
            f"labels."
        )
    wrong = np.asarray(points.argmax(1) != class_of)
    if wrong.sum() < TINY * len(wrong):
        warnings.warn(
            f"the early model gets only {wrong.sum()} of {len(wrong):,} training examples wrong: "
            f"there is almost nothing to learn from its mistakes; train it for fewer epochs.",
            SpareWarning,
            stacklevel=2,
        )
    return wrong
