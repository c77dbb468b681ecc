"""Someone's own embeddings or outputs: .npy, .npz, .safetensors, .csv, .tsv or .parquet.

Embeddings are the inputs of a head that is trained in seconds. A file with exactly one column per
class is taken to hold a model's outputs (probabilities or logits), which `spare discover` clusters.
Of a file of several arrays, only the headers are read until it is known which are needed.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from spare.data.task import Task
from spare.datasets.columns import FeatureColumns, task_of_columns
from spare.datasets.splits import Shares
from spare.datasets.tables import table_columns
from spare.datasets.values import Column, as_array
from spare.errors import DataError, InputError, SpareError, reason
from spare.files.reading import cannot_read, open_regular
from spare.progress import SILENT, Progress

MEMBER = ".npy"


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    shares: Shares,
    columns: FeatureColumns,
    encoding: str = "utf8",
) -> Task:
    """The task of one file of numbers."""
    return task_of_columns(read_columns(data, columns, encoding), data.name, columns, shares)


def read_columns(path: Path, chosen: FeatureColumns, encoding: str) -> dict[str, Column]:
    """Every array or column of a file, by name.

    Of a .npy file, which holds one array, the label is the path of a second one with the labels.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".parquet"):
        return table_columns(path, encoding, chosen.words)
    if suffix == ".npz":
        return _members(path)
    if suffix != MEMBER:
        return _tensors(path)
    features = _array(path)
    return {"features": features, chosen.label: _array(named_labels_file(path, chosen.label))}


def named_labels_file(path: Path, label: str) -> Path:
    """The file with the labels of a .npy file, which has to be named."""
    if not label:
        raise InputError(
            f"{path.name} holds one array: name a second .npy file with its labels, as "
            f"--label labels.npy."
        )
    found = labels_file(path, label)
    if found is None:
        raise DataError(f"there is no file {label} with the labels of {path.name}.")
    return found


def labels_file(path: Path, label: str) -> Path | None:
    """The file that a label of a .npy file names, beside it or from here, if it is there."""
    places = (path.parent / label, Path(label))
    return next((place for place in places if os.path.isfile(place)), None)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, with errors as sentences."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    with file:
        try:
            yield file
        except SpareError:
            raise
        except MemoryError as error:
            raise DataError(f"{path} cannot be read: there is not enough memory.") from error
        except Exception as error:  # damaged bytes raise almost anything in these libraries
            raise DataError(f"{path} cannot be read: {reason(error)[:200]}.") from error


def _array(path: Path) -> Column:
    with _opened(path) as file:
        shape, dtype = _header(file, path.name)
        size = math.prod(shape) * dtype.itemsize
        if os.fstat(file.fileno()).st_size - file.tell() < size:
            raise DataError(f"{path} cannot be read: it ends before its {size:,} bytes do.")

    def read() -> np.ndarray:
        with _opened(path) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    return _column(shape, dtype, read)


def _members(path: Path) -> dict[str, Column]:
    """The arrays of an .npz file, which is a zip archive of .npy files."""
    columns = {}
    with _opened(path) as file, zipfile.ZipFile(file) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        names = [info.filename.removesuffix(MEMBER) for info in members]
        twice = next((name for name, n in Counter(names).items() if n > 1), None)
        if twice is not None:
            raise DataError(f"{path} has more than one array called {twice!r}: keep one of them.")
        for name, info in zip(names, members, strict=True):
            if info.filename.endswith(MEMBER):
                columns[name] = _member(path, archive, info)
    if not columns:
        raise DataError(f"{path} holds no arrays.")
    return columns


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Column:
    def read() -> np.ndarray:
        with (
            _opened(path) as file,
            zipfile.ZipFile(file) as again,
            again.open(info.filename) as member,
        ):
            return np.lib.format.read_array(member, allow_pickle=False)

    where = f"{info.filename} in {path.name}"
    try:
        with archive.open(info) as member:
            return _column(*_header(member, where), read)
    except Exception as error:  # damaged bytes raise almost anything; it may not be needed
        problem = str(error) if isinstance(error, DataError) else ""
        problem = problem or f"{where} cannot be read: {reason(error)[:200]}."
        return Column(None, (), False, 0, read, problem)


def _header(file: Any, where: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in a .npy file, which may say anything."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if any(n < 0 for n in shape):
        raise DataError(f"{where} cannot be read: its header says that its shape is {shape}.")
    if dtype.hasobject:
        raise DataError(
            f"{where} cannot be read: it holds Python objects, which could run code: save numbers "
            f"or text."
        )
    return shape, dtype


def _column(shape: tuple[int, ...], dtype: np.dtype, read: Any) -> Column:
    return Column(
        rows=shape[0] if shape else None,
        shape=shape[1:],
        numbers=dtype.kind in "fiub" and bool(shape),
        # A type may have no bytes at all, but its values have a place each.
        nbytes=math.prod(shape) * max(1, dtype.itemsize),
        source=read,
    )


def _tensors(path: Path) -> dict[str, Column]:
    from safetensors import safe_open

    columns = {}
    with _opened(path), safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            part = file.get_slice(name)
            kind = part.get_dtype()
            bits = int("".join(c for c in kind.partition("_")[0] if c.isdigit()) or 8)
            shape = tuple(part.get_shape())

            def read(name: str = name) -> np.ndarray:
                with _opened(path), safe_open(path, framework="pt") as file:
                    return as_array(file.get_tensor(name))

            columns[name] = Column(
                rows=shape[0] if shape else None,
                shape=shape[1:],
                numbers=kind[0] in "FIUB" and bool(shape),
                nbytes=math.prod(shape)
                * max(1, bits // 8)
                * (2 if kind[:2] in ("BF", "F8") else 1),
                source=read,
            )
    if not columns:
        raise DataError(f"{path} holds no arrays.")
    return columns
