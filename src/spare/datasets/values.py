"""What every table and array that people bring goes through: from values to columns and features.

A `Column` tells what it is before it is read, so that only what is needed is read, and only if it
fits; then it is a pyarrow array or a NumPy array with one row per example. words.py
makes classes of it.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare.datasets.words import unpacked
from spare.errors import DataError, InputError, reason, unknown
from spare.limits import ARRAY, ROWS

ACCEPTED = (
    "give a path, (features, labels), a dict of arrays, a pandas or pyarrow table, a torch Dataset "
    "of (input, label) pairs, or a dict of those by split"
)
#: Beyond this, whole numbers written as floats are no longer exact.
_EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """A column before it is read: enough to tell whether it is needed, and whether it fits."""

    #: None for a single value, which is no column.
    rows: int | None
    #: Of one example: () for a number or a word; None if it has to be read to be known.
    shape: tuple[int, ...] | None
    #: Whether it may hold numbers to learn from.
    numbers: bool
    #: What it takes in memory.
    nbytes: int
    #: Reads it; called once.
    source: Callable[[], Any]
    #: Why it cannot be read, if that is known: an error only if it is needed.
    problem: str = ""

    @cached_property
    def values(self) -> Any:
        return self.source()


def columns_in_memory(columns: Mapping[str, Any]) -> dict[str, Column]:
    """Columns that have been read."""
    return {name: _in_memory(values) for name, values in columns.items()}


def _in_memory(values: Any) -> Column:
    if isinstance(values, np.ndarray):
        rows = len(values) if values.ndim else None
        numbers = _is_numbers(values.dtype) and values.ndim > 0
        return Column(rows, values.shape[1:], numbers, values.nbytes, lambda: values)
    import pyarrow as pa

    vectors = _is_list(values.type)
    numbers = vectors or pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    return Column(len(values), None if vectors else (), numbers, values.nbytes, lambda: values)


def as_array(values: Any) -> np.ndarray:
    """Someone's array, tensor, series or list as a NumPy array, without changing any value."""
    if isinstance(values, Tensor):
        if values.layout is not torch.strided or values.is_quantized or values.is_meta:
            raise InputError("sparse, quantized and meta tensors cannot be used: give a dense one.")
        values = values.detach().cpu().resolve_conj().resolve_neg()
        small = values.is_floating_point() and values.dtype not in (torch.float32, torch.float64)
        return np.asarray(values.float() if small else values)
    if np.ma.is_masked(values):
        raise InputError("an array has masked values: fill them in or remove these rows.")
    if isinstance(values, list | tuple):
        return _array_of_list(values)
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # an object that pretends to be an array
        raise InputError(f"{type(values).__name__} is not an array: {ACCEPTED}.") from error


def _array_of_list(values: Sequence[Any]) -> np.ndarray:
    """A list of words or numbers; NumPy alone would turn numbers beside words into words."""
    values = [value.item() if _is_scalar(value) else value for value in values]
    if not all(isinstance(value, _SCALARS) for value in values):
        try:
            return np.asarray(values)
        except (ValueError, TypeError, RuntimeError) as error:  # rows of different lengths
            raise InputError(
                f"a list whose rows differ in length is not an array: {ACCEPTED}."
            ) from error
    column = _of_objects(values)
    if column.null_count == 0 and _is_plain_number(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


_SCALARS = (
    type(None), str, bytes, bool, int, float, complex, np.generic,
    datetime.date, datetime.time, datetime.timedelta, decimal.Decimal,
)  # fmt: skip


def _is_plain_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray) and value.ndim == 0


def _of_objects(values: Sequence[Any]) -> Any:
    """Python objects as a pyarrow array; all must be of one type."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError as error:
        raise InputError("a word in it is not text: write it in UTF-8.") from error
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise InputError(
            f"its values are not all of one type that can be used ({reason(error)[:120]}): give "
            f"whole numbers below 2^63, numbers, or text."
        ) from error


def as_column(values: np.ndarray, name: str, where: str) -> Any:
    """An array as a column."""
    import pyarrow as pa

    if values.dtype.kind in "cV":
        kind = "complex numbers" if values.dtype.kind == "c" else "records of several fields"
        raise InputError(
            f"{name!r} of {where} holds {kind}: give numbers or words, one array for each."
        )
    values = native(values)
    if values.ndim != 1:
        return values
    try:
        if values.dtype.kind in "SUO":
            return _of_objects(values.tolist())
        if values.dtype.kind in "mM":
            return pa.array(_in_seconds(values))
        return pa.array(values)
    except InputError as error:
        raise InputError(f"{name!r} of {where} cannot be used: {error}") from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{name!r} of {where} has the type {values.dtype}, which cannot be used: give numbers "
            f"or words."
        ) from error


def native(values: np.ndarray) -> np.ndarray:
    """The same values in the order of bytes that this machine computes with."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _in_seconds(values: np.ndarray) -> np.ndarray:
    """Times in a unit that pyarrow knows; months and hours are not among them."""
    unit = np.datetime_data(values.dtype)
    if unit[0] in ("s", "ms", "us", "ns") and unit[1] == 1:
        return values
    return values.astype(f"{values.dtype.kind}8[{'D' if unit[0] in 'YMWD' else 's'}]").astype(
        f"{values.dtype.kind}8[s]"
    )


