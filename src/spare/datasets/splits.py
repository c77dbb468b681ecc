"""Which example belongs to which split: as the data says, or divided at random within each class.

Splits are numbers here: 0 train, 1 val, 2 test.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from spare.errors import DataError, InputError, SpareWarning
from spare.limits import SEED, Share, check_ranges

SPLITS = ("train", "val", "test")
_WORDS = {
    0: ("train", "training", "tr", "0"),
    1: ("val", "valid", "validation", "dev", "1"),
    2: ("test", "testing", "te", "2"),
}
#: The number of a split by any of the names that people give it.
SPLIT_NUMBER = {word: number for number, words in _WORDS.items() for word in words}


@dataclass(frozen=True)
class Shares:
    """How the examples are divided where the data itself does not say."""

    val_share: Share = 0.15
    test_share: Share = 0.15
    #: Seeds the division; the same for every seed of a run, so that runs can be compared.
    split_seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.val_share + self.test_share >= 1:
            raise InputError(
                f"val_share and test_share are shares that leave some for training, not "
                f"{self.val_share} and {self.test_share}."
            )


def split_numbers(words: Sequence[str], where: str) -> np.ndarray:
    """The numbers of splits, by the names that people give them."""
    lowered = [word.strip().lower() for word in words]
    unknown_word = next(
        (w for w, low in zip(words, lowered, strict=True) if low not in SPLIT_NUMBER), None
    )
    if unknown_word is not None:
        raise DataError(
            f"{where} says {unknown_word!r} for a split: use train, val and test (or 0, 1 and 2)."
        )
    return np.array([SPLIT_NUMBER[word] for word in lowered], dtype=np.int64)


def divide(labels: np.ndarray, shares: Shares) -> np.ndarray:
    """Divide every class by the same shares; each keeps at least one training example."""
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


def complete_splits(splits: np.ndarray | None, labels: np.ndarray, shares: Shares) -> np.ndarray:
    """The given splits; those that are missing are taken from training, or warned about."""
    if splits is None:
        return divide(labels, shares)
    if not (splits == 0).any():
        raise DataError("no example is in the training split: name one of the splits train.")
    splits = splits.copy()
    if not (splits == 1).any():
        rows = np.flatnonzero(splits == 0)
        taken = divide(labels[rows], Shares(shares.val_share, 0.0, shares.split_seed))
        splits[rows[taken == 1]] = 1
        warnings.warn(
            f"there is no val split: {(taken == 1).sum():,} of the {len(rows):,} training examples "
            f"were taken for it.",
            SpareWarning,
            stacklevel=2,
        )
    if not (splits == 2).any():
        warnings.warn("there is no test split: scores are on val.", SpareWarning, stacklevel=2)
    return splits
