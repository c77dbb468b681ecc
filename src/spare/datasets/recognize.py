"""What a Python object is that someone gives as data, and how it becomes a task.

Arrays and tables are read as their files are; a torch data set is loaded item by item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset

from spare.data.inputs import shape_of
from spare.data.task import Task
from spare.datasets.columns import as_column, task_of_columns
from spare.datasets.image_task import image_task
from spare.datasets.in_memory import ACCEPTED, InMemory, as_array, hash_array, kind_of
from spare.datasets.manifest import listing_of_table
from spare.datasets.preparation import Preparation
from spare.datasets.splits import SPLIT_NUMBER, Shares
from spare.datasets.tables import PATH_COLUMNS
from spare.datasets.tensors import of_datasets
from spare.errors import DataError, InputError
from spare.progress import SILENT, Progress


def recognize(value: Any, path: str = "") -> InMemory:
    """What a Python object is, and how it becomes a task.

    path   the column of a table that holds the paths of images, if it has no usual name
    """
    if isinstance(value, Task):
        return _of_task(value)
    table = _as_table(value)
    if table is not None:
        return _of_table(table, path)
    if isinstance(value, tuple | list) and len(value) == 2:
        return _of_arrays({"features": value[0], "label": value[1]})
    if isinstance(value, Mapping) and value:
        if all(str(key).lower() in SPLIT_NUMBER for key in value) and not any(
            isinstance(part, np.ndarray | Tensor) for part in value.values()
        ):
            return of_datasets({str(key).lower(): part for key, part in value.items()})
        return _of_arrays(value)
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
        ends = np.array([0, len(split) - 1])
        hash_array(digest, "inputs", as_array(split.inputs.take(ends)))
    kind = kind_of(len(shape_of(task.train.inputs)))
    return InMemory(task.name, task, load_task, kind, digest.hexdigest()[:16])


def load_columns(
    columns: Mapping[str, Any],
    seed: int,
    progress: Progress = SILENT,
    *,
    shares: Shares,
    label: str = "",
    split: str = "",
    attributes: tuple[str, ...] = (),
    features: tuple[str, ...] = (),
    treat_as: str = "auto",
    standardize: bool = True,
) -> Task:
    """The task of arrays or columns, with the choices that a file of them has."""
    return task_of_columns(
        columns,
        "the data in memory",
        shares=shares,
        label=label,
        split=split,
        attributes=attributes,
        features=features,
        treat_as=treat_as,
        standardize=standardize,
        first_row=0,
    )


def load_images(
    table: Any,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares,
    path: str = "",
    label: str = "",
    split: str = "",
    attributes: tuple[str, ...] = (),
    root: str = "",
    allow_outside: bool = False,
) -> Task:
    """The task of a table of images, with the choices that a file of them has.

    root   folder that the paths start from; empty for the current folder
    """
    where = "the table in memory"
    listing = listing_of_table(
        table,
        where,
        Path.cwd() / root,
        path=path,
        label=label,
        split=split,
        attributes=attributes,
        shares=shares,
        first_row=0,
    )
    return image_task(where, listing, preparation, allow_outside=allow_outside, progress=progress)


def _of_arrays(arrays: Mapping[Any, Any]) -> InMemory:
    columns: dict[str, Any] = {}
    digest = hashlib.sha256()
    dimensions = 2
    for name, values in arrays.items():
        array = as_array(values)
        if array.ndim == 0:
            raise InputError(f"{name!r} is a {type(values).__name__} and not an array: {ACCEPTED}.")
        dimensions = max(dimensions, array.ndim)
        hash_array(digest, str(name), array)
        columns[str(name)] = as_column(array)
    kind = kind_of(dimensions - 1)
    return InMemory("arrays", columns, load_columns, kind, digest.hexdigest()[:16])


def _as_table(value: Any) -> Any:
    """A pyarrow Table, if the value is one or a pandas DataFrame."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("pandas", "pyarrow") or not hasattr(value, "columns"):
        return None
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    return pa.Table.from_pandas(value, preserve_index=False)


def _of_table(table: Any, path: str) -> InMemory:
    if table.num_rows == 0:
        raise DataError("the table in memory has no rows.")
    import pyarrow as pa

    table = table.replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    fingerprint = hashlib.sha256(sink.getvalue()).hexdigest()[:16]
    if path or any(name in PATH_COLUMNS for name in table.column_names):
        return InMemory("table of images", table, load_images, "manifest", fingerprint)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return InMemory("table", columns, load_columns, "arrays", fingerprint)
