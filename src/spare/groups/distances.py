"""Sums of Euclidean distances from points to clusters, without keeping a distance.

Squared distances come from a matrix product, |x|^2 + |y|^2 - 2xy. In float32 that is three times as
fast as in float64 but loses distances that are small beside the points' own lengths. So lengths are
taken from the middle of a tile, points are sorted so that a tile holds points at about the same
depth of their cluster, and each tile is looked at: one in which more than a few distances are small
is computed again from float64. What is then lost is below 1e-6 of a mean distance.

A tile of distances stays in a core's cache. Points are sorted by cluster, so that most tiles lie in
one cluster and their sums are plain sums of rows and columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spare.groups.points import Points

#: Rows and columns of a tile.
TILE = 640
#: Squared distances below this share of the largest squared length are rounding, and so are 0.
ROUNDING = 1e-14
#: Up to so many points, everything is computed in float64.
SLOW_LIMIT = 2048
#: In float32, a squared distance below SMALL times the mean squared length is small, and a tile
#: with more than TOO_MANY of them is computed again. Only every LOOK_AT-th row is checked for that.
SMALL, TOO_MANY, LOOK_AT = 2e-4, 1e-3, 24
#: Where this share of at least so many tiles had to be computed again, float32 is given up.
GIVE_UP, AT_LEAST = 0.4, 20


class Frame(NamedTuple):
    """What distances are measured with: points lie around the center, no further than 1 unit."""

    center: np.ndarray
    unit: float

    def scaled(self, points: np.ndarray) -> Tensor:
        return torch.from_numpy((points - self.center) / self.unit)


def frame_of(points: Points) -> Frame:
    """The frame of points, wherever they are."""
    count = np.zeros(1)
    sums = np.zeros(points.width)
    for _, block in points.blocks():
        count += len(block)
        sums += block.sum(0)
    center = points.total(sums) / points.total(count)
    here = max((_largest_norm(block - center) for _, block in points.blocks()), default=0.0)
    return Frame(center, points.largest(here) or 1.0)


def _largest_norm(centered: np.ndarray) -> float:
    """The squares of tiny numbers are not lost."""
    size = float(np.abs(centered).max())
    return 0.0 if size == 0 else size * float(np.sqrt(((centered / size) ** 2).sum(1).max()))


def sorted_by_depth(codes: np.ndarray, points: Tensor, k: int) -> np.ndarray:
    """The order of points by cluster, and within a cluster by distance from its mean."""
    of = torch.from_numpy(codes.astype(np.int64))
    sums = torch.zeros(k, points.shape[1], dtype=points.dtype).index_add_(0, of, points)
    sizes = torch.bincount(of, minlength=k).clamp_(min=1)
    depth = (points - (sums / sizes[:, None])[of]).square_().sum(1).numpy()
    return np.lexsort((depth, codes))


class Runs(NamedTuple):
    """Consecutive points, sorted by cluster, and how distances to them are summed by cluster."""

    start: int
    stop: int
    first: int
    last: int
    #: One column per cluster from the first to the last; None where they are the same.
    members: Tensor | None

    def add(self, tile: Tensor, sums: Tensor) -> None:
        """Add distances to these points, one row per point that they are measured from."""
        if self.members is None:
            sums[self.first] += tile.sum(1)
        else:
            members = self.members.to(tile.dtype)
            sums[self.first : self.last + 1] += members @ tile.T


def _runs(codes: np.ndarray, length: int) -> list[Runs]:
    runs = []
    for start in range(0, len(codes), length):
        part = torch.from_numpy(codes[start : start + length].astype(np.int64))
        first, last = int(part[0]), int(part[-1])
        members = None
        if first < last:
            members = part == torch.arange(first, last + 1)[:, None]
        runs.append(Runs(start, start + len(part), first, last, members))
    return runs


def _factors(points: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices whose product is squared distances: for rows, and for columns."""
    squares = (points * points).sum(1, keepdim=True)
    ones = torch.ones_like(squares)
    return torch.cat([points, squares, ones], 1), torch.cat([-2 * points, ones, squares], 1)


