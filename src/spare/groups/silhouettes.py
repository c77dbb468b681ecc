"""The mean silhouette coefficient, fast enough to be computed for every class and every k.

For one point, a is its mean distance to the rest of its own cluster, b the smallest mean distance
to another cluster, s = (b - a) / max(a, b); a point alone in its cluster has s = 0. The score is
the mean of s over all points.

Distances do not depend on the clustering, so one pass over them serves every k at once; how they
are summed is in distances.py.

Above `EXACT_LIMIT` points the mean is estimated from `ANCHORS` of them, sampled from every cluster
(a plain subsample would lose a tiny cluster). Each anchor's a and b are still exact, measured
against all points, so the standard error is known and returned. It is small, because a good guess
at s is known of every point (guess.py), and only how far that is off has to be estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spare.errors import InputError
from spare.groups.arrays import as_numpy, checked_outputs, class_labels, one_of
from spare.groups.atoms import Atoms, atoms_of, count_of, scored_together, stratified
from spare.groups.distances import (
    ROUNDING,
    SLOW_LIMIT,
    Frame,
    SumsFrom,
    distance_sums,
    frame_of,
)
from spare.groups.guess import Guess
from spare.groups.points import Points
from spare.limits import half_of_memory

EXACT_LIMIT = 20_000
ANCHORS = 2_000
METRICS = ("euclidean", "sqeuclidean")


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
    if len(points) > (EXACT_LIMIT if exact_limit is None else exact_limit):
        shared = Points(points)
        return estimates(shared, frame_of(shared), labelings, seed=seed, anchors=anchors)
    scores = []
    for group in scored_together([count_of(codes) for codes in labelings]):
        atoms = atoms_of([labelings[i] for i in group])
        sums = distance_sums(points, atoms.codes, len(atoms.sizes))
        scores += scores_from(sums, atoms.codes, atoms)
    return scores


def estimates(
    points: Points,
    frame: Frame,
    labelings: Sequence[np.ndarray],
    ks: Sequence[int] | None = None,
    *,
    seed: int = 0,
    anchors: int = ANCHORS,
) -> list[Score]:
    """Scores of several clusterings from some points of every cluster, measured against all.

    Parameters
    ----------
    points, frame
        The points, wherever they are, and what distances between them are measured with.
    labelings
        Codes of the rows that are here.
    ks
        How many clusters each has; by default as many as are here.
    """
    ks = [count_of(codes) for codes in labelings] if ks is None else ks
    scores = []
    for group in scored_together(ks):
        atoms = atoms_of([labelings[i] for i in group], [ks[i] for i in group], points)
        n = int(atoms.sizes.sum())
        rng = np.random.default_rng([seed, n, points.share])
        rows = stratified(atoms.codes, anchors, rng, points)
        anchor_points = points.gather(points.take(rows))
        of_anchors = points.gather(atoms.codes[rows])
        sums = SumsFrom(anchor_points, frame, len(atoms.sizes), fast=n > SLOW_LIMIT)
        shares = points.gather(np.full(len(rows), points.share))
        own = np.where(shares == points.share, points.gather(rows), -1)
        guess = Guess.of(points, frame, atoms)
        guessed = np.zeros((len(group), len(atoms.sizes)))
        for block_rows, block in points.blocks():
            codes = atoms.codes[block_rows]
            for i, values in enumerate(guess.values(block, codes)):
                guessed[i] += np.bincount(codes, weights=values, minlength=len(atoms.sizes))
            inside = (own >= block_rows.start) & (own < block_rows.stop)
            sums.add(block, codes, np.where(inside, own - block_rows.start, -1))
        scores += scores_from(
            points.total(sums.sums),
            of_anchors,
            atoms,
            guess.values(anchor_points, of_anchors),
            points.total(guessed) / atoms.sizes,
        )
    return scores


def point_silhouettes(
    points: np.ndarray, labelings: Sequence[np.ndarray], rows: np.ndarray | None = None
) -> list[np.ndarray]:
    """For each clustering (codes 0..k-1), s of every point, or of these rows against all points."""
    values = []
    for group in scored_together([count_of(codes) for codes in labelings]):
        atoms = atoms_of([labelings[i] for i in group])
        if rows is None:
            sums = distance_sums(points, atoms.codes, len(atoms.sizes))
            of = atoms.codes
        else:
            shared = Points(points)
            of = atoms.codes[rows]
            towards = SumsFrom(
                points[rows], frame_of(shared), len(atoms.sizes), fast=len(points) > SLOW_LIMIT
            )
            towards.add(points, atoms.codes, rows)
            sums = towards.sums
        values += _values(sums, of, atoms)
    return values


def _values(sums: np.ndarray, codes: np.ndarray, atoms: Atoms) -> list[np.ndarray]:
    """For each clustering, s of points from their sums of distances to atoms."""
    values = []
    for clusters in atoms.clusters:
        members = np.zeros((len(clusters), int(clusters.max()) + 1))
        members[np.arange(len(clusters)), clusters] = 1
        sizes = np.bincount(clusters, weights=atoms.sizes)
        values.append(_coefficients(sums @ members, clusters[codes], sizes))
    return values


def scores_from(
    sums: np.ndarray,
    codes: np.ndarray,
    atoms: Atoms,
    guesses: Sequence[np.ndarray] | None = None,
    guessed: np.ndarray | None = None,
) -> list[Score]:
    """The score of each clustering, from sums of distances to atoms of points in these atoms.

    Parameters
    ----------
    guesses, guessed
        For each clustering, a guess at s of these points, and its mean over all points of every
        atom: what is then estimated is only how far the guess is off.
    """
    scores = []
    for i, values in enumerate(_values(sums, codes, atoms)):
        guess = None if guesses is None or guessed is None else (guesses[i], guessed[i])
        scores.append(_stratified_mean(values, codes, atoms.sizes, atoms.clusters[i], guess))
    return scores


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


def _stratified_mean(
    values: np.ndarray,
    codes: np.ndarray,
    sizes: np.ndarray,
    clusters: np.ndarray,
    guess: tuple[np.ndarray, np.ndarray] | None = None,
) -> Score:
    """The mean over all points from a sample of every atom; `clusters` are those of the atoms."""
    shares = sizes / sizes.sum()
    counts = np.bincount(codes, minlength=len(sizes))
    means = np.bincount(codes, weights=values, minlength=len(sizes)) / counts
    rest = values - means[codes]
    if guess is not None:
        of_sample = np.bincount(codes, weights=guess[0], minlength=len(sizes)) / counts
        away = guess[0] - of_sample[codes]
        weights = (shares / counts)[codes] ** 2
        square = float(weights @ away**2)
        slope = float(weights @ (away * rest)) / square if square > 0 else 0.0
        means = means + slope * (guess[1] - of_sample)
        rest = rest - slope * away
    squares = np.bincount(codes, weights=rest**2, minlength=len(sizes))
    sampled = (counts > 1) & (counts < sizes)
    each = squares / np.maximum(counts - 1, 1) / counts * (1 - counts / sizes)
    variance = (shares**2 * each)[sampled].sum()
    by_cluster = np.bincount(clusters, weights=means * sizes) / np.bincount(clusters, weights=sizes)
    return Score(float(shares @ means), float(np.sqrt(variance)), tuple(by_cluster.tolist()))


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
