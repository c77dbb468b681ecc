"""Text with commas, tabs or spaces between its values, plain or compressed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from spare.errors import InputError
from spare.files.reading import open_regular

#: Bytes that are read at once: no row is longer.
BLOCK = 1 << 24


def open_csv(path: Path, file: BinaryIO, encoding: str, words: Collection[str]) -> Any:
    """A reader of a file, block by block; the columns in `words` are read as text."""
    import pyarrow as pa
    import pyarrow.csv as csv

    _check_encoding(encoding)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    with open_regular(path) as first:
        start = _stream(first, suffixes).read(4096)
    header = start.removeprefix(b"\xef\xbb\xbf").splitlines()[:1] or [b""]
    delimiter = _delimiter(header[0], suffixes)
    return csv.open_csv(
        _stream(file, suffixes),
        read_options=csv.ReadOptions(encoding=encoding, block_size=BLOCK),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, column_types=dict.fromkeys(words, pa.string())
        ),
    )


def _stream(file: Any, suffixes: list[str]) -> Any:
    import pyarrow as pa

    packed = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get((suffixes or [""])[-1])
    stream = pa.PythonFile(file, "r")
    return stream if packed is None else pa.CompressedInputStream(stream, packed)


def _delimiter(header: bytes, suffixes: list[str]) -> str:
    if ".tsv" in suffixes or (b"\t" in header and b"," not in header):
        return "\t"
    return " " if b"," not in header and b" " in header.strip() else ","


def _check_encoding(encoding: str) -> None:
    try:
        b"a".decode(encoding)  # also refuses what is no encoding of text, such as zip
    except (LookupError, UnicodeError, ValueError) as error:
        raise InputError(
            f"encoding is one that Python knows, such as utf8 or latin-1, not {encoding!r}."
        ) from error
