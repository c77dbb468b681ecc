"""What a Python object is that someone gives as data, and how it becomes a task.

Arrays and tables are read as their files are; a torch data set is loaded item by item.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset

from spare.data.inputs import shape_of
from spare.data.task import Task
from spare.datasets.columns import FeatureColumns, task_of_columns
from spare.datasets.image_task import image_task
from spare.datasets.in_memory import InMemory, hash_array, hash_inputs, kind_of
from spare.datasets.manifest import ImageColumns, listing_of_table
from spare.datasets.preparation import Preparation
from spare.datasets.splits import SPLIT_NUMBER, Shares
from spare.datasets.tables import NAME_COLUMNS, PATH_COLUMNS, SPLIT_COLUMNS, columns_of
from spare.datasets.tensors import of_datasets
from spare.datasets.values import ACCEPTED, Column, as_array, columns_in_memory, joined
from spare.errors import DataError, InputError, reason
from spare.progress import SILENT, Progress


def recognize(value: Any, path: str = "") -> InMemory:
    """What a Python object is, and how it becomes a task.

    Parameters
    ----------
    value : object
        A `Task`, (features, labels), a dict of arrays, a table, a torch data set, or a dict of such
        objects by split.
    path : str
        The column of a table that holds the paths of images, if it has no usual name.
    """
    if isinstance(value, Task):
        return _of_task(value)
    table = _as_table(value)
    if table is not None:
        return _of_table(table, path)
    if _holds_arrays(value):
        by_split = isinstance(value, Mapping) and all(
            str(key).lower() in SPLIT_NUMBER and not isinstance(part, np.ndarray | Tensor)
            for key, part in value.items()
        )
        if by_split:
            return _of_splits({str(key).lower(): part for key, part in value.items()}, path)
        return _of_arrays(_arrays(value))
    if isinstance(value, np.ndarray | Tensor):
        raise InputError("an array alone has no labels: give (features, labels).")
    if hasattr(value, "__getitem__") or isinstance(value, IterableDataset):
        return of_datasets({"": value})
    raise InputError(f"data of the type {type(value).__name__} cannot be used: {ACCEPTED}.")


def load_task(task: Task, seed: int, progress: Progress = SILENT) -> Task:
    """A task as it is, whatever the seed."""
    return task


def _of_task(task: Task) -> InMemory:
    digest = hashlib.sha256()
    for split in task.splits().values():
        hash_array(digest, "labels", np.asarray(split.labels))
        for name, values in (split.attributes or {}).items():
            hash_array(digest, name, np.asarray(values))
    hash_inputs(digest, [split.inputs for split in task.splits().values()])
    kind = kind_of(len(shape_of(task.train.inputs)))
    return InMemory(task.name, task, load_task, kind, digest.hexdigest()[:16])


def load_columns(
    arrays: Mapping[str, Column],
    seed: int,
    progress: Progress = SILENT,
    *,
    shares: Shares,
    columns: FeatureColumns,
) -> Task:
    """The task of arrays or columns, with the choices that a file of them has."""
    return task_of_columns(arrays, "the data in memory", columns, shares, first_row=0)


def load_images(
    table: Any,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares,
    columns: ImageColumns,
) -> Task:
    """The task of a table of images, with the choices that a file of them has."""
    where = "the table in memory"
    listing = listing_of_table(table, where, Path.cwd(), columns, shares, first_row=0)
    return image_task(
        where, listing, preparation, allow_outside=columns.allow_outside, progress=progress
    )


def _of_splits(parts: Mapping[str, Any], path: str) -> InMemory:
    """Tables, arrays or torch data sets by split: one of the three for all splits."""
    tables = {name: _as_table(part) for name, part in parts.items()}
    if all(table is not None for table in tables.values()):
        return _of_table(_concatenated_tables(tables), path)
    if all(_holds_arrays(part) for part in parts.values()):
        arrays = {name: _arrays(part) for name, part in parts.items()}
        return _of_arrays(_concatenated_arrays(arrays))
    if any(
        isinstance(part, tuple | Mapping) or tables[name] is not None
        for name, part in parts.items()
    ):
        kinds = sorted({type(part).__name__ for part in parts.values()})
        raise InputError(
            f"the splits are given as {' and '.join(kinds)}: give all of them in the same form."
        )
    return of_datasets(parts)


def _concatenated_tables(tables: Mapping[str, Any]) -> Any:
    """One table, with a column that says which split a row is of."""
    import pyarrow as pa

    parts = []
    with _fitting_together({name: table.column_names for name, table in tables.items()}):
        for split, table in tables.items():
            part = table.replace_schema_metadata(None)
            if SPLIT_COLUMNS[0] in part.column_names:
                part = part.drop_columns(SPLIT_COLUMNS[0])
            splits = pa.array([split] * part.num_rows, pa.string())
            parts.append(part.append_column(SPLIT_COLUMNS[0], splits))
        return pa.concat_tables(parts, promote_options="permissive")


def _concatenated_arrays(parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of all splits, with one that says which split a row is of, and names for the rows."""
    counts: dict[str, int] = {}
    for split, part in parts.items():
        lengths = {name: len(array) for name, array in part.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DataError(f"the arrays of {split} differ in length: {listed}.")
        counts[split] = next(iter(lengths.values()))
    with _fitting_together({split: list(part) for split, part in parts.items()}):
        arrays = {
            name: joined([part[name] for part in parts.values()], name)
            for name in next(iter(parts.values()))
        }
    arrays[SPLIT_COLUMNS[0]] = np.repeat(list(counts), list(counts.values()))
    if not any(name in NAME_COLUMNS for name in arrays):
        names = [f"{split}[{row}]" for split, count in counts.items() for row in range(count)]
        arrays[NAME_COLUMNS[0]] = np.array(names)
    return arrays


@contextlib.contextmanager
def _fitting_together(names: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Splits are concatenated within it; an error if columns, types or shapes differ.

    Parameters
    ----------
    names : mapping
        The names of the columns of each split.
    """
    (first, expected), *others = names.items()
    for split, columns in others:
        different = set(columns) ^ set(expected)
        if different:
            raise InputError(
                f"{first} and {split} do not have the same columns ({min(different)!r} is only in "
                f"one of them): give all splits the same."
            )
    try:
        yield
    except (ValueError, TypeError) as error:  # pyarrow's errors are among them
        raise InputError(
            f"the splits do not fit together ({reason(error)}): give all of them columns of the "
            f"same types and shapes."
        ) from error


def _holds_arrays(value: Any) -> bool:
    """Whether a value is (features, labels) or a dict of arrays."""
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, tuple | list) and len(value) == 2


def _arrays(value: Any) -> dict[str, np.ndarray]:
    """The arrays of (features, labels) or of a dict, by name."""
    if not isinstance(value, Mapping):
        value = {"features": value[0], "label": value[1]}
    arrays = {}
    for name, values in value.items():
        try:
            arrays[str(name)] = as_array(values)
        except InputError as error:
            raise InputError(f"{name!r} of the data in memory cannot be used: {error}") from error
        if arrays[str(name)].ndim == 0:
            raise InputError(f"{name!r} is a {type(values).__name__} and not an array: {ACCEPTED}.")
    return arrays


def _of_arrays(arrays: Mapping[str, np.ndarray]) -> InMemory:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        hash_array(digest, name, array)
    kind = kind_of(max(2, *(array.ndim for array in arrays.values())) - 1)
    return InMemory(
        "arrays", columns_in_memory(arrays), load_columns, kind, digest.hexdigest()[:16]
    )


def _as_table(value: Any) -> Any:
    """A pyarrow Table, if the value is one or a pandas DataFrame."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("pandas", "pyarrow") or not hasattr(value, "columns"):
        return None
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    try:
        return pa.Table.from_pandas(value, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"the table cannot be used ({reason(error)[:160]}): give every column a name of its "
            f"own and values of one type."
        ) from error


def _of_table(table: Any, path: str) -> InMemory:
    if table.num_rows == 0:
        raise DataError("the table in memory has no rows.")
    import pyarrow as pa

    columns = columns_of(table, "the table in memory")
    table = table.replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    fingerprint = hashlib.sha256(sink.getvalue()).hexdigest()[:16]
    if path or any(name in PATH_COLUMNS for name in table.column_names):
        return InMemory("table of images", table, load_images, "manifest", fingerprint)
    return InMemory("table", columns, load_columns, "arrays", fingerprint)
