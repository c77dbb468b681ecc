"""Work that is done once: a run folder that is complete is found, an unfinished one continued."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spare.errors import RunError
from spare.files.building import CHECKPOINT, build_folder, discard, tidy
from spare.files.reading import is_plain_file, why_not
from spare.files.writing import write_json
from spare.records.layout import GROUPS, REQUEST, WEIGHTS
from spare.records.record import (
    FILES,
    REQUESTED,
    DiscoveryRecord,
    Kind,
    Request,
    is_run,
    read_record_file,
    read_request,
)
from spare.records.seal import sealed
from spare.text import printable

#: The value of a key that is not there.
NOTHING = object()


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
        if is_plain_file(partial / REQUEST):
            _check_same_request(partial, read_request(partial / REQUEST), request)
        if os.path.lexists(partial / name):  # ended between the last write and the new name
            record = read_record_file(partial / name)
            _check_same_request(partial, record, request)
            if _has_its_files(partial, record):
                return record
        write_json(partial / REQUEST, sealed(request))
        try:
            record = work(partial)
        except BaseException:
            if not any(partial.glob(f"*{CHECKPOINT}")):  # nothing to continue: leave no trace
                discard(partial, REQUEST)
            raise
        write_json(partial / name, record)
        return record

    return build_folder(folder, REQUEST, "working on", find, fill)


def finished(folder: Path, request: Request, kind: Kind = "run") -> DiscoveryRecord | None:
    """The record of a complete folder, or None; an error if it is of another request."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
    except OSError as error:
        raise RunError(
            f"{folder} cannot be looked at ({why_not(error)}): choose another --out."
        ) from error
    name = FILES[kind]
    if not os.path.lexists(folder / name):
        raise RunError(
            f"{folder} exists and is not a folder of this kind (no {name}): choose another --out."
        )
    record = read_record_file(folder / name)
    _check_same_request(folder, record, request)
    tidy(folder)
    return record


def _has_its_files(folder: Path, record: DiscoveryRecord) -> bool:
    """Whether what a record tells of is there: its groups, and of a run its weights."""
    needed = [*([GROUPS] if record["discovery"] else []), *([WEIGHTS] if is_run(record) else [])]
    return all(is_plain_file(folder / name) for name in needed)


def _check_same_request(folder: Path, record: Mapping[str, Any], wanted: Request) -> None:
    wanted_parts: Mapping[str, Any] = wanted
    for part in REQUESTED:
        recorded, requested = record.get(part, ""), wanted_parts[part]
        if recorded == requested:
            continue
        if part == "data":
            raise RunError(
                f"{folder} holds a run of {wanted['task']} from before the data, or a file that a "
                f"setting names, changed: choose another --out, or delete that folder."
            )
        if isinstance(recorded, dict) and isinstance(requested, dict):
            # A key that one of them lacks is a difference, even where the other has null.
            keys = sorted({*recorded, *requested})
            part = next(k for k in keys if recorded.get(k, NOTHING) != requested.get(k, NOTHING))
            recorded, requested = recorded.get(part, NOTHING), requested.get(part, NOTHING)
        raise RunError(
            f"{folder} holds a run of another setting ({printable(part)} is {_short(recorded)} "
            f"there, {_short(requested)} was asked for): choose another --out, or delete that "
            f"folder."
        )


def _short(value: Any) -> str:
    text = "nothing" if value is NOTHING else printable(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."
