"""Words and numbers as classes, splits and values of attributes: one value per example.

No two values become one class here, and the order of classes is always the same.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.errors import DataError, InputError

#: Rows are counted as people see them in a file: the header is row 1 of a CSV.
FIRST_ROW = 2
#: What an attribute says of the rows in which it has no value.
MISSING = "(missing)"
#: A number as programs write it: words such as 007 and 1_000 are not among them.
NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d{1,2})?", re.ASCII)


def as_text(column: Any, name: str, where: str) -> list[str | None]:
    """A column's values as text: different values are different words, and None is missing.

    Numbers are written exactly, in as few digits as tell them apart; whole ones without a point.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_nested(kind) or types.is_interval(kind) or types.is_union(kind):
        raise InputError(
            f"column {name!r} of {where} holds a {kind} in each row: one value per row is needed."
        )
    if types.is_floating(kind):
        return [_float_text(value) for value in column.to_numpy(zero_copy_only=False)]
    try:
        values = column.to_pylist()
    except UnicodeDecodeError as error:
        raise _no_text(name, where) from error
    except (ValueError, OverflowError, pa.ArrowException):  # times that Python cannot express
        values = column.cast(pa.int64()).to_pylist()
    return [_word(value, name, where) for value in values]


def _word(value: Any, name: str, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _no_text(name, where) from error
    if isinstance(value, decimal.Decimal):
        return format(value.normalize() + 0, "f") if value.is_finite() else str(value)
    return str(value)


def _no_text(name: str, where: str) -> DataError:
    return DataError(f"column {name!r} of {where} holds bytes that are not UTF-8: write words.")


def _float_text(value: Any) -> str | None:
    """The shortest text that gives the same number in its own precision; None for NaN."""
    if value != value:
        return None
    if float(value).is_integer() and abs(float(value)) < 2**63:
        return str(int(value))  # -0.0 too
    return str(value)


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
    """A total order: "nan" is a word, because NaN is neither above nor below any number."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    return (0, number, word) if math.isfinite(number) else (1, 0.0, word)


def encode_column(
    column: Any, name: str, where: str, missing: str | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """As `encode`, but fast for long columns: only distinct values are turned into text."""
    import pyarrow as pa

    column = unpacked(column)
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_interval(kind):
        return _encode_numbers(column, name, where, missing)
    dictionary = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
    indices = dictionary.indices.cast(pa.int64())
    # A dictionary may hold words that no row has.
    used = np.unique(indices.drop_null().to_numpy(zero_copy_only=False))
    words = as_text(unpacked(dictionary.dictionary.take(pa.array(used))), name, where)
    if None in words or indices.null_count:
        codes, names = encode([*words, None], missing)
    else:
        codes, names = encode(words)
    filled = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    position = np.where(filled < 0, len(words), np.searchsorted(used, filled))
    return codes[position], names


def _encode_numbers(
    column: Any, name: str, where: str, missing: str | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The same for floats, of which NaN is missing and -0.0 is 0."""
    if not len(column) or column.null_count == len(column):
        return encode([None] * len(column), missing)
    as_text(column[:1], name, where)  # refuses what is no number
    distinct, position = np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)
    codes, names = encode([_float_text(value) for value in distinct], missing)
    return codes[position], names


def unpacked(column: Any) -> Any:
    """A column without the wrappings that pyarrow knows, except that of a dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    return column


def labels_of(
    column: Any, name: str, where: str, first_row: int = FIRST_ROW
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers and names; a missing label is an error that names the rows."""
    codes, names = encode_column(column, name, where)
    empty = np.flatnonzero(codes < 0)
    if len(empty):
        rows = ", ".join(str(row + first_row) for row in empty[:5].tolist())
        more = ", ..." if len(empty) > 5 else ""
        raise DataError(
            f"{where} has no value in column {name!r} in {len(empty):,} of {len(codes):,} rows "
            f"({rows}{more}): fill them in or remove these rows."
        )
    return codes, names


def named_numbers(words: Any) -> Any:
    """Words of a CSV that are all numbers, written alike: 1.0 and 1 are one class, 01 is text."""
    import pyarrow as pa

    encoded = words.combine_chunks().dictionary_encode()
    written = _written_alike(encoded.dictionary.to_pylist())
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(written, pa.string()))


def _written_alike(words: list[str | None]) -> list[str | None]:
    known = [word for word in words if word is not None]
    if {word.lower() for word in known} <= {"true", "false"}:
        return [None if word is None else word.lower() for word in words]
    if not all(len(word) < 100 and NUMBER.fullmatch(word) for word in known):
        return words
    return [None if word is None else _number_text(word) for word in words]


def _number_text(word: str) -> str:
    with decimal.localcontext(decimal.Context(prec=200)):
        number = decimal.Decimal(word)
        if number == number.to_integral_value():
            return str(int(number))
        shortest = repr(float(number))
        same = decimal.Decimal(shortest) == number
        return shortest if same else format(number.normalize(), "f")
