"""k-medoids as facility location: pick points that bring all others nearest to one of them.

Kaufman and Rousseeuw's k-medoids minimize the sum of distances to the nearest medoid. What a set of
medoids saves, compared with everyone going to the middle of all points, is a monotone submodular
function, so picking the medoid that saves most, one after the other, saves at least 63 % of the
most that any k can (Nemhauser, Wolsey, Fisher 1978). And it can be done for data of any size:

- `greedy`: each time the best of a sample of candidates (Mirzasoleiman et al., AAAI 2015), half of
  them anywhere, half where points are still far from every medoid
- `two_rounds`: every share of the points picks its own k, then all together the best of those
  (GreeDi: Mirzasoleiman et al., NeurIPS 2013)
- `sieve`: one pass, keeping points that save enough, for several guesses of what is enough
  (Badanidiyuru et al., KDD 2014)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare.groups.distances import ROUNDING, Frame, frame_of
from spare.groups.kmeans import Means
from spare.groups.points import Points

#: Candidates for each medoid: as many anywhere as where points are far.
CANDIDATES = 400
#: Points that a pass over many is judged by, and the step between two guesses of what is enough.
REFERENCE, GUESS = 2_000, 0.1


class KMedoids:
    """A clusterer in scikit-learn's manner: medoids by `greedy`, points to the nearest."""

    def __init__(self, n_clusters: int = 2, random_state: int = 0):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters, "random_state": self.random_state}

    def fit_predict(self, points: np.ndarray) -> np.ndarray:
        shared = Points(points)
        self.frame = frame_of(shared)
        self.medoids = greedy(shared, self.frame, self.n_clusters, self.random_state)
        return self.predict(points)

    def predict(self, points: np.ndarray) -> np.ndarray:
        codes = _distances(self.frame.scaled(points), self.medoids).min(1).indices
        return np.asarray(codes.numpy())


def greedy(points: Points, frame: Frame, k: int, seed: int, *, together: bool = True) -> Tensor:
    """k medoids, in units of the frame; the first ones are those of a smaller k.

    Parameters
    ----------
    together
        With the other shares of the points; False to pick from and for this share only.
    """
    rng = np.random.default_rng([seed, points.share])
    nearest = _from_the_middle(points, frame)
    medoids = torch.empty(0, points.width, dtype=torch.float64)
    for _ in range(k):
        candidates = points.take(_candidates(nearest, rng))
        scaled = frame.scaled(points.gather(candidates) if together else candidates)
        saved = _saved(points, frame, nearest, scaled)
        best = scaled[int((points.total(saved) if together else saved).argmax())]
        medoids = torch.cat([medoids, best[None]])
        _approach(points, frame, nearest, best[None])
    return medoids


def two_rounds(points: Points, frame: Frame, k: int, seed: int) -> Tensor:
    """k medoids of all shares: of those that each share picks, the best together."""
    mine = torch.empty(0, points.width, dtype=torch.float64)
    if len(points):
        mine = greedy(points, frame, k, seed, together=False)
    return best_of(points, frame, torch.from_numpy(points.gather(mine.numpy())), k)


def best_of(points: Points, frame: Frame, candidates: Tensor, k: int) -> Tensor:
    """The k of these candidates that save most, one after the other, over all shares."""
    nearest = _from_the_middle(points, frame)
    medoids = torch.empty(0, points.width, dtype=torch.float64)
    for _ in range(min(k, len(candidates))):
        saved = points.total(_saved(points, frame, nearest, candidates))
        best = candidates[int(saved.argmax())]
        medoids = torch.cat([medoids, best[None]])
        _approach(points, frame, nearest, best[None])
    return medoids


def sieve(blocks: Iterable[Tensor], reference: Tensor, k: int) -> Tensor:
    """k medoids from one pass over blocks of points, judged by what they save a reference sample.

    A sieve keeps a point that saves at least its part of what the sieve guesses that k can save.
    Guesses go from what the best single point saves to k times that.
    """
    base = reference.square().sum(1).sqrt()
    sieves: dict[int, tuple[Tensor, Tensor]] = {}  # by guess: medoids, and distances to them
    most = 0.0
    for block in blocks:
        distances = _distances(block, reference)
        most = max(most, float((base - distances).clamp_(min=0).sum(1).max()))
        if most == 0:
            continue
        low = int(np.ceil(np.log(most) / np.log1p(GUESS)))
        high = int(np.floor(np.log(2 * k * most) / np.log1p(GUESS)))
        sieves = {g: s for g, s in sieves.items() if low <= g <= high}
        for guess in range(low, high + 1):
            medoids, nearest = sieves.get(guess, (block[:0], base))
            while len(medoids) < k:
                value = float((base - nearest).sum())
                enough = ((1 + GUESS) ** guess / 2 - value) / (k - len(medoids))
                gains = (nearest - distances).clamp_(min=0).sum(1)
                taken = torch.nonzero(gains >= max(enough, 1e-12))
                if not len(taken):
                    break
                place = int(taken[0, 0])
                medoids = torch.cat([medoids, block[place : place + 1]])
                nearest = torch.minimum(nearest, distances[place])
            sieves[guess] = medoids, nearest
    if not sieves:
        return reference[:1]
    return max(sieves.values(), key=lambda found: float((base - found[1]).sum()))[0]


