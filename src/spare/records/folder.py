"""Work that is done once: a run folder that is complete is found, an unfinished one continued."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spare.errors import RunError
from spare.files import CHECKPOINT, build_folder, read_json, write_json
from spare.records.layout import REQUEST
from spare.records.record import FILES, DiscoveryRecord, Kind, Request, read_record_file, upgraded


def do_once(
    folder: Path,
    request: Request,
    kind: Kind,
    work: Callable[[Path], DiscoveryRecord],
    say: Callable[[str], None],
) -> DiscoveryRecord:
    """Do `work` in a folder and keep what it returns there as the record, or find it done.

    A complete folder of the same request is returned as it is, an unfinished one is continued, and
    one of another request is refused.
    """
    folder = Path(os.path.abspath(folder))
    name = FILES[kind]

    def find() -> DiscoveryRecord | None:
        record = finished(folder, request, kind)
        if record is not None:
            say(f"{folder} is complete: nothing to do")
        return record

    def fill(partial: Path) -> DiscoveryRecord:
        if (partial / REQUEST).exists():
            _check_same_request(partial, upgraded(read_json(partial / REQUEST), partial), request)
        if (partial / name).exists():  # ended between the last write and the new name
            return read_record_file(partial / name)
        write_json(partial / REQUEST, request)
        try:
            record = work(partial)
        except BaseException:
            if not any(partial.glob(f"*{CHECKPOINT}")):  # nothing to continue: leave no trace
                shutil.rmtree(partial, ignore_errors=True)
            raise
        write_json(partial / name, record)
        return record

    return build_folder(folder, REQUEST, "working on", find, fill)


def finished(folder: Path, request: Request, kind: Kind = "run") -> DiscoveryRecord | None:
    """The record of a complete folder, or None; an error if it is of another request."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    name = FILES[kind]
    if not (folder / name).is_file():
        raise RunError(
            f"{folder} exists and is not a folder of this kind (no {name}): choose another --out."
        )
    record = read_record_file(folder / name)
    _check_same_request(folder, record, request)
    return record


def _check_same_request(folder: Path, record: Mapping[str, Any], wanted: Request) -> None:
    wanted_parts: Mapping[str, Any] = wanted
    for part in ("task", "data", "method", "seed", "settings", "options"):
        recorded, requested = record.get(part, ""), wanted_parts[part]
        if recorded == requested:
            continue
        if part == "data":
            raise RunError(
                f"{folder} holds a run of {wanted['task']} as it was before the data changed: "
                f"choose another --out, or delete that folder."
            )
        if isinstance(recorded, dict) and isinstance(requested, dict):
            keys = sorted({*recorded, *requested})
            part = next(key for key in keys if recorded.get(key) != requested.get(key))
            recorded, requested = recorded.get(part), requested.get(part)
        raise RunError(
            f"{folder} holds a run of another setting ({part} is {recorded!r} there, "
            f"{requested!r} was asked for): choose another --out, or delete that folder."
        )
