"""Data sets by name. Adding one: a file with a `load`, a line here, and `presets/NAME.toml`.

`load(data_root, seed, progress=SILENT, *, choices...)` returns the task of one seed. Its
keyword-only parameters are the data set's choices: they can be set like any setting and are stored
with every result. A parameter whose type is a dataclass stands for the fields of that class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spare.errors import unknown
from spare.files.paths import path_given

if TYPE_CHECKING:
    from spare.data.task import Task

DATASETS = {
    "cmnist": "Colored MNIST: five classes of digits, each with its own color (needs mnist)",
    "digits": "colored digits from scikit-learn: small, built in, nothing to download",
    "waterbirds": "water birds and land birds, each mostly in front of its own background",
    "celeba": "blond or not, where few men are blond",
    "urbancars": "cars with two shortcuts at once: background and co-occurring object",
    "restricted_imagenet": "nine super-classes of ImageNet, with shortcuts that nobody planted",
}
#: What `spare data get` can fetch, or say where to get.
SOURCES = {
    "mnist": "the four MNIST files",
    "waterbirds": "11,788 images and metadata.csv",
    "celeba": "202,599 images and two tables",
    "urbancars": "10,000 images in 8 folders per split",
    "restricted_imagenet": "ImageNet's train and val folders",
}


@dataclass(frozen=True)
class Dataset:
    """Someone's own data set, such as `DATASET` in `mine.py`; its name is then `mine:DATASET`.

    Parameters
    ----------
    load : callable
        `load(data_root, seed, progress=SILENT, *, choices...)` returns a `Task`.
    title : str
        One line about it.
    settings : mapping
        What differs from the default settings, as a preset would say it; values for one method
        alone are in a mapping called "methods".

    Examples
    --------
    >>> from spare.data.task import Task
    >>> from spare.progress import SILENT
    >>> def load(data_root, seed, progress=SILENT, *, noise: float = 0.1) -> Task:
    ...     ...
    >>> DATASET = Dataset(load, "noisy points", {"model": "mlp", "methods": {"jtt": {"lr": 0.01}}})
    >>> DATASET.settings["model"]
    'mlp'
    """

    load: Callable[..., Task]
    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def source_named(name: str) -> ModuleType:
    """The module that can fetch a data set, or say where to get it."""
    if name not in SOURCES:
        raise unknown("data set to get", name, SOURCES)
    return import_module(f"spare.datasets.{name}")


def data_root(given: Path | str | None = None) -> Path:
    """The folder of data sets, one folder each: --data, else SPARE_DATA, else the user's cache."""
    chosen = given or os.environ.get("SPARE_DATA")
    if chosen:
        return path_given("the folder of data sets", chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "spare"