def single_values(columns: Mapping[str, Column], name: str, where: str) -> Any:
    """A column that has one value per example, such as the labels."""
    check_single(columns, name, where)
    values = columns[name].values
    return as_column(values.reshape(-1), name, where) if isinstance(values, np.ndarray) else values


def check_single(columns: Mapping[str, Column], name: str, where: str) -> None:
    found = find(columns, name, where)
    if found.rows is None:
        raise InputError(f"{name!r} of {where} is a single value: one per example is needed.")
    if math.prod(found.shape or ()) != 1:
        raise InputError(
            f"{name!r} of {where} has the shape {(found.rows, *(found.shape or ()))}: one value "
            f"per example is needed (of one-hot rows, the position of the 1)."
        )


def find(columns: Mapping[str, Column], name: str, where: str) -> Column:
    if name not in columns:
        raise unknown(f"column of {where}", name, columns)
    if columns[name].problem:
        raise DataError(columns[name].problem)
    return columns[name]


def check_lengths(columns: Mapping[str, Column], names: Iterable[str], where: str) -> int:
    """How many rows these columns have; an error if they differ."""
    rows = {name: columns[name].rows for name in names}
    if len(set(rows.values())) > 1:
        listed = ", ".join(f"{name} {count or 'one value'}" for name, count in rows.items())
        raise DataError(f"{where}: features and labels differ in length ({listed}).")
    count = next(iter(rows.values())) or 0
    if count == 0:
        raise DataError(f"{where} has no rows.")
    ROWS.check(count, where)
    return count


def check_memory(columns: Mapping[str, Column], features: Iterable[str], where: str) -> None:
    """Refuse what does not fit in memory, before it is read: features become float32 besides."""
    needed = sum(column.nbytes for column in columns.values())
    for name in features:
        column = columns[name]
        needed += 4 * (column.rows or 0) * math.prod(column.shape or ())
    ARRAY.check(needed, where)


def block(values: Any) -> np.ndarray | None:
    """A column as (n, 1), vectors as (n, d), images as they are; None for what is not numbers."""
    if isinstance(values, np.ndarray):
        if values.ndim == 0 or not _is_numbers(values.dtype):
            return None
        if values.ndim == 1:
            return _floats(values)[:, None]
        bytes_of_images = values.ndim > 2 and values.dtype == np.uint8
        return values if bytes_of_images else _floats(values)
    import pyarrow as pa

    values = unpacked(values)
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        return _floats(values.to_numpy(zero_copy_only=False))[:, None]
    if _is_list(values.type):
        return _vectors(values)
    return None


def _vectors(values: Any) -> np.ndarray | None:
    """Lists of numbers, all of one length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count or not len(values):
        return None
    widths = pc.min_max(pc.list_value_length(values)).as_py()
    numbers = values.flatten()
    is_numbers = pa.types.is_floating(numbers.type) or pa.types.is_integer(numbers.type)
    if not widths["min"] or widths["min"] != widths["max"] or not is_numbers:
        return None
    return _floats(numbers.to_numpy(zero_copy_only=False)).reshape(len(values), -1)


def _floats(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and refused
        return np.asarray(values.astype(np.float32))


def _is_numbers(dtype: np.dtype) -> bool:
    return dtype.kind in "fiub"


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def joined(parts: Sequence[np.ndarray], name: str) -> np.ndarray:
    """Arrays of several splits as one; types that would change each other's values are refused."""
    kinds = {"number" if part.dtype.kind in "fiub" else part.dtype.kind for part in parts}
    if len(kinds - {"O", "U"}) > 1 or (len(kinds) > 1 and "number" in kinds):
        raise ValueError(f"{name!r} has numbers in one split and other values in another")
    whole = np.concatenate(parts)
    if whole.dtype.kind == "f" and any(
        part.dtype.kind in "iu" and len(part) and max(abs(int(part.max())), abs(int(part.min())))
        > _EXACT
        for part in parts
    ):  # fmt: skip
        raise ValueError(f"{name!r} has whole numbers above 2^53 beside other numbers")
    return whole
