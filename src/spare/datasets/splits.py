"""Which example belongs to which split: as a column says, or drawn, stratified by class and seeded.

Splits are numbers here: 0 train, 1 val, 2 test.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spare.errors import DataError, InputError, SpareWarning

NAMES = ("train", "val", "test")
WORDS = {
    0: ("train", "training", "tr", "0"),
    1: ("val", "valid", "validation", "dev", "1"),
    2: ("test", "testing", "te", "2"),
}
NUMBER = {word: number for number, known in WORDS.items() for word in known}


@dataclass(frozen=True)
class Shares:
    """How the examples are divided where the data itself does not say."""

    val_share: float = 0.15
    test_share: float = 0.15
    #: Of the division; the same for every seed of a run, so that runs can be compared.
    split_seed: int = 0

    def __post_init__(self) -> None:
        if min(self.val_share, self.test_share) < 0 or self.val_share + self.test_share >= 1:
            raise InputError(
                f"val_share and test_share are shares that leave some for training, not "
                f"{self.val_share} and {self.test_share}."
            )


def as_numbers(words: Sequence[str], where: str) -> np.ndarray:
    """Split names as people write them to numbers."""
    lowered = [word.strip().lower() for word in words]
    strange = next((w for w, low in zip(words, lowered, strict=True) if low not in NUMBER), None)
    if strange is not None:
        raise DataError(
            f"{where} says {strange!r} for a split: use train, val and test (or 0, 1 and 2)."
        )
    return np.array([NUMBER[word] for word in lowered], dtype=np.int64)


def draw(labels: np.ndarray, shares: Shares) -> np.ndarray:
    """Every class divided by the same shares; a class keeps at least one example for training."""
    rng = np.random.default_rng([shares.split_seed, 0x5B17])
    splits = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        val = round(len(rows) * shares.val_share)
        test = round(len(rows) * shares.test_share)
        if val + test >= len(rows):
            val, test = 0, 0
        splits[rows[:val]] = 1
        splits[rows[val : val + test]] = 2
    return splits


def complete(splits: np.ndarray | None, labels: np.ndarray, shares: Shares) -> np.ndarray:
    """The given splits, with what is missing drawn or said."""
    if splits is None:
        return draw(labels, shares)
    if not (splits == 0).any():
        raise DataError("no example belongs to the training split.")
    splits = splits.copy()
    if not (splits == 1).any():
        rows = np.flatnonzero(splits == 0)
        drawn = draw(labels[rows], Shares(shares.val_share, 0.0, shares.split_seed))
        splits[rows[drawn == 1]] = 1
        warnings.warn(
            f"there is no val split: {(drawn == 1).sum():,} of the {len(rows):,} training examples "
            f"were taken for it.",
            SpareWarning,
            stacklevel=2,
        )
    if not (splits == 2).any():
        warnings.warn("there is no test split: scores are on val.", SpareWarning, stacklevel=2)
    return splits
