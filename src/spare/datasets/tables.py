"""Tables (CSV, TSV, Parquet) as columns, with errors that name the column, the row and the cure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.errors import DataError, unknown

#: Rows are counted as people see them in a file: the header is row 1 of a CSV.
FIRST_ROW = 2
#: What an attribute says of the rows in which it has no value.
MISSING = "(missing)"
#: What the columns of images, labels, splits and names are usually called.
PATH_COLUMNS = ("path", "image_path", "filepath", "file", "filename", "file_name", "img_filename")
LABEL_COLUMNS = ("label", "y", "class", "target", "labels")
SPLIT_COLUMNS = ("split", "partition", "subset")
NAME_COLUMNS = ("id", "name", "img_filename", "filename", "path")


@dataclass(frozen=True)
class Columns:
    """Which columns hold what: choices that all tables and sets of arrays share."""

    #: The class of each example; empty for the first of `LABEL_COLUMNS` that is there.
    label: str = ""
    #: Its split; empty for the first of `SPLIT_COLUMNS` that is there, if any.
    split: str = ""
    #: Attributes, which are used only for scores.
    attributes: tuple[str, ...] = ()


def column_names(path: Path, encoding: str = "utf8") -> list[str]:
    """The names of a table's columns, without reading the table."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return list(_readable(path, lambda: pq.read_schema(path)).names)
    return list(_readable(path, lambda: _open_csv(path, encoding)).schema.names)


def read_table(path: Path, encoding: str = "utf8") -> Any:
    """The table as a pyarrow Table; `.csv.gz` too."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        table = _readable(path, lambda: pq.read_table(path))
    else:
        table = _readable(path, lambda: _open_csv(path, encoding).read_all())
    import pyarrow as pa

    for field in table.schema:  # pyarrow keeps text that is not UTF-8 as bytes
        if pa.types.is_binary(field.type) and path.suffix.lower() != ".parquet":
            raise _not_utf8(path)
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows.")
    return table


def _open_csv(path: Path, encoding: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv as csv

    suffixes = [suffix.lower() for suffix in path.suffixes]
    with pa.input_stream(str(path)) as stream:
        header = stream.read(4096).split(b"\n")[0]
    delimiter = "\t" if ".tsv" in suffixes or (b"\t" in header and b"," not in header) else ","
    if delimiter == "," and b"," not in header and b" " in header.strip():
        delimiter = " "
    return csv.open_csv(
        pa.input_stream(str(path)),
        read_options=csv.ReadOptions(encoding=encoding, block_size=1 << 24),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )


def _readable(path: Path, read: Any) -> Any:
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeError, LookupError) as error:
        reason = " ".join(str(error).split())
        if "UTF8" in reason or "UTF-8" in reason or isinstance(error, UnicodeError):
            raise _not_utf8(path) from error
        raise DataError(f"{path} cannot be read as a table: {reason[:200]}.") from error


def _not_utf8(path: Path) -> DataError:
    return DataError(
        f"{path} is not UTF-8 text: save it as UTF-8, or name its encoding with "
        f"--set encoding=latin-1."
    )


def column(table: Any, name: str, where: str) -> Any:
    """A column by name; `where` is what an error calls the table."""
    if name not in table.column_names:
        raise unknown(f"column of {where}", name, table.column_names)
    return table[name].combine_chunks()


def as_text(column_: Any) -> list[str | None]:
    """A column's values as text; whole numbers without a decimal point."""
    import pyarrow as pa

    kind = column_.type
    if pa.types.is_floating(kind):
        values = column_.to_pylist()
        return [None if v is None or v != v else f"{v:g}" for v in values]
    if pa.types.is_boolean(kind):
        return [None if v is None else str(v).lower() for v in column_.to_pylist()]
    return [None if v is None else str(v) for v in column_.to_pylist()]


def encode(
    values: Sequence[str | None], missing: str | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number values by their sorted order (numbers by size); None is `missing`, else -1."""
    words = [missing if v is None else v for v in values]
    names = sorted({word for word in words if word is not None}, key=_by_size)
    number = {name: i for i, name in enumerate(names)}
    codes = [-1 if word is None else number[word] for word in words]
    return np.array(codes, dtype=np.int64), tuple(names)


def _by_size(word: str) -> tuple[int, float, str]:
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


def encode_column(column_: Any, missing: str | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """As `encode`, but fast for long columns: only distinct values are turned into text."""
    dictionary = column_.dictionary_encode()
    words = as_text(dictionary.dictionary)
    if None in words or dictionary.indices.null_count:
        codes, names = encode([*words, None], missing)
    else:
        codes, names = encode(words)
    indices = dictionary.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return codes[indices.astype(np.int64)], names


def labels_of(
    column_: Any, name: str, where: str, first_row: int = FIRST_ROW
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers and names; a missing label is an error that names the rows."""
    codes, names = encode_column(column_)
    empty = np.flatnonzero(codes < 0)
    if len(empty):
        rows = ", ".join(str(row + first_row) for row in empty[:5].tolist())
        more = ", ..." if len(empty) > 5 else ""
        raise DataError(
            f"{where} has no value in column {name!r} in {len(empty):,} of {len(codes):,} rows "
            f"({rows}{more}): fill them in or remove these rows."
        )
    return codes, names
