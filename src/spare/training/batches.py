"""The batches of one epoch as arrays of rows.

`Batches` is a function from a random generator to a list of such arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning
from spare.groups.weights import GroupSampling
from spare.limits import ARRAY

Batches = Callable[[np.random.Generator], list[np.ndarray]]


def shuffled(n: int, batch_size: int) -> Batches:
    """Every example once, in random order."""
    return lambda rng: _in_batches(rng.permutation(n), batch_size)


def repeated(copies: np.ndarray, batch_size: int) -> Batches:
    """Every example as often as `copies` says, in random order; a longer epoch."""
    ARRAY.check(8 * int(copies.sum()), "an epoch of repeated examples")
    rows = np.repeat(np.arange(len(copies)), copies)
    return lambda rng: _in_batches(rng.permutation(rows), batch_size)


def weighted(sampling: GroupSampling, n: int, batch_size: int) -> Batches:
    """`n` examples sampled with replacement, as `ImportanceSampler` does."""
    return lambda rng: _in_batches(sampling.sample(n, rng), batch_size)


@dataclass(frozen=True)
class ContrastPools:
    """Which rows of the training split can take which role around an anchor, by class."""

    #: The class that an early model took each example for.
    slices: np.ndarray
    #: Classes that anchors come from: those with examples for each role.
    classes: list[int]
    #: Of the class and in its own slice: anchors, and easy negatives for other classes.
    correct: dict[int, np.ndarray]
    #: Of the class, but in the slice of another class that has correct examples.
    positives: dict[int, np.ndarray]
    #: In the slice of the class, but of another class.
    negatives: dict[int, np.ndarray]

    @property
    def fewest_anchors(self) -> int:
        return min(len(self.correct[c]) for c in self.classes)

    def cut(self, size: int) -> int:
        """`size`, or less if a pool of anchors, positives or hard negatives is smaller."""
        pools = (self.correct, self.positives, self.negatives)
        return min(size, *(len(pool[c]) for pool in pools for c in self.classes))

    def probabilities(self, size: int) -> np.ndarray:
        """How likely each example is to be in a sub-batch, over all roles."""
        expected = np.zeros(len(self.slices))
        for c in self.classes:
            for pool in (self.correct[c], self.positives[c], self.negatives[c]):
                expected[pool] += self.cut(size) / len(pool)
            others, counts = np.unique(self.slices[self.positives[c]], return_counts=True)
            for other, share in zip(others, counts / counts.sum(), strict=True):
                expected[self.correct[other]] += size * share / len(self.correct[other])
        return np.asarray(expected / expected.sum())


def contrast_pools(labels: Any, slices: Any) -> ContrastPools:
    """The pools of every class, given what an early model took each example for.

    >>> pools = contrast_pools(labels=[0, 0, 1, 1], slices=[0, 1, 1, 0])
    >>> [pool[0].tolist() for pool in (pools.correct, pools.positives, pools.negatives)]
    [[0], [1], [3]]
    """
    labels, slices = np.asarray(labels), np.asarray(slices)
    right = labels == slices
    # In a slice that has correct examples, to serve as easy negatives.
    contrasted = np.isin(slices, slices[right])
    all_classes = np.unique(labels).tolist()
    correct = {c: np.flatnonzero((labels == c) & right) for c in all_classes}
    positives = {c: np.flatnonzero((labels == c) & ~right & contrasted) for c in all_classes}
    negatives = {c: np.flatnonzero((slices == c) & ~right) for c in all_classes}
    pools = (correct, positives, negatives)
    classes = [c for c in all_classes if all(len(pool[c]) for pool in pools)]
    if right.all():
        raise InputError(
            "the reference model makes no mistake on the training split, so there is nothing to "
            "contrast: train it for fewer epochs (reference_epochs) or with more weight decay "
            "(early_weight_decay)."
        )
    if not classes:
        raise InputError(
            "there is nothing to contrast, because no class has all three of examples that the "
            "reference model gets right, examples that it gets wrong and examples of other classes "
            "that it takes for this one: train it for another number of epochs (reference_epochs)."
        )
    if len(classes) < len(all_classes) / 2:
        warnings.warn(
            f"only {len(classes)} of {len(all_classes)} classes have examples that the reference "
            f"model gets right, examples that it gets wrong and examples of other classes that it "
            f"takes for theirs: anchors come from these classes alone; another number of epochs "
            f"(reference_epochs) may leave more.",
            SpareWarning,
            stacklevel=2,
        )
    return ContrastPools(slices, classes, correct, positives, negatives)


def contrastive(pools: ContrastPools, size: int, share: float = 1.0) -> Batches:
    """One sub-batch per anchor, for Correct-n-Contrast (objectives/contrastive.py).

    In this order: the anchor and others of its pool, positives, hard negatives, as many of each as
    the smallest pool has and at most `size`; then `size` easy negatives, which are the correct
    examples of the slice that the first positive is in, with replacement if there are fewer.
    The classes take turns in giving an anchor, as many times per epoch as the class with the fewest
    anchors allows, or a `share` of that.
    """
    each = pools.cut(size)
    turns = max(1, round(share * pools.fewest_anchors))

    def around(anchor: int, c: int, rng: np.random.Generator) -> np.ndarray:
        others = pools.correct[c][pools.correct[c] != anchor]
        positives = rng.choice(pools.positives[c], each, replace=False)
        easy = pools.correct[pools.slices[positives[0]]]
        return np.concatenate(
            [
                [anchor],
                rng.choice(others, each - 1, replace=False),
                positives,
                rng.choice(pools.negatives[c], each, replace=False),
                rng.choice(easy, size, replace=len(easy) < size),
            ]
        )

    def epoch(rng: np.random.Generator) -> list[np.ndarray]:
        anchors = [rng.choice(pools.correct[c], turns, replace=False) for c in pools.classes]
        return [
            around(int(anchor), c, rng)
            for turn in zip(*anchors, strict=True)
            for anchor, c in zip(turn, pools.classes, strict=True)
        ]

    return epoch


def paired(first: int, others: int, batch_size: int, steps: int) -> Batches:
    """`steps` batches: `batch_size` of the `first` rows, then as many of the `others` after those.

    Each of the two is walked in random order, again and again; all of one that is smaller than a
    batch is in every batch.
    """

    def plan(rng: np.random.Generator) -> list[np.ndarray]:
        rows = (
            _passes(first, batch_size, steps, rng),
            first + _passes(others, batch_size, steps, rng),
        )
        return list(np.concatenate(rows, 1))

    return plan


def _passes(n: int, batch_size: int, steps: int, rng: np.random.Generator) -> np.ndarray:
    size = min(batch_size, n)
    passes = [rng.permutation(n) for _ in range(math.ceil(steps * size / n))]
    return np.concatenate(passes)[: steps * size].reshape(steps, size)


def _in_batches(indices: np.ndarray, batch_size: int) -> list[np.ndarray]:
    return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
