"""A folder that is complete or not there: how runs, discoveries and drawn sets are kept on disk.

While work goes on, everything is in `<folder>.partial`, where a run keeps a checkpoint per stage,
each replaced in one step. At the end the checkpoints go and the folder gets its name: a folder
without `.partial` is complete, so doing finished work again is skipping it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spare.errors import InputError, RunError
from spare.files import cannot_write, read_json, write_json

#: Of run folders: raised when what is written there changes its meaning.
FORMAT = 1
#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0
LOCK = ".lock"
#: What a run was asked for: the first file in its folder.
REQUEST = "settings.json"


def once(
    folder: Path,
    request: Mapping[str, Any],
    record: str,
    work: Callable[[Path], dict[str, Any]],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Do `work` in a folder and keep what it returns there as `record`, or find it done.

    A complete folder of the same request is returned as it is, an unfinished one is gone on with,
    and one of another request is refused.
    """
    folder = Path(os.path.abspath(folder))

    def found() -> dict[str, Any] | None:
        done = finished(folder, request, record)
        if done is not None:
            say(f"{folder} is complete: nothing to do")
        return done

    def go_on(partial: Path) -> dict[str, Any]:
        if (partial / REQUEST).exists():
            _refuse_other(partial, read_json(partial / REQUEST), request)
        if (partial / record).exists():  # ended between the last write and the new name
            ended: dict[str, Any] = read_json(partial / record)
            return ended
        write_json(partial / REQUEST, request)
        try:
            result = {**request, **work(partial)}
        except BaseException:
            if not any(partial.glob("*.checkpoint")):  # nothing to go on from: leave no trace
                shutil.rmtree(partial, ignore_errors=True)
            raise
        write_json(partial / record, result)
        return result

    return make_whole(folder, REQUEST, "working on", found, go_on)


def make_whole(
    folder: Path,
    mark: str,
    doing: str,
    found: Callable[[], dict[str, Any] | None],
    work: Callable[[Path], dict[str, Any]],
) -> dict[str, Any]:
    """What is `found` in a folder; if nothing, let `work` fill it under another name, then name it.

    folder  its absolute path
    mark    the file that `work` writes first: without it, `<folder>.partial` is someone else's
    doing   what another process is at, to whoever wants the folder meanwhile
    """
    if folder == Path.cwd():  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    done = found()
    if done is not None:
        return done
    partial = folder.with_name(f"{folder.name}.partial")
    with _locked(partial, doing):
        done = found()
        if done is not None:  # made by another process, a moment ago
            _unlock(partial)
            return done
        if not (partial / mark).is_file() and os.listdir(partial) != [LOCK]:
            _unlock(partial)
            raise InputError(
                f"{partial} is in the way and was not made here: move it or choose another folder."
            )
        done = work(partial)
        _complete(partial, folder)
    return done


def start_over(partial: Path, mark: str) -> None:
    """Remove what an interrupted process left, for work that has nothing to go on from."""
    try:
        # The mark goes last: an interruption in here leaves a folder that may still be emptied.
        for path in sorted(partial.iterdir(), key=lambda path: path.name == mark):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    except OSError as error:
        raise cannot_write(partial, error) from error


def finished(
    folder: Path, request: Mapping[str, Any], record: str = "run.json"
) -> dict[str, Any] | None:
    """The record of a complete folder, or None; an error if it is of another setting."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / record).is_file():
        raise RunError(
            f"{folder} exists and is not a folder of this kind (no {record}): choose another --out."
        )
    found = read_json(folder / record)
    _refuse_other(folder, found, request)
    return found


def _refuse_other(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if found.get("format", 0) > FORMAT:
        raise RunError(f"{folder} was written by a newer version of spare-ml: upgrade to read it.")
    for part in ("task", "data", "method", "seed", "settings", "options"):
        if found.get(part, "") == wanted[part]:
            continue
        if part == "data":
            raise RunError(
                f"{folder} holds a run of {wanted['task']} as it was before the data changed: "
                f"choose another --out, or delete that folder."
            )
        there, asked = found.get(part), wanted[part]
        if isinstance(there, dict) and isinstance(asked, dict):
            key = next(k for k in sorted({*there, *asked}) if there.get(k) != asked.get(k))
            part, there, asked = key, there.get(key), asked.get(key)
        raise RunError(
            f"{folder} holds a run of another setting ({part} is {there!r} there, {asked!r} was "
            f"asked for): choose another --out, or delete that folder."
        )


def _complete(partial: Path, folder: Path) -> None:
    try:
        for checkpoint in partial.glob("*.checkpoint"):
            checkpoint.unlink()
        os.replace(partial, folder)
        (folder / LOCK).unlink(missing_ok=True)  # not before: another process would leave one
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def _locked(partial: Path, doing: str) -> Iterator[None]:
    """One process a folder: a second one says so instead of mixing its files in."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            partial.mkdir(parents=True, exist_ok=True)
            lock = (partial / LOCK).open("w")
        except OSError as error:
            raise cannot_write(partial, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"another process is {doing} {partial}: wait for it or choose another "
                        f"folder."
                    ) from None
            else:
                yield
                return
        time.sleep(0.1)


def _unlock(partial: Path) -> None:
    """Take the lock away from a folder that was only looked at; the folder too if it is empty."""
    with contextlib.suppress(OSError):
        (partial / LOCK).unlink()
        partial.rmdir()
