"""Paths that people give, and where this package keeps what is its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from spare.errors import InputError
from spare.text import shown

#: What Linux and macOS allow, in bytes; room is left for the names that are used while writing.
MAX_NAME, MAX_PATH = 255, 4000


def user_cache() -> Path:
    """SPARE_CACHE if that is set, otherwise spare in the user's cache folder."""
    if chosen := os.environ.get("SPARE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spare"


def path_given(what: str, given: Any) -> Path:
    """A path that a person gave, `~` for their home; refused if no file can have such a name.

    >>> path_given("--out", "runs/one")
    PosixPath('runs/one')
    >>> path_given("--out", "a" * 300)
    Traceback (most recent call last):
    spare.errors.InputError: --out is a path of which a part has 300 bytes, and 255 is the most.
    """
    if not isinstance(given, str | bytes | os.PathLike):
        raise InputError(f"{what} is a path, not {shown(given)}.")
    text = os.fsdecode(given)
    try:
        encoded = os.fsencode(text)
        if not text or "\0" in text:
            raise ValueError
        path = Path(text).expanduser()
    except ValueError:  # what stands for no bytes at all is a ValueError too
        raise InputError(f"{what} is not a path: {shown(text)}.") from None
    except RuntimeError:
        raise InputError(
            f"{what} is {shown(text)}, and there is no such user: write ./ before it if it is a "
            f"folder."
        ) from None
    longest = max(map(len, encoded.split(b"/")))
    if longest > MAX_NAME or len(encoded) > MAX_PATH:
        part, count, most = "of which a part has", longest, MAX_NAME
        if longest <= MAX_NAME:
            part, count, most = "that has", len(encoded), MAX_PATH
        raise InputError(f"{what} is a path {part} {count:,} bytes, and {most:,} is the most.")
    return path