class Tiles:
    """Distances from a few points, the rows, to many, the columns, one tile after the other."""

    def __init__(self, size: int, *, fast: bool):
        self.room = torch.empty(size)
        self.exact_room = torch.empty(size, dtype=torch.float64)
        self.fast = fast
        self.tried = self.failed = 0

    def measure(self, rows: Tensor, columns: Tensor) -> None:
        """Prepare for distances between these."""
        self.exact: tuple[Tensor, Tensor] | None = None
        self.rows, self.columns = rows, columns
        if self.fast:
            middle = rows.mean(0)
            self.left = _factors((rows - middle).float())[0]
            self.right = _factors((columns - middle).float())[1]
            lengths = self.right[:, -1].cumsum(0, dtype=torch.float64)
            self.lengths = np.concatenate([[0.0], lengths.numpy()])
            self.length = float(self.left[:, -2].mean())

    def distances(self, columns: slice, *, own: bool = False) -> Tensor:
        """From all rows to some columns; `own` where those are the rows themselves."""
        if self.fast:
            self.tried += 1
            right = self.right[columns]
            shape = (len(self.left), len(right))
            tile = self.room[: shape[0] * shape[1]].view(shape)
            torch.mm(self.left, right.T, out=tile)
            length = (self.lengths[columns.stop] - self.lengths[columns.start]) / shape[1]
            looked_at = tile[::LOOK_AT].numpy()
            found = np.count_nonzero(looked_at < np.float32(SMALL * (self.length + length)))
            if found - own * len(looked_at) <= TOO_MANY * looked_at.size:
                return _roots(tile)
            self.failed += 1
            self.fast = self.failed < GIVE_UP * max(self.tried, AT_LEAST)
        if self.exact is None:
            self.exact = _factors(self.rows)[0], _factors(self.columns)[1]
        left, right = self.exact[0], self.exact[1][columns]
        tile = self.exact_room[: len(left) * len(right)].view(len(left), len(right))
        torch.mm(left, right.T, out=tile)
        return _roots(tile)


def _roots(squares: Tensor) -> Tensor:
    """Square roots in place, of those that are not rounding; NumPy's are faster than torch's."""
    values = torch.threshold_(squares, ROUNDING, 0).numpy()
    np.sqrt(values, out=values)
    return squares


def distance_sums(points: np.ndarray, codes: np.ndarray, k: int) -> np.ndarray:
    """For every point and cluster, the sum of distances from the point to the cluster."""
    frame = frame_of(Points(points))
    scaled = frame.scaled(points)
    order = sorted_by_depth(codes, scaled, k)
    scaled = scaled[torch.from_numpy(order)]
    runs = _runs(codes[order], TILE)
    tiles = Tiles(TILE * TILE, fast=len(points) > SLOW_LIMIT)
    sums = torch.zeros(k, len(points), dtype=torch.float64)
    for i, rows in enumerate(runs):
        tiles.measure(scaled[rows.start : rows.stop], scaled[rows.start :])
        for columns in runs[i:]:
            within = slice(columns.start - rows.start, columns.stop - rows.start)
            tile = tiles.distances(within, own=columns is rows)
            if columns is rows:
                tile.fill_diagonal_(0)  # a point is at distance 0 from itself, rounding or not
            else:
                rows.add(tile.T, sums[:, columns.start : columns.stop])
            columns.add(tile, sums[:, rows.start : rows.stop])
    result = np.empty((len(points), k))
    result[order] = sums.numpy().T * frame.unit
    return result


class SumsFrom:
    """Sums of distances from some points, the anchors, to clusters, which arrive in blocks."""

    def __init__(self, anchors: np.ndarray, frame: Frame, k: int, *, fast: bool):
        self.frame = frame
        self.anchors = frame.scaled(anchors)
        self.tiles = Tiles(TILE * TILE, fast=fast)
        self._sums = torch.zeros(k, len(anchors), dtype=torch.float64)

    def add(self, points: np.ndarray, codes: np.ndarray, own: np.ndarray) -> None:
        """Add a block of points.

        Parameters
        ----------
        points, codes
            The points, and the cluster of each.
        own
            Where among them each anchor is; -1 for those that are not.
        """
        scaled = self.frame.scaled(points)
        order = sorted_by_depth(codes, scaled, len(self._sums))
        place = np.empty(len(points) + 1, dtype=np.int64)
        place[order] = np.arange(len(points))
        place[-1] = -1
        of_anchors = torch.from_numpy(place[own])
        scaled = scaled[torch.from_numpy(order)]
        runs = _runs(codes[order], TILE)
        for i in range(0, len(self.anchors), TILE):
            rows = slice(i, i + TILE)
            self.tiles.measure(self.anchors[rows], scaled)
            for columns in runs:
                tile = self.tiles.distances(slice(columns.start, columns.stop))
                here = of_anchors[rows] - columns.start
                inside = ((here >= 0) & (here < tile.shape[1])).nonzero()[:, 0]
                tile[inside, here[inside]] = 0
                columns.add(tile, self._sums[:, rows])

    @property
    def sums(self) -> np.ndarray:
        return self._sums.numpy().T * self.frame.unit
