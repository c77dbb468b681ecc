"""A guess at the silhouette of every point, from the means and spreads of clusters alone.

The mean distance from a point to a cluster is about the root of its mean squared distance, which is
the squared distance to the cluster's mean plus the cluster's variance. One pass over the points
then tells what the mean of the guess is, and it goes closely with the real one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spare.groups.atoms import Atoms
from spare.groups.distances import Frame
from spare.groups.points import Points


class Guess(NamedTuple):
    """For each of several clusterings, the means and variances of its clusters, in units."""

    frame: Frame
    means: list[np.ndarray]
    variances: list[np.ndarray]
    #: The cluster of every atom.
    clusters: list[np.ndarray]

    @classmethod
    def of(cls, points: Points, frame: Frame, atoms: Atoms) -> Guess:
        count = len(atoms.sizes)
        sums = np.zeros((count, points.width + 1))
        for rows, block in points.blocks():
            scaled = frame.scaled(block).numpy()
            squares = (scaled * scaled).sum(1)
            members = (atoms.codes[rows] == np.arange(count)[:, None]).astype(np.float64)
            sums += members @ np.column_stack([scaled, squares])
        sums = points.total(sums)
        means, variances = [], []
        for clusters in atoms.clusters:
            members = (clusters == np.arange(clusters.max() + 1)[:, None]).astype(np.float64)
            of_cluster = members @ sums / (members @ atoms.sizes)[:, None]
            means.append(of_cluster[:, :-1])
            variances.append(np.maximum(of_cluster[:, -1] - (means[-1] ** 2).sum(1), 0))
        return cls(frame, means, variances, atoms.clusters)

    def values(self, points: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
        """The guess at s of these points in these atoms, for each clustering."""
        scaled = self.frame.scaled(points).numpy()
        squares = (scaled * scaled).sum(1, keepdims=True)
        rows = np.arange(len(points))
        values = []
        for means, variances, clusters in zip(
            self.means, self.variances, self.clusters, strict=True
        ):
            distances = squares - 2 * scaled @ means.T + (means**2).sum(1)
            distances = np.sqrt(np.maximum(distances, 0) + variances)
            own = clusters[codes]
            a = distances[rows, own]
            distances[rows, own] = np.inf
            b = distances.min(1)
            largest = np.maximum(a, b)
            values.append(np.divide(b - a, largest, out=np.zeros_like(a), where=largest > 0))
        return values
