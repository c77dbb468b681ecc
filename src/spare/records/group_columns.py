"""The columns of a file of groups, each of its type; whatever else is in the file is not read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from spare.errors import InputError, SpareError
from spare.files.reading import open_file, why_not
from spare.limits import ARRAY, ROWS


def refuse_other_than_file(path: Path) -> None:
    """Refuse a link or a pipe in a folder; only the file that a person names may be a link."""
    try:
        open_file(path).close()
    except OSError as error:
        raise InputError(f"{path} is not a table of groups: {why_not(error)}.") from error


def read_columns(path: Path, wanted: Collection[str]) -> Any:
    """A pyarrow Table of those columns of a CSV or Parquet file that are wanted."""
    import pyarrow as pa
    import pyarrow.csv

    try:
        if not path.is_file():
            raise InputError(f"{path} is not a table of groups: there is no such file.")
        if path.suffix == ".csv":
            ARRAY.check(path.stat().st_size, str(path))
            table = pa.csv.read_csv(path)
            return table.select(_there(table.column_names, wanted, path))
        return _read_parquet(path, wanted)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, SpareError):  # an InputError is a ValueError
            raise
        raise InputError(f"{path} is not a table of groups: {why_not(error)}") from error


def _read_parquet(path: Path, wanted: Collection[str]) -> Any:
    """Those of the columns that are wanted; nothing is read of a file that is too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        ROWS.check(file.metadata.num_rows, str(path))
        schema = file.schema_arrow
        names = _there(schema.names, wanted, path)
        flat = [name for name in names if file.schema.names.count(name) == 1]
        if flat != names:  # the parts of a list or a struct have names of their own
            other = next(name for name in names if name not in flat)
            raise InputError(f"column {other!r} of {path} must hold one value per row.")
    # As a dictionary, text that is repeated a million times is held once.
    texts = [name for name in names if pa.types.is_string(schema.field(name).type)]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        return file.read(columns=names)


def _there(names: list[str], wanted: Collection[str], path: Path) -> list[str]:
    """The wanted columns among these, each once."""
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f"{path} has {names.count(name)} columns {name!r}: keep one.")
    if "cluster" not in names:
        listed = ", ".join(names[:12])
        raise InputError(f"{path} has no column 'cluster'; it has {listed}.")
    if "id" not in names:
        raise InputError(f"{path} does not say which example a row is: add a column 'id'.")
    return [name for name in names if name in wanted]


def whole_numbers(column: Any, what: str, path: Path) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count:
        raise InputError(f"the {what} in {path} must be whole numbers, one per row.")
    values = np.asarray(column.to_numpy())
    if values.dtype.kind == "u" and (values > np.iinfo(np.int64).max).any():
        raise InputError(f"the {what} in {path} must be whole numbers below 2^63.")
    return values.astype(np.int64)


def numbers(column: Any, what: str, path: Path) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
        raise InputError(f"column {what!r} of {path} must hold numbers.")
    return np.asarray(column.to_numpy()).astype(np.float64)


def words(column: Any, what: str, path: Path) -> np.ndarray | None:
    if column is None:
        return None
    if column.null_count:
        raise InputError(f"column {what!r} of {path} has empty cells: fill them.")
    import pyarrow as pa

    codes = column.combine_chunks()
    if isinstance(codes, pa.ChunkedArray):  # of no rows
        return np.zeros(0, dtype=object)
    if not pa.types.is_dictionary(codes.type):
        codes = codes.dictionary_encode()
    kind = codes.type.value_type
    if not any(
        fits(kind)
        for fits in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
                     pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating)
    ):  # fmt: skip
        raise InputError(f"column {what!r} of {path} must hold text or numbers.")
    try:
        texts = [str(value) for value in codes.dictionary.to_pylist()]
    except UnicodeDecodeError:
        raise InputError(f"column {what!r} of {path} holds bytes that are no text.") from None
    named: np.ndarray = np.asarray(texts, dtype=object)[codes.indices.to_numpy()]
    return named
