"""A folder that is complete or not there: how runs and discoveries are kept on disk.

While work goes on, everything is in `<folder>.partial`: a checkpoint per stage, each replaced in
one step. At the end the checkpoints go and the folder gets its name: a folder without `.partial` is
complete, so doing finished work again is skipping it.
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

from spare.errors import RunError
from spare.files import cannot_write, read_json, write_json

#: Of run folders: raised when what is written there changes its meaning.
FORMAT = 1
#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0


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
    if folder == Path.cwd():  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    done = finished(folder, request, record)
    if done is not None:
        say(f"{folder} is complete: nothing to do")
        return done
    partial = folder.with_name(f"{folder.name}.partial")
    with _locked(partial):
        if (partial / "settings.json").exists():
            _refuse_other(partial, read_json(partial / "settings.json"), request)
        if (partial / record).exists():  # ended between the last write and the new name
            _complete(partial, folder)
            return read_json(folder / record)
        write_json(partial / "settings.json", request)
        try:
            result = {**request, **work(partial)}
        except BaseException:
            if not any(partial.glob("*.checkpoint")):  # nothing to go on from: leave no trace
                shutil.rmtree(partial)
            raise
        write_json(partial / record, result)
        _complete(partial, folder)
    return result


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
        (partial / ".lock").unlink(missing_ok=True)
        os.replace(partial, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """One process a run folder: a second one says so instead of mixing its files in."""
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = (partial / ".lock").open("w")
    except OSError as error:
        raise cannot_write(partial, error) from error
    with lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(f"another process is working on {partial}.") from None
                time.sleep(0.1)
        yield
