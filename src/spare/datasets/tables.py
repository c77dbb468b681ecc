"""Tables (CSV, TSV, Parquet) as columns, with errors that name the column, the row and the cure.

Tables are read block by block, and only as far as the limits allow.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from spare.datasets.delimited import BLOCK, open_csv
from spare.datasets.values import Column, columns_in_memory
from spare.datasets.words import named_numbers
from spare.errors import DataError, SpareError, SpareWarning, reason, unknown
from spare.files.reading import cannot_read, open_regular
from spare.limits import ARRAY, ROWS

#: What the columns of images, labels, splits and names are usually called.
PATH_COLUMNS = ("path", "image_path", "filepath", "file", "filename", "file_name", "img_filename")
LABEL_COLUMNS = ("label", "y", "class", "target", "labels")
SPLIT_COLUMNS = ("split", "partition", "subset")
NAME_COLUMNS = ("id", "name", "img_filename", "filename", "path")
#: Rows of a Parquet file that are read at once.
BATCH = 1 << 18


@dataclass(frozen=True)
class Columns:
    """Which columns hold what: choices that all tables and sets of arrays share."""

    #: The class of each example; empty for the first of `LABEL_COLUMNS` that is there.
    label: str = ""
    #: Its split; empty for the first of `SPLIT_COLUMNS` that is there, if any.
    split: str = ""
    #: Attributes, which are used only for scores.
    attributes: tuple[str, ...] = ()

    def words(self, names: Collection[str]) -> set[str]:
        """Of these columns, those whose values are names: kept as a CSV writes them."""
        return {
            self.label or usual(LABEL_COLUMNS, names),
            self.split or usual(SPLIT_COLUMNS, names),
            *self.attributes,
        }


def usual(known: Sequence[str], names: Collection[str]) -> str:
    """The first of the usual names that is there; empty if none is."""
    return next((name for name in known if name in names), "")


def column_names(path: Path, encoding: str = "utf8") -> list[str]:
    """The names of a table's columns, without reading the table."""
    with _opened(path, encoding) as table:
        return _checked_names(table.schema, path.name)


def read_table(
    path: Path,
    encoding: str = "utf8",
    *,
    words: Callable[[Collection[str]], Collection[str]] | None = None,
    only: Collection[str] | None = None,
) -> Any:
    """The table as a pyarrow Table; `.csv.gz` too.

    Parameters
    ----------
    path : Path
        The file.
    encoding : str
        Of a CSV.
    words : callable
        Given the names of the columns, those whose values are names, not numbers.
    only : collection of str
        Other columns of a Parquet file are not read.
    """
    import pyarrow as pa

    if not is_parquet(path):
        names = column_names(path, encoding)
        named = set(filter(None, names)) & set(words(names) if words is not None else ())
        with _opened(path, encoding, named) as table:
            collected = _collected(table, path.name)
        for field in collected.schema:  # pyarrow keeps text that is not UTF-8 as bytes
            if pa.types.is_binary(field.type):
                raise _not_utf8(path)
        for name in named:
            place = collected.column_names.index(name)
            collected = collected.set_column(place, name, named_numbers(collected[name]))
        return collected
    with _opened(path) as table:
        names = _checked_names(table.schema_arrow, path.name)
        chosen = [name for name in names if only is None or name in only]
        return _collected(table.iter_batches(BATCH, columns=chosen), path.name).select(chosen)


def table_columns(
    path: Path,
    encoding: str = "utf8",
    words: Callable[[Collection[str]], Collection[str]] | None = None,
) -> dict[str, Column]:
    """The columns of a table; those of a Parquet file are read when they are needed."""
    if is_parquet(path):
        return _parquet_columns(path)
    table = read_table(path, encoding, words=words)
    return columns_of(table, path.name)


def columns_of(table: Any, where: str) -> dict[str, Column]:
    """The columns of a table in memory."""
    names = [name for name in _checked_names(table.schema, where) if name]
    return columns_in_memory({name: table[name].combine_chunks() for name in names})


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def parquet_schema(path: Path) -> Any:
    """The columns of a Parquet file and their types."""
    with _opened(path) as table:
        _checked_names(table.schema_arrow, path.name)
        return table.schema_arrow


