"""Two coordinates for every example, to plot its class by."""

from __future__ import annotations

import numpy as np

from spare.groups.points import Points

#: A direction in which points spread less than this share of the most is rounding.
ROUNDING = 1e-7
#: The smallest number that can be divided by.
TINY = np.finfo(np.float64).tiny


def as_logits(probabilities: np.ndarray) -> np.ndarray:
    """What has these softmax outputs, with a mean of 0 in every row."""
    logits = np.log(np.clip(probabilities.astype(np.float64), 1e-7, None))
    logits -= logits.mean(1, keepdims=True)
    return np.asarray(logits)


def two_components(points: Points) -> np.ndarray:
    """The first two principal components of the rows that are here, by the spread of all rows.

    In a plane or a line there are fewer: the others are 0.
    """
    array = points.take(slice(None))
    count = int(points.total(np.array([len(array)]))[0])
    centered = array - points.total(array.sum(0)) / count
    axes = _two_axes(points, centered, count)
    # The sign of an axis is arbitrary: its largest loading is made positive.
    axes = axes * np.where(np.abs(axes.max(0)) >= np.abs(axes.min(0)), 1, -1)
    found = np.zeros((len(array), 2), dtype=np.float32)
    found[:, : axes.shape[1]] = centered @ axes
    return found


def _two_axes(points: Points, centered: np.ndarray, count: int) -> np.ndarray:
    """The two directions in which centered points spread most, as columns; zeros where none."""
    if count >= points.width:
        axes = np.linalg.eigh(points.total(centered.T @ centered))[1]
        return np.asarray(axes[:, ::-1][:, :2])
    # With many classes of few examples, the products of examples are the much smaller matrix.
    centered = points.gather(centered)
    axes = centered.T @ np.linalg.eigh(centered @ centered.T)[1][:, ::-1][:, :2]
    lengths = np.linalg.norm(axes, axis=0)
    return np.asarray(
        np.where(lengths > ROUNDING * lengths[0], axes / np.maximum(lengths, TINY), 0)
    )
