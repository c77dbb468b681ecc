"""Tasks by name, or by the path of someone's own data. Adding a named one: a file, and a line here.

A data set is a module with `load(data, seed, *, choices...)`. The keyword-only parameters of `load`
are the data set's own choices: they can be set like any setting and are stored with every result.
For a named task `data` is the folder of data sets; for a path it is that path.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from spare.errors import DataError, InputError, unknown

DATASETS = {
    "cmnist": "Colored MNIST: five classes of digits, each with its color (needs mnist)",
    "digits": "colored digits from scikit-learn: small, embedded, nothing to download",
    "waterbirds": "water birds and land birds, each mostly before its own background",
    "celeba": "blond or not, where few men are blond",
    "urbancars": "cars with two shortcuts at once: background and co-occurring object",
    "restricted_imagenet": "nine super-classes of ImageNet, with shortcuts that nobody put there",
}
#: Modules that read someone's own data, which is given as a path; and the preset of each.
OWN_DATA = {
    "folder": "images",
    "manifest": "images",
    "huggingface": "images",
    "arrays": "arrays",
}
#: What `spare data get` can fetch, or say where to get.
SOURCES = {
    "mnist": "the four MNIST files",
    "waterbirds": "11,788 images and metadata.csv",
    "celeba": "202,599 images and two tables",
    "urbancars": "10,000 images in 8 folders a split",
    "restricted_imagenet": "ImageNet's train and val folders",
}
ARRAYS = (".npy", ".npz", ".safetensors")
TABLES = (".csv", ".tsv", ".parquet")
#: A table with one of these columns lists image files.
PATH_COLUMNS = ("path", "image_path", "filepath", "file", "filename", "file_name", "img_filename")
HUGGING_FACE = "hf:"


@dataclass(frozen=True)
class Source:
    """Where a task comes from: its name as it was typed, its module, and what that reads."""

    name: str
    kind: str
    path: Path
    #: Of someone's own data: stands for its content, so that a run knows when it has changed.
    fingerprint: str = ""

    @property
    def module(self) -> ModuleType:
        return import_module(f"spare.datasets.{self.kind}")

    @property
    def preset(self) -> str:
        return OWN_DATA.get(self.kind, self.kind)

    @property
    def label(self) -> str:
        """A name that is safe within a file name."""
        if self.kind not in OWN_DATA:
            return self.name
        stem = self.path.name.removesuffix(self.path.suffix) or self.path.resolve().name
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in stem) or "data"


def locate(
    task: str, data: Path | str | None = None, overrides: Mapping[str, Any] | None = None
) -> Source:
    """The named task, or the data at a path: as given, else below the folder of data sets."""
    root = data_root(data)
    if task in DATASETS:
        return Source(task, task, root)
    if task.startswith(HUGGING_FACE):
        return Source(task, "huggingface", Path(task.removeprefix(HUGGING_FACE)))
    path = next((p for p in (Path(task).expanduser(), root / task) if p.exists()), None)
    if path is None:
        if "/" in task or Path(task).suffix.lower() in (*ARRAYS, *TABLES):
            raise DataError(f"there is no file or folder {task}, here or in {root}.")
        raise unknown("task (nor is there a file or folder of that name)", task, DATASETS)
    kind = _kind(path, overrides or {})
    return Source(task, kind, path, _fingerprint(path))


def _kind(path: Path, overrides: Mapping[str, Any]) -> str:
    if path.is_dir():
        saved = any((path / mark).is_file() for mark in ("dataset_dict.json", "dataset_info.json"))
        return "huggingface" if saved else "folder"
    suffix = path.suffix.lower()
    if suffix in ARRAYS:
        return "arrays"
    if suffix in TABLES:
        from spare.datasets.tables import column_names

        encoding = str(overrides.get("encoding", "utf8"))
        columns = [] if overrides.get("path") else column_names(path, encoding)
        named = overrides.get("path") or any(name in PATH_COLUMNS for name in columns)
        return "manifest" if named else "arrays"
    raise InputError(
        f"{path} is of no kind that can be read: give a folder of images, a table of images or "
        f"numbers ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)})."
    )


def _fingerprint(path: Path) -> str:
    """Of a file its bytes; of a folder the names and sizes of what is in it."""
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
        return digest.hexdigest()[:16]
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file_path = os.path.join(folder, name)
            size = os.path.getsize(file_path) if os.path.exists(file_path) else -1
            digest.update(f"{os.path.relpath(file_path, path)}\0{size}\n".encode(errors="replace"))
    return digest.hexdigest()[:16]


def source_named(name: str) -> ModuleType:
    if name not in SOURCES:
        raise unknown("data set to get", name, SOURCES)
    return import_module(f"spare.datasets.{name}")


def data_root(given: Path | str | None = None) -> Path:
    """Where data sets live, one folder each: --data, else SPARE_DATA, else the user's cache."""
    chosen = given or os.environ.get("SPARE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "spare"
