"""Rows parted at random, with every kind in all parts."""

from __future__ import annotations

import numpy as np


def folds(kinds: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of every row: each kind spread over the folds, the folds of one size, to within one.

    >>> parts = folds(np.array([0, 1, 0, 1, 1, 1]), 2, np.random.default_rng(0))
    >>> [np.bincount(np.array([0, 1, 0, 1, 1, 1])[parts == fold]).tolist() for fold in (0, 1)]
    [[1, 2], [1, 2]]
    """
    kinds = np.asarray(kinds)
    order = rng.permutation(len(kinds))
    found = np.empty(len(kinds), dtype=np.int64)
    found[order[np.argsort(kinds[order], kind="stable")]] = np.arange(len(kinds)) % count
    return found


def halves(kinds: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two folds."""
    found = folds(kinds, 2, rng)
    return np.flatnonzero(found == 0), np.flatnonzero(found == 1)
