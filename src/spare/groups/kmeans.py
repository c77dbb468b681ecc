"""k-means for every k at once: scikit-learn's for few points, and for many the same from sums.

Few points: ten starts of scikit-learn's k-means for each k.

Many points, wherever they are (points.py), in a number of passes that does not grow with them:

1. Sample points that are far from those sampled so far, a few dozen per pass (k-means||, Bahmani et
   al., VLDB 2012). Every point is looked at, so a dozen far from all others are not missed.
2. Give every point to the nearest of the sample: their numbers and means are a small summary.
3. Cluster the summary for each k, from many starts; it costs next to nothing.
4. From the best of these, ordinary steps of k-means on all points, every k in the same pass.

Only sums over points leave a pass, so shares of the points can be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spare.groups.atoms import AT_ONCE
from spare.groups.distances import ROUNDING, Frame
from spare.groups.points import Points

#: More points than this are many: their silhouette is estimated too.
MANY = 20_000
#: scikit-learn's, as in the paper's experiments.
STARTS = 10
#: Passes that sample, and points that each adds: at least so many, or so many for each cluster.
SAMPLING_PASSES, PER_PASS, PER_CLUSTER = 4, 32, 4
#: Points that are sampled evenly, so that dense regions are summarized finely too.
ANYWHERE = 128
#: Starts on the summary for each k, how many of the results are refined on all points, and how far
#: above the best one's inertia they may be: the summary is not that exact.
SUMMARY_STARTS, REFINED, WORSE = 30, 6, 1.1
#: Steps have converged when centers move less than this share of the mean variance (scikit-learn
#: stops at 1e-4).
TOLERANCE = 1e-7
MOST_STEPS = 100
#: After so many steps, only centers whose inertia is within this factor of the best one's go on.
CHOOSE = {4: 1.01, 10: 1.0002}


class Means(NamedTuple):
    """One clustering around centers."""

    #: The cluster of every point that is here, 0..k-1.
    codes: np.ndarray
    k: int
    #: Sum of squared distances to the nearest center.
    inertia: float
    #: The centers, where those are not the means of the clusters.
    centers: np.ndarray | None = None


def kmeans(points: np.ndarray, ks: Sequence[int], seed: int) -> list[Means]:
    """Of few points: for each k, the best of ten starts."""
    from sklearn.cluster import KMeans

    results = []
    for k in ks:
        fitted = KMeans(k, init=FarStarts(), n_init=STARTS, random_state=seed).fit(points)
        results.append(_closed_up(fitted.labels_, np.bincount(fitted.labels_), fitted.inertia_))
    return results


def _closed_up(codes: np.ndarray, counts: np.ndarray, inertia: float) -> Means:
    """A center may have lost all of its points: its number is given to the next."""
    used = np.flatnonzero(counts)
    if len(used) < len(counts):
        numbers = np.zeros(len(counts), dtype=codes.dtype)
        numbers[used] = np.arange(len(used))
        codes = numbers[codes]
    return Means(codes, len(used), float(inertia))


class FarStarts:
    """Greedy k-means++: each center is sampled by its squared distance to the others.

    Step by step what scikit-learn does with the same random numbers, in half of the time: what all
    starts need of the points is computed once, and arrays of our own need no checks.
    """

    points: np.ndarray | None = None

    def __call__(self, points: np.ndarray, k: int, random_state: Any) -> np.ndarray:
        n = len(points)
        if self.points is not points:
            self.points = points
            self.squares = np.einsum("ij,ij->i", points, points)
            self.doubled = np.ascontiguousarray(-2 * points.T)
            self.uniform = np.full(n, 1 / n).cumsum()
            self.uniform /= self.uniform[-1]
        trials = 2 + int(np.log(k))
        chosen = [int(self.uniform.searchsorted(random_state.random_sample(), side="right"))]
        nearest = self._distances(np.array(chosen))[0]
        for _ in range(k - 1):
            sums = nearest.cumsum()
            at = random_state.uniform(size=trials) * nearest.sum()
            tried = np.minimum(sums.searchsorted(at), n - 1)
            distances = self._distances(tried)
            np.minimum(distances, nearest, out=distances)
            best = int(distances.sum(1).argmin())
            chosen.append(int(tried[best]))
            nearest = distances[best]
        return np.asarray(points[chosen])

    def _distances(self, rows: np.ndarray) -> np.ndarray:
        assert self.points is not None
        distances = self.points[rows] @ self.doubled
        distances += self.squares
        distances += self.squares[rows, None]
        return np.asarray(np.maximum(distances, 0, out=distances))


def kmeans_of_many(points: Points, frame: Frame, ks: Sequence[int], seed: int) -> list[Means]:
    """Of many points, wherever they are: for each k, the best that was found."""
    sample = _far_points(points, frame, max(PER_PASS, PER_CLUSTER * max(ks)), seed)
    summary = _summary(points, frame, sample)
    starts = [_summary_centers(summary, k, seed) for k in ks]
    refined = _refined(points, frame, starts, summary)
    last = _Pass(points, frame, refined, keep_codes=True)
    return [
        _closed_up(codes, counts, inertia * frame.unit**2)
        for codes, counts, inertia in zip(last.codes, last.counts, last.inertias, strict=True)
    ]


def _far_points(points: Points, frame: Frame, per_pass: int, seed: int) -> Tensor:
    """A sample in which no far point is missed: by squared distance to what is in it already."""
    rng = np.random.default_rng([seed, points.share])
    sample = new = torch.zeros(1, points.width, dtype=torch.float64)  # the center of all
    nearest = np.full(len(points), np.inf, dtype=np.float32)
    for number in range(SAMPLING_PASSES):
        here = np.zeros(2)
        for rows, block in points.blocks():
            scaled = frame.scaled(block)
            squares = _to_centers(scaled, new).amin(0) + (scaled * scaled).sum(1)
            torch.threshold_(squares, ROUNDING, 0)
            nearest[rows] = np.minimum(nearest[rows], squares.numpy())
            here += nearest[rows].sum(dtype=np.float64), len(block)
        total, count = points.total(here)
        if total == 0:
            break
        anywhere = ANYWHERE / count if number == 0 else 0.0
        parts = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(points), AT_ONCE):
            likely = nearest[start : start + AT_ONCE] * (per_pass / total) + anywhere
            parts.append(start + np.flatnonzero(rng.random(len(likely)) < likely))
        chosen = np.concatenate(parts)
        new = frame.scaled(points.gather(points.take(chosen)))
        if len(new) == 0:
            break
        sample = torch.cat([sample, new])
    return sample


class _Summary(NamedTuple):
    """Points that are nearest to the same one of a sample, taken together."""

    means: np.ndarray
    weights: np.ndarray
    #: Sum of squares of all points, and their distances to their means.
    squares: float
    scatter: float


def _summary(points: Points, frame: Frame, sample: Tensor) -> _Summary:
    m, d = sample.shape
    sums = torch.zeros(m, d + 1, dtype=torch.float64)
    squares = 0.0
    narrow = sample.float()
    for _, block in points.blocks():
        scaled = frame.scaled(block)
        nearest = _to_centers(scaled.float(), narrow).T.contiguous().min(1).indices
        ones = torch.ones(len(scaled), 1, dtype=torch.float64)
        sums.index_add_(0, nearest, torch.cat([scaled, ones], 1))
        squares += float((scaled * scaled).sum())
    together = points.total(np.append(sums.numpy().ravel(), squares))
    of_all = together[:-1].reshape(m, d + 1)
    of_all = of_all[of_all[:, -1] > 0]
    weights = of_all[:, -1]
    means = of_all[:, :-1] / weights[:, None]
    scatter = together[-1] - float((means**2).sum(1) @ weights)
    return _Summary(means, weights, float(together[-1]), float(scatter))


def _summary_centers(summary: _Summary, k: int, seed: int) -> list[Tensor]:
    """The best ways to cluster the summary, as centers."""
    from sklearn.cluster import KMeans

    if k >= len(summary.means):
        return [torch.from_numpy(summary.means)]
    found: dict[float, np.ndarray] = {}
    for start in range(SUMMARY_STARTS):
        fitted = KMeans(k, n_init=1, tol=0, random_state=(seed + start) % 2**32)
        fitted.fit(summary.means, sample_weight=summary.weights)
        found[float(f"{fitted.inertia_:.4g}")] = fitted.cluster_centers_
    inertias = sorted(found)
    most = WORSE * (inertias[0] + summary.scatter) - summary.scatter
    return [torch.from_numpy(found[i]) for i in inertias[:REFINED] if i <= most]


def _refined(
    points: Points, frame: Frame, starts: Sequence[list[Tensor]], summary: _Summary
) -> list[Tensor]:
    """The best centers for each k after steps of k-means, all of them in the same passes.

    Parameters
    ----------
    starts
        For each k, the centers to start from; after a few steps only the most promising go on.
    """
    variance = summary.squares / summary.weights.sum() / points.width
    sets = [list(centers) for centers in starts]
    moving = [[True] * len(centers) for centers in starts]
    for number in range(MOST_STEPS):
        keys = [(i, j) for i, row in enumerate(moving) for j, moves in enumerate(row) if moves]
        if number in CHOOSE:  # all are looked at, also those that have converged
            keys = [(i, j) for i, centers in enumerate(sets) for j in range(len(centers))]
        if not keys:
            break
        step = _Pass(points, frame, [sets[i][j] for i, j in keys])
        for (i, j), sums, counts in zip(keys, step.sums, step.counts, strict=True):
            means = torch.from_numpy(sums / np.maximum(counts, 1)[:, None])
            means = torch.where(torch.from_numpy(counts > 0)[:, None], means, sets[i][j])
            moving[i][j] = float(((means - sets[i][j]) ** 2).sum()) > TOLERANCE * variance
            sets[i][j] = means
        if number in CHOOSE:
            inertia = dict(zip(keys, step.inertias, strict=True))
            for i in range(len(sets)):
                lowest = min(inertia[i, j] for j in range(len(sets[i])))
                kept = [j for j in range(len(sets[i])) if inertia[i, j] <= CHOOSE[number] * lowest]
                sets[i], moving[i] = [sets[i][j] for j in kept], [moving[i][j] for j in kept]
    final = _Pass(points, frame, [centers for row in sets for centers in row])
    inertias = iter(final.inertias)
    return [min(row, key=lambda _: next(inertias)) for row in sets]


class _Pass:
    """One pass over all points, with several sets of centers: sums, sizes and inertia of each."""

    def __init__(
        self, points: Points, frame: Frame, sets: Sequence[Tensor], *, keep_codes: bool = False
    ):
        ks = [len(centers) for centers in sets]
        ends = np.cumsum(ks)
        parts = [slice(int(end) - k, int(end)) for k, end in zip(ks, ends, strict=True)]
        stacked = torch.cat(list(sets))
        self.codes = [
            np.empty(len(points) if keep_codes else 0, dtype=np.uint8 if k <= 256 else np.int32)
            for k in ks
        ]
        sums = torch.zeros(len(stacked), points.width, dtype=torch.float64)
        counts = torch.zeros(len(stacked), dtype=torch.float64)
        inertias = torch.zeros(len(sets), dtype=torch.float64)
        for rows, block in points.blocks():
            scaled = frame.scaled(block)
            distances = _to_centers(scaled, stacked)
            members = torch.zeros_like(distances)
            inertias += (scaled * scaled).sum()
            for i, part in enumerate(parts):
                lowest, nearest = distances[part].min(0)
                members[part].scatter_(0, nearest[None], 1.0)
                inertias[i] += lowest.sum()
                if keep_codes:
                    self.codes[i][rows] = nearest.numpy()
            sums += members @ scaled
            counts += members.sum(1)
        together = points.total(
            np.concatenate([sums.numpy().ravel(), counts.numpy(), inertias.numpy()])
        )
        of_all, counted = together[: sums.numel()].reshape(sums.shape), together[sums.numel() :]
        self.sums = [of_all[part] for part in parts]
        self.counts = [counted[part] for part in parts]
        self.inertias = [float(value) for value in counted[len(stacked) :]]


def _to_centers(points: Tensor, centers: Tensor) -> Tensor:
    """Squared distances, less each point's own square: one row per center, one column per point."""
    return torch.addmm((centers * centers).sum(1, keepdim=True), centers, points.T, alpha=-2)
