"""What several clusterings of the same points have in common, and a sample of all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spare.groups.points import Points

#: Clusterings that could have more atoms than this are scored in several passes.
MOST_ATOMS = 256
#: Codes that are looked at at once.
AT_ONCE = 1 << 18


class Atoms(NamedTuple):
    """Points that are in the same cluster in each of several clusterings, taken together.

    A sum over a cluster is one over its atoms, so one pass over atoms serves all clusterings.
    """

    #: The atom of every point that is here.
    codes: np.ndarray
    #: How many points each has, wherever they are.
    sizes: np.ndarray
    #: For each clustering, the cluster of every atom.
    clusters: list[np.ndarray]


def count_of(codes: np.ndarray) -> int:
    return int(codes.max()) + 1


def scored_together(ks: Sequence[int]) -> list[list[int]]:
    """Clusterings that are scored together: those that can have few atoms."""
    groups: list[list[int]] = []
    product = MOST_ATOMS + 1
    for i, k in enumerate(ks):
        product *= k
        if product > MOST_ATOMS:
            groups.append([])
            product = k
        groups[-1].append(i)
    return groups


def atoms_of(
    labelings: Sequence[np.ndarray],
    ks: Sequence[int] | None = None,
    points: Points | None = None,
) -> Atoms:
    ks = [count_of(codes) for codes in labelings] if ks is None else ks
    most = math.prod(ks)
    numbers = np.zeros(len(labelings[0]), dtype=np.min_scalar_type(most - 1))
    for codes, k in zip(labelings, ks, strict=True):
        numbers *= k
        numbers += codes.astype(numbers.dtype, copy=False)
    sizes = counts_of(numbers, most)
    if points is not None:
        sizes = points.total(sizes)
    present = np.flatnonzero(sizes)
    renumbered = np.zeros(len(sizes), dtype=np.int16 if len(present) < 2**15 else np.int32)
    renumbered[present] = np.arange(len(present))
    clusters: list[np.ndarray] = []
    rest = present
    for k in reversed(ks):
        clusters.insert(0, rest % k)
        rest = rest // k
    return Atoms(renumbered[numbers], sizes[present], clusters)


def stratified(
    codes: np.ndarray, total: int, rng: np.random.Generator, points: Points | None = None
) -> np.ndarray:
    """About `total` rows, from each cluster in proportion but never fewer than a fair share.

    Of every cluster, those with the smallest random numbers: so shares of the points, each with
    numbers of its own, find the same sample together.
    """
    points = Points(codes[:, None]) if points is None else points
    found = int(codes.max(initial=-1)) + 1
    k = int(points.largest(float(found)))
    sizes = points.total(counts_of(codes, k))
    fair = np.maximum(total * sizes / sizes.sum(), total / (4 * k))
    counts = np.minimum(sizes, np.ceil(fair).astype(int))
    # Only small numbers can be among the smallest: eight deviations leave room enough.
    small = (counts + 8 * np.sqrt(counts) + 16) / sizes.clip(1)
    chosen_rows, chosen_keys = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for start in range(0, len(codes), AT_ONCE):
        part = codes[start : start + AT_ONCE]
        keys = rng.random(len(part))
        chosen = np.flatnonzero(keys < small[part])
        chosen_rows.append(start + chosen)
        chosen_keys.append(keys[chosen])
    rows, keys = np.concatenate(chosen_rows), np.concatenate(chosen_keys)
    all_keys, all_codes = points.gather(keys), points.gather(codes[rows])
    cutoff = np.full(k, np.inf)
    for cluster, count in enumerate(counts):
        of_cluster = all_keys[all_codes == cluster]
        if len(of_cluster) > count:
            cutoff[cluster] = np.partition(of_cluster, count)[count]
    return np.asarray(rows[keys < cutoff[codes[rows]]])


def counts_of(codes: np.ndarray, k: int) -> np.ndarray:
    """How many of each there are; NumPy alone would make all of them eight bytes wide at once."""
    counts = np.zeros(k, dtype=np.int64)
    for start in range(0, len(codes), AT_ONCE):
        counts += np.bincount(codes[start : start + AT_ONCE], minlength=k)
    return counts
