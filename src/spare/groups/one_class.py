"""The clusters of one class: a pure function of its points, wherever they are.

An engine (`spare.engines`) is whoever maps `cluster_class` over classes, or shares out the points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spare.errors import InputError
from spare.groups.arrays import distinct_rows
from spare.groups.clusterers import (
    DEFAULT,
    NearestMean,
    assigner,
    checked,
    clusterer_named,
    clusterings,
)
from spare.groups.distances import Frame, frame_of
from spare.groups.kmeans import MANY, Means, kmeans, kmeans_of_many
from spare.groups.medoids import medoids_of_many, sieved_medoids
from spare.groups.points import Points
from spare.groups.result import ClassClusters, largest_first
from spare.groups.silhouettes import Score, estimates, silhouettes
from spare.text import shown

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

#: Squared distances above this share of the largest squared norm are far beyond rounding.
APART = 1e-6
#: Clusterers that need not have all points in memory.
OfMany = Callable[[Points, Frame, Sequence[int], int], list[Means]]
OF_MANY: dict[str, OfMany] = {
    DEFAULT: kmeans_of_many,
    "kmedoids": medoids_of_many,
    "kmedoids_sieve": sieved_medoids,
}
IDENTICAL = "all outputs are identical: one cluster"


def cluster_class(
    points: np.ndarray | Points,
    *,
    k: int | None = None,
    k_max: int = 5,
    clusterer: Any = DEFAULT,
    seed: int = 0,
) -> ClassClusters:
    """The best clustering of one class's points, its largest cluster first.

    A pure function whose arguments and result can be pickled, so it can run in any process. Points
    may also be on disk, or shared out among processes: then the codes are those of the rows here.
    """
    estimator = resolved(clusterer, seed)  # imports scikit-learn, whose threads are then limited
    shared = points if isinstance(points, Points) else Points(points)
    name = clusterer if isinstance(clusterer, str) else ""
    # k-means on a few columns is several times slower with many threads fighting over them.
    with thread_pools().limit(limits=1):
        count = int(shared.total(np.array([len(shared)]))[0])
        if name in OF_MANY and count > MANY:
            return _cluster_many(shared, count, k, k_max, seed, OF_MANY[name])
        if count > MANY and type(shared) is not Points:
            raise InputError(
                f"a class has {count:,} examples, and of more than {MANY:,} that are not all in "
                f"this process's memory only {', '.join(OF_MANY)} make clusters: use one of them, "
                f"or engine 'local'."
            )
        everything = shared.gather(shared.take(slice(None)))
        clustered = _cluster_class(everything, k, k_max, estimator, seed, by_means=name == DEFAULT)
    here = shared.gather(np.full(len(shared), shared.share)) == shared.share
    if here.all():
        return clustered
    sizes = tuple(np.bincount(clustered.codes).tolist())
    return replace(clustered, codes=clustered.codes[here], all_sizes=sizes)


def resolved(clusterer: Any, seed: int) -> Any:
    return clusterer_named(clusterer, seed) if isinstance(clusterer, str) else checked(clusterer)


@cache
def thread_pools() -> ThreadpoolController:
    """The thread pools of NumPy and scikit-learn, which can be limited together."""
    import sklearn.cluster  # noqa: F401  (its thread pools must be loaded to be limited)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _cluster_class(
    points: np.ndarray, k: int | None, k_max: int, estimator: Any, seed: int, *, by_means: bool
) -> ClassClusters:
    if len(points) == 1:
        return _one_cluster(points, "only one example: one cluster")
    if (points == points[0]).all():
        return _one_cluster(points, IDENTICAL)
    if k == 1:
        return _one_cluster(points)
    possible, note = _possible(distinct_rows(points, k or k_max), k, k_max)
    if by_means:
        if len(possible) > 1 and possible[-1] == len(points) and _all_apart(points):
            possible.pop()  # it would find clusters of one point each, which have no score
        found = [means.codes for means in kmeans(points, possible, seed)]
    else:
        made = clusterings(points, possible, estimator)
        found = [clustering.codes for clustering in made]
    scorable = [i for i, codes in enumerate(found) if 2 <= codes.max() + 1 <= len(points) - 1]
    results = silhouettes(points, [found[i] for i in scorable], seed=seed)
    best, scores, errors = _best(scorable, results)
    ranks = largest_first(found[best])
    codes = ranks[found[best]]
    means = np.stack([points[codes == code].mean(0) for code in range(len(ranks))])
    # By the means of k-means' members, not by its centers, which may be a step behind them.
    assign = NearestMean(means) if by_means else assigner(made[best], ranks, means)
    return ClassClusters(codes, scores, errors, note, assign)


def _cluster_many(
    points: Points, count: int, k: int | None, k_max: int, seed: int, method: OfMany
) -> ClassClusters:
    """By a method that computes what it needs of all points in passes over them."""
    frame = frame_of(points)
    distinct = distinct_rows(points, max(k or k_max, 2))
    if distinct == 1 or k == 1:
        codes = np.zeros(len(points), dtype=np.uint8)
        note = IDENTICAL if distinct == 1 else ""
        assign = NearestMean(frame.center[None])
        return ClassClusters(codes, note=note, assign=assign, all_sizes=(count,))
    possible, note = _possible(distinct, k, k_max)
    found = method(points, frame, possible, seed)
    scorable = [i for i, means in enumerate(found) if means.k >= 2]
    results = estimates(
        points, frame, [found[i].codes for i in scorable], [found[i].k for i in scorable], seed=seed
    )
    best, scores, errors = _best(scorable, results)
    clusters = np.arange(found[best].k)
    sizes, sums = np.zeros(len(clusters)), np.zeros((len(clusters), points.width))
    for rows, block in points.blocks():
        members = found[best].codes[rows] == clusters[:, None]
        sizes += members.sum(1)
        sums += members.astype(np.float64) @ block
    sizes, sums = points.total(sizes), points.total(sums)
    ranks = np.empty(len(sizes), dtype=np.int64)
    ranks[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    means = np.empty_like(sums)
    centers = found[best].centers
    means[ranks] = sums / sizes[:, None] if centers is None else centers
    codes = ranks.astype(found[best].codes.dtype)[found[best].codes]
    all_sizes = tuple(np.sort(sizes.astype(int))[::-1].tolist())
    return ClassClusters(codes, scores, errors, note, NearestMean(means), all_sizes)


def _possible(distinct: int, k: int | None, k_max: int) -> tuple[list[int], str]:
    """The numbers of clusters to try, and what to say where it is not the one asked for."""
    if k is None:
        return list(range(2, min(k_max, distinct) + 1)), ""
    note = ""
    if distinct < k:
        note = f"only {distinct} distinct outputs, so {distinct} clusters instead of {shown(k)}"
    return [min(k, distinct)], note


def _best(
    scorable: Sequence[int], results: Sequence[Score]
) -> tuple[int, dict[int, float], dict[int, float]]:
    """Which clustering has the largest score (the first where none has any), and all scores."""
    best = 0
    scores: dict[int, float] = {}
    errors: dict[int, float] = {}
    for i, score in zip(scorable, results, strict=True):
        count = len(score.by_cluster)
        if not scores or score.mean > max(scores.values()):
            best = i
        # Two searches may end in the same number of clusters: the better one counts.
        if count not in scores or score.mean > scores[count]:
            scores[count], errors[count] = score.mean, score.error
    return best, scores, errors


def _all_apart(points: np.ndarray) -> bool:
    """Whether k-means can tell all of these few points apart.

    It loses distances that are small beside the points' norms: of two points nearly the same it
    may make one cluster even where every point could have its own, and that has a score.
    """
    centered = points - points.mean(0)
    squares = ((centered[:, None] - centered) ** 2).sum(2)
    np.fill_diagonal(squares, np.inf)
    return bool(squares.min() > APART * (centered**2).sum(1).max())


def _one_cluster(points: np.ndarray, note: str = "") -> ClassClusters:
    codes = np.zeros(len(points), dtype=np.int64)
    return ClassClusters(codes, note=note, assign=NearestMean(points.mean(0)[None]))
