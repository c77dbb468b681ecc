"""One epoch as index arrays: `Batches` is a function from a generator to a list of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spare.weights import GroupDraw

Batches = Callable[[np.random.Generator], list[np.ndarray]]


def shuffled(n: int, batch_size: int) -> Batches:
    """Every example once, in random order."""
    return lambda rng: _cut(rng.permutation(n), batch_size)


def repeated(copies: np.ndarray, batch_size: int) -> Batches:
    """Every example as often as `copies` says, in random order; a longer epoch."""
    everyone = np.repeat(np.arange(len(copies)), copies)
    return lambda rng: _cut(rng.permutation(everyone), batch_size)


def weighted(draw: GroupDraw, n: int, batch_size: int) -> Batches:
    """`n` draws with replacement: the same draw that `ImportanceSampler` makes."""
    return lambda rng: _cut(draw.draw(n, rng), batch_size)


def _cut(indices: np.ndarray, batch_size: int) -> list[np.ndarray]:
    return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
