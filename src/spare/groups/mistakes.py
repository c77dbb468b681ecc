"""JTT's group inference: the examples that an early model gets wrong."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spare.errors import SpareWarning
from spare.groups.arrays import checked_outputs, class_numbers

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
    points = checked_outputs(outputs)
    class_of = class_numbers(labels, *points.shape)
    wrong = np.asarray(points.argmax(1) != class_of)
    if wrong.sum() < TINY * len(wrong):
        warnings.warn(
            f"the early model gets only {wrong.sum()} of {len(wrong):,} training examples wrong: "
            f"there is almost nothing to learn from its mistakes; train it for fewer epochs.",
            SpareWarning,
            stacklevel=2,
        )
    return wrong
