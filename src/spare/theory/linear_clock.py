"""When would a linear model separate? The theory's network on someone's own data, at all times.

The theory's network begins as a linear model of the inputs, and gradient descent on a linear model
is known at every time t: in the eigenvectors of the examples' Gram matrix every part of the labels
is learned at the rate of its eigenvalue. So one decomposition tells what a linear learner says of
every example at any time, and the clusters of that tell when each class falls apart. No network is
trained for it, and no group label is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spare.errors import SpareWarning
from spare.groups.blocks import blocks_of, clusters_of
from spare.groups.clusters import infer_groups

#: Times at which the linear learner is looked at, in units of 1 / (lr / d).
TIMES = np.logspace(-1, 4.5, 34)
#: The classes have fallen apart when the mean of their clarity is this.
APART = 0.7


@dataclass(frozen=True)
class LinearClock:
    """What a linear learner says at some times."""

    times: np.ndarray
    #: (times, examples, classes).
    outputs: np.ndarray
    #: Mean clarity of the classes at each time.
    clarity: np.ndarray

    @property
    def separates_at(self) -> float | None:
        """The first time at which the classes have fallen apart; None if they never do."""
        reached = np.flatnonzero(self.clarity >= APART)
        return float(self.times[reached[0]]) if len(reached) else None

    def agreement(self, logits: np.ndarray) -> float:
        """The largest correlation, over time, of a network's outputs with the learner's."""
        given = _spread(logits)
        return max(float((given * _spread(each)).sum()) for each in self.outputs)


def linear_clock(
    inputs: np.ndarray, labels: np.ndarray, *, times: np.ndarray = TIMES, seed: int = 0
) -> LinearClock:
    """Let a linear learner learn these examples.

    Parameters
    ----------
    inputs : array of shape (examples, numbers)
    labels : array of int
        Classes, counted from 0.
    times : array
        When to look.
    """
    x = inputs.reshape(len(inputs), -1).astype(np.float64)
    x = x - x.mean(0)
    n, d = x.shape
    x *= np.sqrt(d / max(float((x**2).sum(1).mean()), 1e-12))
    values, vectors = np.linalg.eigh(x @ x.T / (n * d))
    wanted = np.eye(int(labels.max()) + 1)[labels]
    rest = vectors.T @ (wanted - wanted.mean(0))
    outputs = np.stack(
        [
            wanted.mean(0) + vectors @ (-np.expm1(-np.clip(values, 0, None) * t)[:, None] * rest)
            for t in times
        ]
    )
    clarity = [clarity_of(_as_probabilities(each), labels, seed=seed) for each in outputs]
    return LinearClock(times, outputs, np.array([float(np.mean(each)) for each in clarity]))


def clarity_of(
    probabilities: np.ndarray, labels: np.ndarray, *, k_max: int = 5, seed: int = 0
) -> list[float]:
    """How clearly each class has fallen apart, as separation judges it (groups/blocks.py)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpareWarning)
        groups = infer_groups(probabilities, labels, k_max=k_max, seed=seed)
    blocks = blocks_of(clusters_of(groups), labels, probabilities.argmax(1))
    return [blocks[label].clarity for label in sorted(blocks)]


def reached_at(epochs: Sequence[float], values: Sequence[float], level: float) -> float | None:
    """When a curve first reaches a level, between the points that it is known at.

    >>> reached_at([0, 1, 2], [0.0, 0.5, 1.0], 0.75)
    1.5
    """
    for number, value in enumerate(values):
        if value >= level:
            if number == 0:
                return float(epochs[0])
            share = (level - values[number - 1]) / (value - values[number - 1])
            return float(epochs[number - 1] + share * (epochs[number] - epochs[number - 1]))
    return None


def _as_probabilities(outputs: np.ndarray) -> np.ndarray:
    clipped = np.clip(outputs, 1e-6, 1)
    return np.asarray(clipped / clipped.sum(1, keepdims=True))


def _spread(outputs: np.ndarray) -> np.ndarray:
    """Outputs relative to the other classes', of mean 0 and norm 1."""
    relative = outputs - outputs.mean(1, keepdims=True)
    relative = relative - relative.mean(0)
    return np.asarray(relative / max(float(np.linalg.norm(relative)), 1e-12))