def parquet_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Some columns of a Parquet file, a batch of rows at a time."""
    with _opened(path) as table:
        for group in range(table.num_row_groups):  # of several at once, Arrow keeps them all
            for batch in table.iter_batches(
                BATCH, row_groups=[group], columns=list(columns), use_threads=False
            ):
                if batch.num_rows:
                    yield batch


def column(table: Any, name: str, where: str) -> Any:
    """A column by name; `where` is what an error calls the table."""
    if name not in table.column_names:
        raise unknown(f"column of {where}", name, table.column_names)
    return table[name].combine_chunks()


def _parquet_columns(path: Path) -> dict[str, Column]:
    with _opened(path) as table:
        names = _checked_names(table.schema_arrow, path.name)
        rows = table.metadata.num_rows
        ROWS.check(rows, path.name)
        if rows == 0:
            raise DataError(f"{path} has no rows.")
        schema = table.schema_arrow
        # The types and the first row say how much room a column takes in memory; its size in the
        # file says little, and pyarrow aborts the process where that part of the file is damaged.
        widths = {name: _width(table, schema.field(name)) for name in filter(None, names)}
    columns = {}
    for name, width in widths.items():
        values = columns_in_memory({name: _empty(schema.field(name).type)})[name]
        read = partial(_parquet_column, path, name)
        columns[name] = Column(rows, values.shape, values.numbers, rows * width, read)
    return columns


def _parquet_column(path: Path, name: str) -> Any:
    return column(read_table(path, only=(name,)), name, path.name)


def _empty(kind: Any) -> Any:
    import pyarrow as pa

    return pa.array([], kind) if not isinstance(kind, pa.BaseExtensionType) else pa.nulls(0, kind)


def _width(table: Any, field: Any) -> int:
    """Bytes of one value, as far as its type tells; of a list, those of the first row's."""
    import pyarrow as pa

    if pa.types.is_nested(field.type):
        first = next(table.iter_batches(1, columns=[field.name]), None)
        return 0 if first is None else int(first.nbytes)
    try:
        return max(1, int(field.type.bit_width) // 8)
    except ValueError:  # text has no fixed width
        return 4


@contextmanager
def _opened(path: Path, encoding: str = "utf8", words: Collection[str] = ()) -> Iterator[Any]:
    """A reader of the table, with errors as sentences."""
    import pyarrow as pa

    try:
        file = open_regular(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    with file:
        try:
            if is_parquet(path):
                import pyarrow.parquet as pq

                # Words stay in a dictionary: a long one, repeated, would take far more room.
                with pa.PythonFile(file, "r") as stream:
                    names = [
                        field.name
                        for field in pq.read_schema(stream)
                        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
                    ]
                    stream.seek(0)
                    yield pq.ParquetFile(stream, read_dictionary=names)
            else:
                yield open_csv(path, file, encoding, words)
        except SpareError:
            raise
        except Exception as error:  # damaged bytes raise almost anything in these libraries
            raise _unreadable(path, error) from error


def _collected(batches: Iterable[Any], where: str) -> Any:
    """All batches as one table, unless they become more than is allowed."""
    import pyarrow as pa

    parts: list[Any] = []
    rows = nbytes = 0
    for batch in batches:
        rows += batch.num_rows
        nbytes += batch.nbytes
        ROWS.check(rows, where)
        ARRAY.check(nbytes, where)
        parts.append(batch)
    if rows == 0:
        raise DataError(f"{where} has no rows.")
    return pa.Table.from_batches(parts).unify_dictionaries()


def _checked_names(schema: Any, where: str) -> list[str]:
    """The names of the columns; each must be there once, and one without a name is not used."""
    names = list(schema.names)
    twice = next((name for name, n in Counter(filter(None, names)).items() if n > 1), None)
    if twice is not None:
        raise DataError(
            f"{where} has more than one column called {twice!r}: give each its own name."
        )
    nameless = [str(place) for place, name in enumerate(names, 1) if not name]
    if len(nameless) == len(names):
        raise DataError(f"{where} has no columns with a name: name them in the first row.")
    if nameless:
        warnings.warn(
            f"{where} has columns without a name, which are not used: {', '.join(nameless[:5])}.",
            SpareWarning,
            stacklevel=3,
        )
    return names


def _unreadable(path: Path, error: Exception) -> DataError:
    why = reason(error)
    if "UTF8" in why or "UTF-8" in why or isinstance(error, UnicodeError):
        return _not_utf8(path)
    if "straddling" in why:
        return DataError(
            f"{path} cannot be read as a table: a row is longer than {BLOCK // 10**6} MB."
        )
    if isinstance(error, MemoryError):
        return DataError(f"{path} cannot be read as a table: there is not enough memory.")
    return DataError(f"{path} cannot be read as a table: {why[:200]}.")


def _not_utf8(path: Path) -> DataError:
    return DataError(
        f"{path} is not UTF-8 text: save it as UTF-8, or name its encoding with "
        f"--set encoding=latin-1."
    )
