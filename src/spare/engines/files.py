"""Files of outputs that may be larger than memory, read batch by batch, and the groups of them.

A Parquet file, or a folder of such files (shards, in the order of their names), with one row per
example: a column of labels, and the outputs in one column of lists or in one column each. Or a .npy
file of outputs, with the labels in a second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.datasets.arrays import named_labels_file
from spare.datasets.tables import (
    LABEL_COLUMNS,
    SPLIT_COLUMNS,
    is_parquet,
    parquet_batches,
    parquet_schema,
    usual,
)
from spare.errors import DataError, InputError, reason, unknown
from spare.files.reading import cannot_read, open_regular
from spare.groups.arrays import checked_points

#: Rows of a .npy file that are read at once.
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class OutputFiles:
    """Outputs and labels on disk."""

    parts: tuple[Path, ...]
    #: The column of labels, or the path of the second .npy file.
    label: str
    #: Columns of outputs; empty for a .npy file.
    columns: tuple[str, ...]

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Outputs and labels of some rows at a time, in order; checked."""
        if not self.columns:
            yield from self._array_batches()
            return
        for part in self.parts:
            first = 0
            for batch in parquet_batches(part, [*self.columns, self.label]):
                points = np.concatenate([_numbers(batch, c, part) for c in self.columns], axis=1)
                _check(points, part, first)
                first += len(points)
                yield points, _labels(batch.column(self.label), self.label, part)

    def _array_batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        points, labels = _mapped(self.parts[0]), _mapped(Path(self.label))
        if points.ndim != 2 or labels.shape != points.shape[:1]:
            raise InputError(
                f"{self.parts[0].name} has the shape {points.shape} and its labels {labels.shape}: "
                f"one row of outputs and one label per example are needed."
            )
        if points.dtype.kind not in "fiub" or labels.dtype.kind not in "iubU":
            raise InputError(
                f"{self.parts[0].name} holds {points.dtype} and its labels are {labels.dtype}: "
                f"numbers, and whole numbers or text, are needed."
            )
        for start in range(0, len(points), ROWS_AT_ONCE):
            # Mapped anew each time: pages that were read are not kept.
            rows = slice(start, start + ROWS_AT_ONCE)
            block = np.array(_mapped(self.parts[0])[rows])
            block = block if block.dtype == np.float32 else block.astype(np.float64)
            _check(block, self.parts[0], start)
            yield block, np.array(_mapped(Path(self.label))[rows])


def output_files(path: Path, label: str = "") -> OutputFiles:
    """The outputs at a path, after a look at every part's columns."""
    if path.suffix.lower() == ".npy":
        labels = named_labels_file(path, label)
        _mapped(path)
        return OutputFiles((path,), str(labels), ())
    parts: tuple[Path, ...] = (path,)
    if path.is_dir():
        parts = tuple(sorted(p for p in path.iterdir() if is_parquet(p)))
        if not parts:
            raise DataError(f"{path} has no .parquet files.")
    if not all(map(is_parquet, parts)):
        raise InputError(
            f"{path.name} is not a Parquet file, a folder of such files or a .npy file, which are "
            f"what this engine reads: save the outputs as one of them."
        )
    first = _fields(parts[0])
    for part in parts[1:]:
        fields = _fields(part)
        if fields != first:
            changed = sorted(set(fields.items()) ^ set(first.items()))[0][0]
            raise DataError(
                f"{part.name} has other columns than {parts[0].name} (see {changed!r}): shards of "
                f"one data set have the same."
            )
    name = label or usual(LABEL_COLUMNS, first)
    if not name:
        raise InputError(
            f"{path.name} has no column {LABEL_COLUMNS[0]!r}: name the labels with --label (there "
            f"are {', '.join(list(first)[:12])})."
        )
    if name not in first:
        raise unknown(f"column of {path.name}", name, first)
    if not _LABELS.match(first[name]):
        raise InputError(
            f"labels in {name!r} of {path.name} are {first[name]}: use whole numbers or text."
        )
    return OutputFiles(parts, name, _output_columns(first, name, path))


def is_folder_of_shards(path: Path) -> bool:
    """Whether there are Parquet files in a folder, and no folders, as images would be in."""
    if not path.is_dir():
        return False
    entries = list(path.iterdir())
    return any(map(is_parquet, entries)) and not any(entry.is_dir() for entry in entries)


#: Types of labels, as Arrow names them.
_LABELS = re.compile(r"u?int|(large_)?string|dictionary<values=(large_)?string")


def _fields(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in parquet_schema(path)}


def _output_columns(fields: dict[str, str], label: str, path: Path) -> tuple[str, ...]:
    others = {n: t for n, t in fields.items() if n not in (label, "id", *SPLIT_COLUMNS)}
    wide = [name for name, kind in others.items() if "list<" in kind]
    if len(wide) > 1:
        raise InputError(f"{path.name} has more than one column of lists: keep the outputs'.")
    narrow = [n for n, kind in others.items() if kind.startswith(("float", "double", "halffloat"))]
    if not wide and not narrow:
        raise InputError(f"{path.name} has no columns of numbers besides {label}.")
    return tuple(wide or narrow)


def _numbers(batch: Any, name: str, path: Path) -> np.ndarray:
    """A column of numbers or of lists of numbers as (rows, values)."""
    column = batch.column(name)
    if column.null_count:
        raise DataError(f"column {name!r} of {path.name} has missing values: fill them in.")
    if hasattr(column, "flatten"):
        values = column.flatten()
        if len(column) == 0 or len(values) % len(column) or values.null_count:
            raise DataError(f"column {name!r} of {path.name} has not as many values in each row.")
        array = values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
    else:
        array = column.to_numpy(zero_copy_only=False)[:, None]
    return np.asarray(array, dtype=None if array.dtype == np.float32 else np.float64)


def _labels(column: Any, name: str, path: Path) -> np.ndarray:
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"column {name!r} of {path.name} has rows without a label: remove them.")
    if pa.types.is_dictionary(column.type):
        words = np.asarray(column.dictionary.to_pylist(), dtype=str)
        return np.asarray(words[column.indices.to_numpy(zero_copy_only=False)])
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(column.to_pylist(), dtype=str)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _check(points: np.ndarray, path: Path, first: int) -> None:
    """As those in memory are checked, from row `first` on; squares must be finite."""
    try:
        checked_points(points, numbers=np.arange(first, first + len(points)))
    except InputError as error:
        raise DataError(f"{path.name} cannot be clustered: {error}") from error


def _mapped(path: Path) -> np.ndarray:
    try:
        with open_regular(path):
            pass
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:  # no .npy file, one that ends early, or Python objects
        raise DataError(f"{path} cannot be read: {reason(error)[:200]}.") from error
