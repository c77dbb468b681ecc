"""Where a task comes from: a name, a path, someone's own code, or data in memory."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spare.datasets.registry import DATASETS, Dataset, data_root
from spare.datasets.tables import PATH_COLUMNS, column_names
from spare.errors import DataError, InputError, unknown
from spare.files.paths import path_given
from spare.files.reading import cannot_read, open_regular
from spare.imports import code_digest, import_object
from spare.limits import ARRAY, ROWS
from spare.progress import SILENT, Progress
from spare.synthetic.folder import drawn_fingerprint
from spare.text import printable

if TYPE_CHECKING:
    from spare.data.task import Task
    from spare.datasets.in_memory import InMemory

#: The modules that read someone's own data, and the preset of each; tensors come from Python only.
OWN_DATA = {
    "folder": "images",
    "manifest": "images",
    "huggingface": "images",
    "arrays": "arrays",
    "tensors": "tensors",
}
ARRAYS = (".npy", ".npz", ".safetensors")
TABLES = (".csv", ".tsv", ".parquet")
HUGGING_FACE = "hf:"
IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
#: How the names of data in memory end.
IN_MEMORY = " in memory"


@dataclass(frozen=True)
class Source:
    """Where a task comes from, and how it is loaded."""

    #: As it was typed.
    name: str
    #: A data set's name, one of `OWN_DATA`, or imported for someone's own code.
    kind: str
    #: What is read: a file or folder, or for a named data set the folder of all of them.
    path: Path
    #: Identifies the content of someone's own data, so that a run notices when it has changed; of
    #: a named data set, only a drawing whose validation split is like training has one.
    fingerprint: str = ""
    #: A data set or data that were given as Python objects.
    given: Dataset | InMemory | None = None

    @property
    def imported(self) -> bool:
        """True if it is someone's own code, which `load` and `own_preset` import and run."""
        return self.kind == "imported"

    @property
    def in_memory(self) -> bool:
        """True if it was given as a Python object, which no other process can find by its name."""
        return self.given is not None

    @property
    def load(self) -> Callable[..., Task]:
        """Called with the path, the seed and the choices, which are its keyword-only parameters."""
        if self.dataset is not None:
            return self.dataset.load
        if self.given is not None:
            assert not isinstance(self.given, Dataset)
            return _bound(self.given)
        load: Callable[..., Task] = import_module(f"spare.datasets.{self.kind}").load
        return load

    @property
    def preset(self) -> str:
        """The name of the preset, if there is one."""
        if self.imported:
            return ""
        return OWN_DATA.get(self.kind, self.kind)

    @property
    def own_preset(self) -> Mapping[str, Any]:
        """The settings of someone's own data set; {} for all others."""
        return {} if self.dataset is None else self.dataset.settings

    @property
    def label(self) -> str:
        """A name that is safe within a file name."""
        if self.kind in OWN_DATA and not self.in_memory:
            name = self.path.name.removesuffix(self.path.suffix) or self.path.resolve().name
        else:
            name = self.name
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in name) or "data"

    def to_json(self) -> dict[str, str]:
        """What another process needs to load the same task; not for data in memory."""
        return {
            "name": self.name,
            "kind": self.kind,
            "path": str(self.path),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, str]) -> Source:
        return cls(fields["name"], fields["kind"], Path(fields["path"]), fields["fingerprint"])

    @cached_property
    def dataset(self) -> Dataset | None:
        """Someone's own data set, imported when it is first needed."""
        if isinstance(self.given, Dataset):
            return self.given
        if not self.imported:
            return None
        dataset: Dataset = import_object(
            "data set", self.name, lambda value: isinstance(value, Dataset)
        )
        return dataset


def names_code(task: str) -> bool:
    """Whether a task's name is an import path, so that loading it would run someone's code."""
    return not task.startswith(HUGGING_FACE) and IMPORT_PATH.fullmatch(task) is not None


