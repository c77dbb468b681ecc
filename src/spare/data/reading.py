"""Files that people bring, opened without waiting and without taking more memory than is allowed.

A name may lead to a pipe that nobody writes to, a device, a folder, a loop of links, or nothing.
Only regular files are read; everything else is an error at once.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from spare.errors import DataError, reason


def open_regular(path: Path | str) -> BinaryIO:
    """A regular file, opened for reading; OSError for everything else, without waiting for it."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its other end, deaf to signals.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
