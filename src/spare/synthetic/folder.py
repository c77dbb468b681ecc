"""A folder of drawn pictures: complete or not there, with a note of how it was drawn."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from spare.errors import InputError
from spare.files.building import build_folder, start_over, tidy
from spare.files.reading import cannot_read, is_plain_file, read_bytes, read_json
from spare.files.writing import cannot_write, write_json
from spare.progress import Progress

#: The file that says how a folder was drawn.
ABOUT = "drawn.json"
MOST_BYTES = 100_000
#: Raised whenever the pictures change, so that an older folder is not taken for a new one.
VERSION = 1
JPEG_QUALITY = 92


def draw_folder(
    folder: Path,
    name: str,
    options: dict[str, Any],
    pictures: Callable[[Path], Iterator[tuple[Path, Image.Image]]],
    total: int,
    progress: Progress,
) -> Path:
    """Draw into `folder` the pictures that `pictures` yields for it, unless they are there."""
    about = {"drawn": name, "version": VERSION, "options": options}
    folder = Path(os.path.abspath(folder))

    def save(partial: Path) -> dict[str, Any]:
        start_over(partial, ABOUT)
        write_json(partial / ABOUT, about)
        try:
            for done, (path, image) in enumerate(pictures(partial)):
                if done % 50 == 0:
                    progress.report("drawing", done, total)
                path.parent.mkdir(parents=True, exist_ok=True)
                image.save(path, "JPEG", quality=JPEG_QUALITY)
        except OSError as error:
            raise cannot_write(folder, error) from error
        progress.report("drawing", total, total)
        return about

    build_folder(folder, ABOUT, "drawing", lambda: _already_drawn(folder, about), save)
    return folder


def drawn_fingerprint(folder: Path) -> str:
    """Stands for a folder whose validation split was drawn like training, so that a run on it is
    not taken for one on the usual drawing; "" for all others, of which records say nothing."""
    if not is_plain_file(folder / ABOUT):
        return ""
    try:
        note = read_bytes(folder / ABOUT, MOST_BYTES)
    except OSError as error:
        raise cannot_read(folder / ABOUT, error) from error
    return hashlib.sha256(note).hexdigest()[:16] if b'"val_like"' in note else ""


def _already_drawn(folder: Path, about: dict[str, Any]) -> dict[str, Any] | None:
    """The note of a folder that already holds these pictures; an error if it holds others."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder.")
    if not folder.exists() or not any(folder.iterdir()):
        return None
    if not (folder / ABOUT).is_file():
        raise InputError(
            f"{folder} holds files that were not drawn here: choose another folder or empty it."
        )
    existing: dict[str, Any] = read_json(folder / ABOUT)
    if existing == about:
        tidy(folder)
        return existing
    if not isinstance(existing, dict) or not isinstance(existing.get("options", {}), dict):
        raise InputError(f"{folder / ABOUT} is damaged: choose another folder or delete this one.")
    old, new = ({**a, **a.get("options", {}), "options": None} for a in (existing, about))
    key = next(key for key in [*new, *old] if old.get(key) != new.get(key))
    raise InputError(
        f"{folder} was drawn with other options ({key} is {old.get(key)!r} there and "
        f"{new.get(key)!r} here): choose another folder or delete it."
    )
