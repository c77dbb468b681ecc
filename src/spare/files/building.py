"""Folders that are whole or not there: filled under another name by one process, then renamed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from spare.errors import InputError, RunError
from spare.files.reading import is_plain_file
from spare.files.writing import TEMPORARY_NAME, cannot_write, remove_temporary_files

Content = TypeVar("Content")

#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0
LOCK = ".lock"
#: How a folder's name ends while it is filled.
PARTIAL = ".partial"
#: How files end that are removed when the folder is complete.
CHECKPOINT = ".checkpoint"


def build_folder(
    folder: Path,
    mark: str,
    doing: str,
    find: Callable[[], Content | None],
    fill: Callable[[Path], Content],
) -> Content:
    """What `find` finds in a folder; if nothing, `fill` fills it under another name first.

    folder  its absolute path
    mark    the file that `fill` writes first: without it, `<folder>.partial` is someone else's,
            unless a process was killed before it could write anything
    doing   what a process that wants the folder meanwhile is told
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise RunError("the folder you are in is gone: go to another one.") from None
    if folder == here:  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    partial = folder.parent / f"{folder.name}{PARTIAL}"
    content = find()
    if content is not None:
        if _holds_only_leftovers(partial):  # of a process that came too late, and was killed
            _abandon(partial)
        return content
    if os.path.lexists(partial) and not _is_ours(partial, mark):
        raise InputError(
            f"{partial} is in the way and was not made here: move it or choose another folder."
        )
    with _locked(partial, doing):
        content = find()
        if content is not None:  # made by another process, a moment ago
            _abandon(partial)
            return content
        content = fill(partial)
        _complete(partial, folder)
    return content


def start_over(partial: Path, mark: str) -> None:
    """Remove what an interrupted process left, for work that cannot be continued."""
    try:
        # The mark goes last: an interruption in here leaves a folder that may still be emptied.
        for path in sorted(partial.iterdir(), key=lambda path: path.name == mark):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    except OSError as error:
        raise cannot_write(partial, error) from error


def discard(partial: Path, mark: str) -> None:
    """Remove an unfinished folder from which nothing can be continued."""
    with contextlib.suppress(RunError):
        start_over(partial, mark)
        _abandon(partial)


def tidy(folder: Path) -> None:
    """Remove what a process left that was killed just before or after a folder was complete."""
    remove_temporary_files(folder)
    with contextlib.suppress(OSError):
        (folder / LOCK).unlink()


@contextlib.contextmanager
def no_empty_folders(folder: Path) -> Iterator[None]:
    """When the work within it fails, folders above `folder` that it made and left empty go again.

    So a command that is refused leaves nothing behind.
    """
    missing = [parent for parent in Path(os.path.abspath(folder)).parents if not parent.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: something is kept there
            for parent in missing:
                parent.rmdir()
        raise


def _complete(partial: Path, folder: Path) -> None:
    try:
        for path in list(partial.iterdir()):  # temporary files stay behind after a kill
            if path.suffix == CHECKPOINT or TEMPORARY_NAME.fullmatch(path.name):
                path.unlink()
        os.replace(partial, folder)
        (folder / LOCK).unlink(missing_ok=True)  # not before: another process would leave one
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def _locked(partial: Path, doing: str) -> Iterator[None]:
    """One process per folder: a second one says so instead of mixing its files in."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            partial.mkdir(parents=True, exist_ok=True)
            # No link is followed, nothing is emptied, and a pipe is not waited for.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = os.open(partial / LOCK, flags, 0o666)
        except OSError as error:
            raise cannot_write(partial, error) from error
        try:
            if _lock_taken(lock, partial / LOCK):
                yield
                return
        finally:
            os.close(lock)
        if time.monotonic() > deadline:
            raise RunError(
                f"another process is {doing} {partial}: wait for it or choose another folder."
            )
        time.sleep(0.1)


def _lock_taken(lock: int, path: Path) -> bool:
    """Whether this process has the lock now, and it is still the one of the folder."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.lstat(path), os.fstat(lock))
    except (BlockingIOError, FileNotFoundError):
        return False


def _is_ours(partial: Path, mark: str) -> bool:
    return not partial.is_symlink() and (
        is_plain_file(partial / mark) or _holds_only_leftovers(partial)
    )


def _holds_only_leftovers(partial: Path) -> bool:
    """Whether a folder has nothing but what a process leaves that was killed at its first write."""
    try:
        return not partial.is_symlink() and all(
            (name == LOCK or TEMPORARY_NAME.fullmatch(name)) and is_plain_file(partial / name)
            for name in os.listdir(partial)
        )
    except OSError:
        return False


def _abandon(partial: Path) -> None:
    """Take our own away from a folder that is not filled; the folder too if it is then empty."""
    with contextlib.suppress(OSError):
        remove_temporary_files(partial)
        (partial / LOCK).unlink(missing_ok=True)
        partial.rmdir()
