"""Files read without waiting, without running anything, and without more memory than is allowed.

What is read may have been put there by anyone. A name may lead to a pipe that nobody writes to, a
device, a folder, a loop of links, or nothing: only files are opened, everything else is an error at
once. JSON is JSON, once, without NaN.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from spare.errors import DataError, RunError, SpareError, reason
from spare.limits import ARRAY, JSON

if TYPE_CHECKING:
    from torch import Tensor

#: Where a file of tensors says what its bytes add up to.
CHECKSUM = "crc32"
#: JSON holds larger numbers than anything here can count or compute with.
LARGEST_WHOLE_NUMBER = 2**63 - 1


def open_regular(path: Path | str, *, links: bool = True) -> BinaryIO:
    """A regular file, opened for reading; OSError for everything else, without waiting for it."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its other end, deaf to signals.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags if links else flags | os.O_NOFOLLOW)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, "its name is not a name of a file") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device and not a file")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_file(path: Path) -> BinaryIO:
    """A file in a folder that anyone may have made; OSError for a link too, which leads away."""
    return open_regular(path, links=False)


def is_plain_file(path: Path) -> bool:
    """Whether there is a file, and not a link to one or anything else."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def file_size(path: Path) -> int:
    """The size of a file that `open_file` can open; OSError otherwise."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def read_bytes(path: Path | str, most: int) -> bytes:
    """The content of a regular file; OSError for one with more than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        # A file that grows meanwhile is not read further.
        content = file.read(most + 1) if size <= most else b""
        if max(size, len(content)) > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read")
        return content


def read_text(path: Path, most: int = 100_000_000) -> str:
    """The text in a file that someone wrote; DataError if there is none."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except OSError as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8.") from error


def cannot_read(path: Path | str, error: OSError) -> DataError:
    """The error for a file that cannot be opened, as a sentence."""
    reasons = {
        errno.ENOENT: f"there is no file {path}.",
        errno.ENOTDIR: f"there is no file {path}: a part of its path is no folder.",
        errno.EISDIR: f"{path} is a folder: name a file.",
        errno.EACCES: f"{path} cannot be read: you have no permission to.",
        errno.ELOOP: f"{path} cannot be read: its links lead in a circle.",
        errno.ENAMETOOLONG: f"{str(path)[:60]}... is too long for the path of a file.",
    }
    return DataError(
        reasons.get(error.errno or 0)
        or f"{path} cannot be read: {error.strerror or reason(error)}."
    )


def why_not(error: BaseException) -> str:
    """What keeps a file from being read, in a few words."""
    if isinstance(error, OSError):
        if error.errno == errno.ELOOP:
            return "it is a link: put the file itself there"
        if error.strerror:
            return error.strerror.lower()
    return reason(error)  # pyarrow's are OSErrors of several lines


def read_json(path: Path) -> Any:
    """What a JSON file holds; an error if it is damaged, or holds what no file of ours does."""
    try:
        JSON.check(file_size(path), str(path))
        with open_file(path) as file:
            return parse_json(file.read())
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read as JSON ({why_not(error)}): delete its folder and run again."
        ) from error


def parse_json(content: bytes | str) -> Any:
    """JSON as its standard has it; ValueError for anything else.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: 'a' is in it twice
    """
    try:
        return json.loads(
            content.decode("utf-8") if isinstance(content, bytes) else content,
            object_pairs_hook=_without_repetition,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_countable,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is in it twice")
    return values


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _countable(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST_WHOLE_NUMBER:
        raise ValueError(f"{text[:40]} is too large a number")
    return int(text)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import safe_open

    try:
        ARRAY.check(file_size(path), str(path))  # a tensor is as large there as in memory
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
            about = dict(file.metadata() or {})
        if about.pop(CHECKSUM, None) not in (None, tensors_checksum(tensors)):
            raise ValueError("its bytes have changed since they were written")
        return tensors, about
    except SpareError:
        raise
    except Exception as error:  # its own errors, and whatever torch makes of an odd type or shape
        raise RunError(
            f"{path} cannot be read ({why_not(error)}): delete it and run the same command again."
        ) from error


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Changes when a byte of a tensor does, as it may on a disk that is failing."""
    import torch

    value = 0
    for name in sorted(tensors):
        data: Any = tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy()
        value = zlib.crc32(data, zlib.crc32(name.encode(), value))
    return f"{value:08x}"
