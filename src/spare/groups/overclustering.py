"""GEORGE's second look at clusters: pieces of them that are clear, hard and large enough.

Every cluster is split in 5. A piece becomes a group of its own if its mean silhouette is above 0
and above that of the same points before, its mean loss is at least its cluster's, and it has enough
examples; the other pieces go back to their cluster.
"""

from __future__ import annotations

import numpy as np

from spare.groups.arrays import distinct_rows
from spare.groups.atoms import stratified
from spare.groups.mixtures import PointMap, mixture, one_cluster
from spare.groups.silhouettes import ANCHORS, EXACT_LIMIT, point_silhouettes

PIECES = 5
#: A piece has at least so many examples in training (or this share of its class, if that is more),
#: and as many in validation.
SMALLEST_PIECE = 25
SMALLEST_SHARE = 0.005


def overclustered(
    points: np.ndarray,
    losses: np.ndarray,
    val_points: np.ndarray | None,
    cluster: PointMap,
    seed: int,
) -> tuple[PointMap, np.ndarray, int]:
    """How to find an example's piece, the group of each piece, and how many pieces stand alone."""
    codes = cluster(points)
    clusters = int(codes.max()) + 1
    splits: list[PointMap] = []
    for c in range(clusters):
        members = points[codes == c]
        enough = distinct_rows(members, PIECES) >= PIECES
        splits.append(mixture(members, PIECES, seed) if enough else one_cluster)
    counts = [int(split(points[codes == c]).max()) + 1 for c, split in enumerate(splits)]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    parents = np.repeat(np.arange(clusters), counts)

    def piece(points: np.ndarray) -> np.ndarray:
        codes = cluster(points)
        pieces = np.empty(len(points), dtype=np.int64)
        for c in np.unique(codes):
            pieces[codes == c] = firsts[c] + splits[c](points[codes == c])
        return pieces

    val_sizes = None
    if val_points is not None:
        val_sizes = np.bincount(piece(val_points), minlength=len(parents))
    alone = standing_alone(points, codes, piece(points), losses, val_sizes, seed=seed)
    # Pieces that are merged back have their cluster's number; the others have numbers after those.
    # A cluster all of whose pieces stand alone leaves a number unused, which is closed up here.
    groups = np.where(alone, clusters + np.arange(len(parents)), parents)
    return piece, np.unique(groups, return_inverse=True)[1], int(alone.sum())


def standing_alone(
    points: np.ndarray,
    codes: np.ndarray,
    pieces: np.ndarray,
    losses: np.ndarray,
    val_sizes: np.ndarray | None,
    *,
    seed: int = 0,
) -> np.ndarray:
    """For each piece of a cluster, whether it becomes a group of its own.

    Parameters
    ----------
    points
        Of one class.
    codes
        The cluster of each, 0..k-1, at least two of them.
    pieces
        The piece of each, 0..m-1, each piece within one cluster.
    losses
        Of the same points.
    val_sizes
        How many validation examples each piece has; None where there are none to count.
    """
    rows = None
    if len(points) > EXACT_LIMIT:
        rows = stratified(pieces, ANCHORS, np.random.default_rng([seed, len(points)]))
    before, after = point_silhouettes(points, [codes, pieces], rows)
    sampled = pieces if rows is None else pieces[rows]
    sizes = np.bincount(pieces)
    parents = np.empty(len(sizes), dtype=np.int64)
    parents[pieces] = codes
    smallest = max(SMALLEST_SHARE * len(points), SMALLEST_PIECE)
    return np.asarray(
        (_means(after, sampled) > np.maximum(_means(before, sampled), 0))
        & (_means(losses, pieces) >= _means(losses, codes)[parents])
        & (sizes >= smallest)
        & (True if val_sizes is None else val_sizes >= SMALLEST_PIECE)
    )


def _means(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.bincount(codes, weights=values) / np.bincount(codes)
