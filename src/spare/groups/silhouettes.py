"""The mean silhouette coefficient, fast enough to be computed for every class and every k.

For one point, a is its mean distance to the rest of its own cluster, b the smallest mean distance
to another cluster, s = (b - a) / max(a, b); a point alone in its cluster has s = 0. The score is
the mean of s over all points.

Two things make it fast. Distances do not depend on the clustering, so one pass over them serves
every k at once; and a tile of distances that stays in cache is used for its rows and, transposed,
for its columns. Distances come from a matrix product on centered data in float64: float32 would
lose those between nearly equal points.

Above `EXACT_LIMIT` points the mean is estimated from `ANCHORS` of them, sampled from every cluster
(a plain subsample would lose a tiny cluster). Each anchor's a and b are still exact, measured
against all points, so the estimate is unbiased and its standard error is known and returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spare.errors import InputError
from spare.groups.arrays import as_numpy, checked_outputs, class_labels, one_of
from spare.limits import half_of_memory

EXACT_LIMIT = 20_000
ANCHORS = 2_000
METRICS = ("euclidean", "sqeuclidean")
#: Rows and columns of a tile: 256 x 256 float64 distances fit in a core's second-level cache.
TILE = 256


class Score(NamedTuple):
    mean: float
    #: Standard error of the mean; 0 where every point was used.
    error: float
    #: The mean over the points of each cluster.
    by_cluster: tuple[float, ...]


def silhouette(points: Any, labels: Any, metric: str = "euclidean") -> float:
    """The exact mean silhouette of one clustering.

    Parameters
    ----------
    points : array of shape (points, values)
        Finite numbers of at most 1e100; those below 1e-100 count as 0.
    labels : array of shape (points,)
        The cluster of every point: integers or strings.
    metric : str
        "euclidean", at the cost of the distances between all points, or "sqeuclidean", in linear
        time. The two are not interchangeable: the 0.9 threshold of SPARE is for "euclidean".

    Returns
    -------
    float
        From -1 to 1: how much nearer points are to their own cluster than to the next.

    Examples
    --------
    >>> round(silhouette([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1]), 3)
    0.98
    """
    array = as_numpy(points, "points")
    if array.ndim != 2:
        raise InputError(f"points must have shape (points, values); got {array.shape}.")
    array = checked_outputs(array, "points")
    codes = np.unique(class_labels(labels, len(array)), return_inverse=True)[1]
    one_of("metric", metric, METRICS)
    k = int(codes.max()) + 1
    if not 2 <= k <= len(array) - 1:
        raise InputError(
            f"a silhouette needs at least 2 clusters and fewer clusters than points; got {k} "
            f"clusters of {len(array)} points."
        )
    needed = 4 * 8 * len(array) * k  # from every point to every cluster, a few times over
    if needed > half_of_memory():
        raise InputError(
            f"the silhouette of {len(array):,} points in {k:,} clusters needs {needed / 1e9:.0f} "
            f"GB of memory: score a sample of the points."
        )
    if metric == "euclidean":
        return silhouettes(array, [codes], exact_limit=len(array))[0].mean
    return _squared(array, codes, k)


def silhouettes(
    points: np.ndarray,
    labelings: Sequence[np.ndarray],
    *,
    seed: int = 0,
    exact_limit: int | None = None,
    anchors: int = ANCHORS,
) -> list[Score]:
    """Euclidean scores of several clusterings (codes 0..k-1) of the same points, in one pass."""
    n = len(points)
    if n <= (EXACT_LIMIT if exact_limit is None else exact_limit):
        samples = [np.arange(n)] * len(labelings)
        values = point_silhouettes(points, labelings)
    else:
        rng = np.random.default_rng([seed, n])
        samples = [stratified(codes, anchors, rng) for codes in labelings]
        values = [
            point_silhouettes(points, [codes], sample)[0]
            for codes, sample in zip(labelings, samples, strict=True)
        ]
    return [
        _stratified_mean(coefficients, codes[sample], np.bincount(codes))
        for coefficients, codes, sample in zip(values, labelings, samples, strict=True)
    ]


def point_silhouettes(
    points: np.ndarray, labelings: Sequence[np.ndarray], rows: np.ndarray | None = None
) -> list[np.ndarray]:
    """For each clustering (codes 0..k-1), s of every point, or of these rows against all points."""
    centered = _centered(points)
    n = len(centered)
    ks = [int(codes.max()) + 1 for codes in labelings]
    members = torch.zeros(n, sum(ks), dtype=torch.float64)  # one column per cluster of each k
    columns = np.concatenate([[0], np.cumsum(ks)])
    for first, codes in zip(columns, labelings, strict=False):
        members[torch.arange(n), torch.from_numpy(first + codes.astype(np.int64))] = 1
    if rows is None:
        rows = np.arange(n)
        sums = _distance_sums(centered, members)
    else:
        sums = _distance_sums_of(rows, centered, members)
    return [
        _coefficients(
            sums[:, first : first + k].numpy(), codes[rows], np.bincount(codes, minlength=k)
        )
        for first, k, codes in zip(columns, ks, labelings, strict=False)
    ]


def _centered(points: np.ndarray) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(points, dtype=np.float64))
    return tensor - tensor.mean(0)


#: Squared distances below this share of the largest squared norm are rounding, and so are 0.
ROUNDING = 1e-14


def _factors(points: Tensor) -> tuple[Tensor, Tensor, float]:
    """Matrices whose product is the squared distances |x|^2 + |y|^2 - 2xy, and a noise level."""
    squares = (points * points).sum(1, keepdim=True)
    ones = torch.ones_like(squares)
    left = torch.cat([points, squares, ones], 1)
    right = torch.cat([-2 * points, ones, squares], 1).T.contiguous()
    return left, right, ROUNDING * float(squares.max())


def _distance_sums(points: Tensor, members: Tensor) -> Tensor:
    """For every point and cluster, the sum of distances from the point to the cluster."""
    left, right, noise = _factors(points)
    n = len(points)
    sums = torch.zeros_like(members)
    buffer = torch.empty(TILE * TILE, dtype=torch.float64)
    for i in range(0, n, TILE):
        rows = min(TILE, n - i)
        for j in range(i, n, TILE):
            columns = min(TILE, n - j)
            tile = buffer[: rows * columns].view(rows, columns)
            torch.mm(left[i : i + rows], right[:, j : j + columns], out=tile)
            torch.threshold_(tile, noise, 0).sqrt_()
            if j == i:
                tile.fill_diagonal_(0)  # a point is at distance 0 from itself, rounding or not
            else:
                sums[j : j + columns].addmm_(tile.T, members[i : i + rows])
            sums[i : i + rows].addmm_(tile, members[j : j + columns])
    return sums


def _distance_sums_of(sample: np.ndarray, points: Tensor, members: Tensor) -> Tensor:
    """The same for some of the points, against all of them."""
    left, right, noise = _factors(points)
    n = len(points)
    chosen = torch.from_numpy(sample)
    sums = torch.zeros(len(sample), members.shape[1], dtype=torch.float64)
    wide = TILE * 4
    for i in range(0, len(sample), TILE):
        ids = chosen[i : i + TILE]
        rows = left[ids]
        for j in range(0, n, wide):
            tile = torch.mm(rows, right[:, j : j + wide])
            torch.threshold_(tile, noise, 0).sqrt_()
            inside = ((ids >= j) & (ids < j + tile.shape[1])).nonzero()[:, 0]
            tile[inside, ids[inside] - j] = 0
            sums[i : i + TILE].addmm_(tile, members[j : j + wide])
    return sums


def stratified(codes: np.ndarray, total: int, rng: np.random.Generator) -> np.ndarray:
    """About `total` points, from each cluster in proportion but never fewer than a fair share."""
    k = int(codes.max()) + 1
    sizes = np.bincount(codes, minlength=k)
    fair = np.maximum(total * sizes / len(codes), total / (4 * k))
    counts = np.minimum(sizes, np.ceil(fair).astype(int))
    picks = [rng.choice(np.flatnonzero(codes == c), counts[c], replace=False) for c in range(k)]
    return np.sort(np.concatenate(picks))


def _coefficients(sums: np.ndarray, codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rows = np.arange(len(codes))
    alone = sizes[codes] == 1
    a = sums[rows, codes] / np.maximum(sizes[codes] - 1, 1)
    means = sums / sizes
    means[rows, codes] = np.inf
    b = means.min(1)
    largest = np.maximum(a, b)
    # All of a point's distances are 0 only when clusters coincide: no separation, so s = 0.
    values = np.divide(b - a, largest, out=np.zeros_like(a), where=largest > 0)
    return np.where(alone, 0.0, values)


def _stratified_mean(values: np.ndarray, codes: np.ndarray, sizes: np.ndarray) -> Score:
    n = sizes.sum()
    means, mean, variance = [], 0.0, 0.0
    for cluster, size in enumerate(sizes):
        sample = values[codes == cluster]
        share = size / n
        means.append(float(sample.mean()))
        mean += share * means[-1]
        if 1 < len(sample) < size:
            variance += share**2 * sample.var(ddof=1) / len(sample) * (1 - len(sample) / size)
    return Score(float(mean), float(np.sqrt(variance)), tuple(means))


def _squared(points: np.ndarray, codes: np.ndarray, k: int) -> float:
    """Squared-Euclidean, in linear time: from each cluster's size, sum and sum of squares."""
    points = points - points.mean(0)
    sizes = np.bincount(codes, minlength=k)
    totals = np.zeros((k, points.shape[1]))
    np.add.at(totals, codes, points)
    squares = (points**2).sum(1)
    cluster_squares = np.bincount(codes, weights=squares, minlength=k)
    norms = squares[:, None] * sizes + cluster_squares
    sums = norms - 2 * points @ totals.T
    values = _coefficients(np.where(sums > ROUNDING * norms, sums, 0), codes, sizes)
    return float(values.mean())
