"""Points that are looked at block by block: the one thing that k-means and silhouettes need.

What is computed from points here is a sum over them, or a few of them: so it does not matter
whether they are in memory, on disk, or shared out among processes. `Points` are an array in memory;
an engine (`spare.engines`) overrides how blocks are read, or how sums are completed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Rows that are computed with at once: with a few columns they stay in a core's cache.
BLOCK = 8192


class Points:
    """Rows of an array; in other engines, this process's share of the rows."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __len__(self) -> int:
        """How many rows are here."""
        return len(self.array)

    @property
    def width(self) -> int:
        return int(self.array.shape[1])

    #: Numbers this share among all, for random numbers that differ between them.
    share = 0

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of the rows that are here, as float64, and which rows they are."""
        for start in range(0, len(self), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self)))
            yield rows, np.asarray(self.array[rows], dtype=np.float64)

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some of the rows that are here, as float64."""
        return np.asarray(self.array[rows], dtype=np.float64)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum of what every share computed."""
        return values

    def gather(self, values: np.ndarray) -> np.ndarray:
        """What every share computed, one after the other."""
        return values

    def largest(self, value: float) -> float:
        """The largest of what every share computed."""
        return value