def medoids_of_many(points: Points, frame: Frame, ks: Sequence[int], seed: int) -> list[Means]:
    """For each k, clusters around medoids of points wherever they are."""
    return _clusters(points, frame, two_rounds(points, frame, max(ks), seed), ks)


def sieved_medoids(points: Points, frame: Frame, ks: Sequence[int], seed: int) -> list[Means]:
    """The same, with candidates from a single pass over each share; a second one assigns points."""
    rng = np.random.default_rng([seed, points.share])
    count = min(REFERENCE, len(points))
    rows = np.sort(rng.choice(len(points), count, replace=False)) if count else np.empty(0, int)
    reference = frame.scaled(points.take(rows))
    here = torch.empty(0, points.width, dtype=torch.float64)
    if count:
        here = sieve((frame.scaled(block) for _, block in points.blocks()), reference, max(ks))
    candidates = torch.from_numpy(points.gather(here.numpy()))
    return _clusters(points, frame, best_of(points, frame, candidates, max(ks)), ks)


def value(points: Points, frame: Frame, medoids: Tensor) -> float:
    """What these medoids save: the sum over points, in units of the frame."""
    nearest = _from_the_middle(points, frame)
    before = nearest.sum()
    _approach(points, frame, nearest, medoids)
    return float(points.total(np.array([before - nearest.sum()]))[0])


def _clusters(points: Points, frame: Frame, medoids: Tensor, ks: Sequence[int]) -> list[Means]:
    sizes = [min(k, len(medoids)) for k in ks]
    codes = [np.empty(len(points), dtype=np.uint8 if k <= 256 else np.int32) for k in sizes]
    inertias = np.zeros(len(ks))
    for rows, block in points.blocks():
        distances = _distances(frame.scaled(block), medoids)
        for i, k in enumerate(sizes):
            lowest, nearest = distances[:, :k].min(1)
            codes[i][rows] = nearest.numpy()
            inertias[i] += float(lowest.square().sum())
    inertias = points.total(inertias) * frame.unit**2
    centers = medoids.numpy() * frame.unit + frame.center
    return [Means(codes[i], k, float(inertias[i]), centers[:k]) for i, k in enumerate(sizes)]


def _from_the_middle(points: Points, frame: Frame) -> np.ndarray:
    nearest = np.empty(len(points))
    for rows, block in points.blocks():
        nearest[rows] = frame.scaled(block).square().sum(1).sqrt().numpy()
    return nearest


def _candidates(nearest: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of this share: some anywhere, some by how far they still are from every medoid."""
    n = len(nearest)
    if n <= 2 * CANDIDATES:
        return np.arange(n)
    far = np.cumsum(nearest)
    by_distance = np.searchsorted(far, rng.random(CANDIDATES) * far[-1])
    return np.unique(np.append(rng.integers(0, n, CANDIDATES), np.minimum(by_distance, n - 1)))


def _saved(points: Points, frame: Frame, nearest: np.ndarray, candidates: Tensor) -> np.ndarray:
    saved = torch.zeros(len(candidates), dtype=torch.float64)
    for rows, block in points.blocks():
        distances = _distances(frame.scaled(block), candidates)
        saved += (torch.from_numpy(nearest[rows])[:, None] - distances).clamp_(min=0).sum(0)
    return saved.numpy()


def _approach(points: Points, frame: Frame, nearest: np.ndarray, medoids: Tensor) -> None:
    for rows, block in points.blocks():
        distances = _distances(frame.scaled(block), medoids).min(1).values
        nearest[rows] = np.minimum(nearest[rows], distances.numpy())


def _distances(points: Tensor, others: Tensor) -> Tensor:
    """From every point to every other, of points in units of a frame."""
    squares = torch.addmm(others.square().sum(1), points, others.T, alpha=-2)
    squares += points.square().sum(1, keepdim=True)
    return torch.threshold_(squares, ROUNDING, 0).sqrt_()
