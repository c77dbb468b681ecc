"""Clustering of outputs that are larger than memory, from disk.

One pass divides the examples by class into files of plain numbers; then every pass of k-means and
of the silhouette reads a class's file block by block (spare/groups/kmeans.py). In memory are a few
bytes per example: its class, its cluster for each k, and how far it is from what was sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.engines.files import OutputFiles
from spare.errors import DataError, InputError
from spare.files.writing import cannot_write
from spare.groups.one_class import cluster_class
from spare.groups.points import BLOCK, Points
from spare.groups.result import ClassClusters
from spare.limits import CLASSES
from spare.progress import SILENT, Progress

#: Blocks that are read from disk at once.
BLOCKS_AT_ONCE = 16


class FilePoints(Points):
    """Rows of a file of plain numbers."""

    def __init__(self, path: Path, count: int, width: int, dtype: np.dtype):
        self.path, self.count, self.columns, self.dtype = path, count, width, dtype

    def __len__(self) -> int:
        return self.count

    @property
    def width(self) -> int:
        return self.columns

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        with self.path.open("rb") as file:
            for start in range(0, self.count, BLOCKS_AT_ONCE * BLOCK):
                values = np.fromfile(file, self.dtype, BLOCKS_AT_ONCE * BLOCK * self.columns)
                rows = values.reshape(-1, self.columns)
                for within in range(0, len(rows), BLOCK):
                    block = rows[within : within + BLOCK].astype(np.float64)
                    yield slice(start + within, start + within + len(block)), block

    def read(self) -> np.ndarray:
        """All rows, as they are."""
        return np.fromfile(self.path, self.dtype).reshape(self.count, self.columns)

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        mapped = np.memmap(self.path, self.dtype, "r", shape=(self.count, self.columns))
        return np.array(mapped[rows], dtype=np.float64)


@dataclass(frozen=True)
class Divided:
    """Examples by class."""

    #: The class of every example, as a number among `classes`.
    codes: np.ndarray
    classes: list[Any]
    points: list[FilePoints]


def divide(files: OutputFiles, scratch: Path, progress: Progress = SILENT) -> Divided:
    """One pass over the files: each class's outputs to a file of its own."""
    numbers: dict[Any, int] = {}
    counts: list[int] = []
    parts: list[np.ndarray] = []
    width, dtype = 0, np.dtype(np.float64)
    for outputs, labels in files.batches():
        if not parts:
            width, dtype = outputs.shape[1], outputs.dtype
        if outputs.shape[1] != width:
            raise DataError(
                f"some rows have {width} values and others {outputs.shape[1]}: every row needs as "
                f"many."
            )
        names, within = np.unique(labels, return_inverse=True)
        for name in names.tolist():
            if name not in numbers:
                numbers[name] = len(numbers)
                counts.append(0)
        CLASSES.check(len(numbers), str(files.parts[0].name))
        codes = np.array([numbers[name] for name in names.tolist()])[within]
        for code in np.unique(codes).tolist():
            rows = outputs[codes == code].astype(dtype, copy=False)
            _append(scratch / str(code), rows)
            counts[code] += len(rows)
        parts.append(codes.astype(np.uint16 if CLASSES.value() < 2**16 else np.uint32))
        progress.report("read", sum(counts), 0)
    if not parts:
        raise DataError(f"{files.parts[0]} has no rows.")
    _release_memory()
    points = [
        FilePoints(scratch / str(code), count, width, dtype) for code, count in enumerate(counts)
    ]
    return Divided(np.concatenate(parts), list(numbers), points)


def _release_memory() -> None:
    """What reading the files took: it would be kept for the next file, and there is none."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _append(path: Path, rows: np.ndarray) -> None:
    try:
        with path.open("ab") as file:
            rows.tofile(file)
            file.flush()
    except OSError as error:  # NumPy's has no number where the disk is full
        error.errno = error.errno or 28
        raise cannot_write(path, error) from error


def cluster(
    divided: Divided,
    options: dict[str, Any],
    progress: Progress = SILENT,
    *,
    in_memory: bool = False,
) -> dict[Any, ClassClusters]:
    """The clusters of every class, classes sorted."""
    if len({type(name) for name in divided.classes}) > 1:
        raise InputError("some labels are numbers, and others are text: use one of them.")
    clusters = {}
    for name in sorted(divided.classes):
        points = divided.points[divided.classes.index(name)]
        clusters[name] = cluster_class(points.read() if in_memory else points, **options)
        progress.report("classes", len(clusters), len(divided.classes))
    return clusters
