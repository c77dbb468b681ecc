"""Gaussian mixtures of one class's points, as functions that number clusters."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from spare.groups.arrays import distinct_rows
from spare.groups.silhouettes import silhouettes

#: Points in; their coordinates, or the number of each one's cluster, out.
PointMap = Callable[[np.ndarray], np.ndarray]


def one_cluster(points: np.ndarray) -> np.ndarray:
    return np.zeros(len(points), dtype=np.int64)


def mixture(points: np.ndarray, k: int, seed: int) -> PointMap:
    """A fitted mixture; its components that hold none of the points have no number."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # One that is not quite at its maximum is scored like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = GaussianMixture(k, n_init=3, random_state=seed).fit(points)
    used = np.unique(fitted.predict(points))

    def number(points: np.ndarray) -> np.ndarray:
        if len(points) == 0:
            return np.empty(0, dtype=np.int64)
        return np.asarray(fitted.predict_proba(points)[:, used].argmax(1))

    return number


def best_mixture(points: np.ndarray, k_max: int, seed: int) -> tuple[PointMap, dict[int, float]]:
    """The mixture whose clusters, each counted once, have the largest silhouette; all scores."""
    largest = min(k_max, distinct_rows(points, k_max), len(points) - 1)
    mixtures = [mixture(points, k, seed) for k in range(2, largest + 1)]
    labelings = [number(points) for number in mixtures]
    scorable = [i for i, codes in enumerate(labelings) if codes.max() > 0]
    best: PointMap = one_cluster
    scores: dict[int, float] = {}
    results = silhouettes(points, [labelings[i] for i in scorable], seed=seed)
    for i, score in zip(scorable, results, strict=True):
        # The mean over points would hardly notice a small cluster.
        value, k = float(np.mean(score.by_cluster)), len(score.by_cluster)
        if value > max(scores.values(), default=-2.0):
            best = mixtures[i]
        scores[k] = max(value, scores.get(k, -2.0))
    return best, scores
