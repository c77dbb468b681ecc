"""A folder that is complete or not there: how runs, discoveries and drawn sets are kept on disk.

While work goes on, everything is in `<folder>.partial`, where a run keeps a checkpoint per stage,
each replaced in one step. At the end the checkpoints go and the folder gets its name: a folder
without `.partial` is complete, so doing finished work again is skipping it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spare.errors import RunError
from spare.files import read_json, write_json

#: Of run folders: raised when what is written there changes its meaning.
FORMAT = 1
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

    return build_folder(folder, REQUEST, "working on", found, go_on)


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
