"""Rows divided at random into folds, with every kind of row in all of them."""

from __future__ import annotations

import numpy as np


def folds(kinds: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of every row: each kind is spread over all folds, whose sizes differ by one at most.

    >>> fold_of = folds(np.array([0, 1, 0, 1, 1, 1]), 2, np.random.default_rng(0))
    >>> [np.bincount(np.array([0, 1, 0, 1, 1, 1])[fold_of == fold]).tolist() for fold in (0, 1)]
    [[1, 2], [1, 2]]
    """
    kinds = np.asarray(kinds)
    order = rng.permutation(len(kinds))
    fold_of = np.empty(len(kinds), dtype=np.int64)
    fold_of[order[np.argsort(kinds[order], kind="stable")]] = np.arange(len(kinds)) % count
    return fold_of


def halves(kinds: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two folds."""
    fold_of = folds(kinds, 2, rng)
    return np.flatnonzero(fold_of == 0), np.flatnonzero(fold_of == 1)
