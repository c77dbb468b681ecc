"""Which folders are one's own: a seal that only this user of this machine can make.

A record names files: its data, sometimes a file of weights or groups. Those of one's own runs are
read again for pictures. Someone else's record may name anything, such as a reader's own pictures,
which would then be in the report that goes back; so its files are not followed. The two are told
apart by a seal beside the record: a keyed hash of what was asked for. The key is a random file in
the user's cache folder, made when it is first needed, which nobody else can read. Without it, every
folder counts as someone else's.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spare.errors import SpareError
from spare.files.paths import user_cache
from spare.files.reading import open_file, read_json
from spare.records.layout import REQUEST
from spare.records.record import DiscoveryRecord, Request, same_request, upgraded

SEAL = "seal"
KEY_FILE = "own-runs.key"
KEY_BYTES = 32


def sealed(request: Request) -> dict[str, Any]:
    """A request with its seal, as settings.json has it; without one where no key can be kept."""
    key = _key(make=True)
    return dict(request) | ({} if key is None else {SEAL: _seal(request, key)})


def is_own(folder: Path, record: DiscoveryRecord) -> bool:
    """Whether this user asked for what is in a folder, on this machine."""
    key = _key(make=False)
    if key is None:
        return False
    try:
        request = read_json(folder / REQUEST)
        seal = request.pop(SEAL, "") if isinstance(request, dict) else ""
        return (
            isinstance(seal, str)
            and hmac.compare_digest(seal.encode(errors="replace"), _seal(request, key).encode())
            and same_request(upgraded(request, folder), record)
        )
    except SpareError:  # a folder without settings.json, or with a damaged one
        return False


def _seal(request: Mapping[str, Any], key: bytes) -> str:
    content = json.dumps(request, sort_keys=True).encode()
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """The user's key; None if there is none, or if others may know or have made it."""
    path = user_cache() / KEY_FILE
    with contextlib.suppress(OSError):
        if make and not path.exists():
            _make_key(path)
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077:
                key = file.read(KEY_BYTES + 1)
                return key if len(key) == KEY_BYTES else None
    return None


def _make_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}")
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
