"""Someone's own images in folders: one folder per class, or train/, val/ and test/ with those.

A mapping file can merge folders into classes: JSON or TOML with class = ["folder", ...], or a CSV
with columns folder and class. Folders that it does not name are left out, with a warning.
"""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import SUFFIXES, image_task
from spare.datasets.listing import Listing
from spare.datasets.preparation import Preparation
from spare.datasets.splits import SPLIT_NUMBER, SPLITS, Shares, complete_splits
from spare.datasets.tables import column, read_table
from spare.datasets.words import as_text, unpacked
from spare.errors import DataError, InputError, SpareWarning, reason, unknown
from spare.files.reading import cannot_read, read_text
from spare.limits import ROWS
from spare.progress import SILENT, Progress


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares,
    classes: str = "",
    allow_outside: bool = False,
) -> Task:
    """The task of one folder of images.

    Parameters
    ----------
    data : Path
        The folder.
    seed : int
        Not used: the task is the same for every seed.
    progress : Progress
        Told of the images that are decoded.
    preparation : Preparation
        How an image becomes a network's input.
    shares : Shares
        How the examples are divided if there are no folders of splits.
    classes : str
        A file that merges folders into classes; empty for one class per folder.
    allow_outside : bool
        Accept links that lead out of the folder.
    """
    listing = read_listing(data, classes, shares)
    return image_task(
        data.resolve().name, listing, preparation, allow_outside=allow_outside, progress=progress
    )


def read_listing(data: Path, classes: str, shares: Shares) -> Listing:
    top = _folders(data)
    divided = bool(top) and all(name.lower() in SPLIT_NUMBER for name in top)
    divided = divided and len(top) <= len(SPLITS)
    names: list[str] = []
    folders: list[str] = []
    splits: list[int] = []
    for part in top if divided else [""]:
        for folder in _folders(data / part):
            for file in _images(data / part / folder):
                ROWS.check(len(names) + 1, str(data))
                names.append("/".join(filter(None, (part, folder, file))))
                folders.append(folder)
                splits.append(SPLIT_NUMBER[part.lower()] if divided else 0)
    if not names:
        raise DataError(
            f"{data} has no images in folders of classes: put each class's images "
            f"({', '.join(SUFFIXES[:4])}, ...) in a folder of its own there."
        )
    class_of, class_names = _classes(sorted(set(folders)), classes, data)
    keep = np.array([folder in class_of for folder in folders])
    numbers = {name: i for i, name in enumerate(class_names)}
    labels = np.array([numbers[class_of[f]] for f in folders if f in class_of], dtype=np.int64)
    given_splits = np.array(splits, dtype=np.int64)[keep] if divided else None
    return Listing(
        root=data,
        names=[name for name, kept in zip(names, keep, strict=True) if kept],
        labels=labels,
        splits=complete_splits(given_splits, labels, shares),
        class_names=class_names,
    )


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise cannot_read(folder, error) from error


def _images(top: Path) -> Iterator[str]:
    """Image files below a folder, as paths from it, in a fixed order; links are not followed."""
    for folder, subfolders, files in os.walk(top):
        subfolders.sort()
        for file in sorted(files):
            if file.lower().endswith(SUFFIXES) and not file.startswith("."):
                yield os.path.relpath(os.path.join(folder, file), top).replace(os.sep, "/")


def _classes(folders: list[str], file: str, data: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """The class of every folder that has one, and the classes' names."""
    if not file:
        return {folder: folder for folder in folders}, tuple(folders)
    mapping = read_mapping(Path(file).expanduser())
    for folder in mapping:
        if folder not in folders:
            raise unknown(f"folder of {data.name} (in {file})", folder, folders)
    unused = [folder for folder in folders if folder not in mapping]
    if unused:
        listed = ", ".join(unused[:5]) + (", ..." if len(unused) > 5 else "")
        warnings.warn(
            f"{len(unused)} of {len(folders)} folders are in no class of {file} and are left out: "
            f"{listed}.",
            SpareWarning,
            stacklevel=2,
        )
    return mapping, tuple(dict.fromkeys(mapping.values()))


def read_mapping(path: Path) -> dict[str, str]:
    """Folder -> class, from JSON, TOML or CSV."""
    suffix = path.suffix.lower()
    if suffix not in (".json", ".toml", ".csv"):
        raise InputError(f"{path} is not a mapping: give a .json, .toml or .csv file.")
    if suffix == ".csv":
        table = read_table(path, words=lambda names: ("folder", "class"))
        folders, classes = (
            as_text(unpacked(column(table, name, path.name)), name, path.name)
            for name in ("folder", "class")
        )
        return _without_contradictions(list(zip(folders, classes, strict=True)), path)
    content = read_text(path)
    try:
        mapping = json.loads(content) if suffix == ".json" else tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {reason(error)[:200]}.") from error
    if not isinstance(mapping, dict) or not all(isinstance(v, list) for v in mapping.values()):
        raise DataError(f'{path} should say class = ["folder", ...] for each class.')
    return _without_contradictions(
        [(folder, name) for name, group in mapping.items() for folder in group], path
    )


def _without_contradictions(pairs: list[tuple[Any, Any]], path: Path) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for folder, name in pairs:
        if not isinstance(folder, str) or not isinstance(name, str) or not name:
            raise DataError(
                f"{path} has a folder or a class that is no text ({folder!r}, {name!r}): write "
                f"both as words."
            )
        if mapping.setdefault(folder, name) != name:
            raise DataError(
                f"{path} puts folder {folder!r} in two classes ({mapping[folder]!r} and {name!r}): "
                f"keep one of them."
            )
    return mapping