def locate(
    task: Any, data: Path | str | None = None, settings: Mapping[str, Any] | None = None
) -> Source:
    """Where a task comes from.

    Parameters
    ----------
    task : str, path or object
        A named data set; the path of a file or folder, as it is or below the folder of data sets;
        hf:NAME; package.module:DATASET; or, in Python, a `Dataset`, a `Task`, arrays, a table or a
        torch `Dataset`.
    data : path, optional
        The folder of data sets.
    settings : mapping, optional
        Those that decide what a file is: `path`, `encoding`.
    """
    settings = settings or {}
    root = data_root(data)
    if isinstance(task, Dataset):
        name = f"{task.title or 'data set'}{IN_MEMORY}"
        return Source(name, "imported", root, _code_fingerprint(task), task)
    if not isinstance(task, str | os.PathLike):
        from spare.datasets.recognize import recognize

        content = recognize(task, str(settings.get("path", "")))
        name = f"{content.name}{IN_MEMORY}"
        return Source(name, content.kind, Path(), content.fingerprint, content)
    task = os.fspath(task)
    if task in DATASETS:
        return Source(task, task, root, drawn_fingerprint(root / task))
    if task.startswith(HUGGING_FACE):
        return Source(task, "huggingface", Path(task.removeprefix(HUGGING_FACE)))
    _check_name(task)
    # Not `Path.exists`, which raises for a name that is too long.
    places = (path_given("the task", task), root / task)
    path = next((place for place in places if os.path.exists(place)), None)
    if path is not None:
        _check_name(str(path))
        return Source(task, _kind(path, settings), path, fingerprint_of(path))
    if names_code(task):
        return Source(task, "imported", root)
    if task.endswith(IN_MEMORY):
        raise DataError(
            f"{task!r} was given as a Python object, so it cannot be found by its name: give the "
            f"object again."
        )
    if "/" in task or Path(task).suffix.lower() in (*ARRAYS, *TABLES):
        raise DataError(f"there is no file or folder {task}, here or in {root}.")
    raise unknown("task (nor is there a file or folder of that name)", task, DATASETS)


def _check_name(task: str) -> None:
    """Refuse a name that no record could hold: it would be noticed only after training."""
    try:
        task.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{printable(task)!r} is not UTF-8 text: rename the data.") from error


def _bound(content: InMemory) -> Callable[..., Task]:
    """The loader of data in memory, with the parameters that a data set's `load` has."""

    @functools.wraps(content.load)
    def load(path: Path, seed: int, progress: Progress = SILENT, **choices: Any) -> Task:
        return content.load(content.data, seed, progress, **choices)

    return load


def _kind(path: Path, settings: Mapping[str, Any]) -> str:
    """Which module reads a file or folder."""
    if path.is_dir():
        saved = any((path / mark).is_file() for mark in ("dataset_dict.json", "dataset_info.json"))
        return "huggingface" if saved else "folder"
    suffix = path.suffix.lower()
    if suffix in (*ARRAYS, *TABLES):
        try:
            open_regular(path).close()
        except OSError as error:
            raise cannot_read(path, error) from error
    if suffix in ARRAYS:
        return "arrays"
    if suffix in TABLES:
        if settings.get("path"):
            return "manifest"
        columns = column_names(path, str(settings.get("encoding", "utf8")))
        return "manifest" if any(name in PATH_COLUMNS for name in columns) else "arrays"
    raise InputError(
        f"{path} is not of a kind that can be read: give a folder of images, a table of images or "
        f"numbers ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)})."
    )


def _code_fingerprint(dataset: Dataset) -> str:
    """A hash of what a data set given as an object is made of: its code and its settings."""
    settings = json.dumps(dict(dataset.settings), sort_keys=True, default=str)
    content = f"{code_digest(dataset.load)} {settings}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def fingerprint_of(path: Path) -> str:
    """A hash of a file's bytes, or of the names and sizes of everything in a folder."""
    digest = hashlib.sha256()
    if not path.is_dir():
        try:
            with open_regular(path) as file:
                ARRAY.check(os.fstat(file.fileno()).st_size, str(path))
                while block := file.read(1 << 22):
                    digest.update(block)
        except OSError as error:
            raise cannot_read(path, error) from error
        return digest.hexdigest()[:16]
    files = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        files += len(names)
        ROWS.check(files, str(path))
        for name in sorted(names):
            file_path = os.path.join(folder, name)
            size = os.path.getsize(file_path) if os.path.exists(file_path) else -1
            about = f"{os.path.relpath(file_path, path)}\0{size}\n"
            digest.update(about.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]
