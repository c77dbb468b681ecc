"""The folder of the image cache: where it is, which files in it are ours, and who may write them.

Nothing that this package did not write is ever removed. prepare.py fills it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from spare.errors import DataError, RunError
from spare.files.paths import user_cache

#: What the cache leaves in its folder, complete or half-written.
_OURS = re.compile(r"\.?[0-9a-f]{32}\.(npy|json|lock|bad\.txt)(\.\d+\.tmp)?")


class Usage(NamedTuple):
    entries: int
    bytes: int


def cache_folder() -> Path:
    """SPARE_CACHE/images if that is set, otherwise spare/images in the user's cache folder."""
    return user_cache() / "images"


def entries(folder: Path) -> Usage:
    """How many complete entries `folder` holds, and the bytes of everything of ours in it."""
    return _usage(our_files(folder))


def clear(folder: Path) -> Usage:
    """Remove every entry that no process is building right now; return what was removed."""
    count = size = 0
    with cache_errors(folder):
        for key in sorted({path.name.lstrip(".")[:32] for path in our_files(folder)}):
            lock = folder / f"{key}.lock"
            try:
                with locked(lock, wait=False):
                    files = our_files(folder, key)
                    removed = _usage(files)
                    for path in files:
                        path.unlink()
            except BlockingIOError:
                continue
            count, size = count + removed.entries, size + removed.bytes
    return Usage(count, size)


def our_files(folder: Path, key: str = "") -> list[Path]:
    """The files in `folder` that the cache wrote, or those of one entry: no folders, no links."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as items:
        return [
            Path(item.path)
            for item in items
            if _OURS.fullmatch(item.name)
            and item.name.lstrip(".").startswith(key)
            and item.is_file(follow_symlinks=False)
        ]


def _usage(files: Sequence[Path]) -> Usage:
    return Usage(
        sum(path.suffix == ".json" for path in files),
        sum(path.lstat().st_size for path in files),
    )


#: What can be done without the cache.
DECODE = "use --set cache=off, which decodes the images every time instead"


def check_room(folder: Path, needed: int, instead: str = DECODE) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"the image cache needs {_size(needed)} in {folder}, where {_size(free)} are free: "
            f"make room, set SPARE_CACHE to another folder, or {instead}."
        )


def _size(n: float) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


@contextmanager
def cache_errors(folder: Path, instead: str = DECODE) -> Iterator[None]:
    """Turn trouble with the cache's files into a sentence that says what else can be done."""
    try:
        yield
    except (OSError, RunError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = (getattr(cause, "strerror", None) or str(cause)).lower()
        raise DataError(
            f"the image cache cannot be written in {folder} ({why}): make that possible, set "
            f"SPARE_CACHE to another folder, or {instead}."
        ) from error


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock file; a process that dies releases it. Without `wait`: OSError if taken."""
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same_file(file.fileno(), path):
                continue  # `clear` removed it while we were waiting
            yield
            return


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
