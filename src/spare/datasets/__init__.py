"""Tasks by name. Adding one: a file with a `load(data, seed, *, choices...)`, and a line here.

The keyword-only parameters of `load` are the data set's own choices: they can be set like any
setting and are stored with every result.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from spare.errors import unknown

DATASETS = {
    "cmnist": "Colored MNIST: five classes of digits, each with its colour (needs mnist)",
    "digits": "coloured digits from scikit-learn: small, embedded, nothing to download",
}
#: What `spare data get` can fetch.
SOURCES = {"mnist": "the four MNIST files"}


def dataset_named(name: str) -> ModuleType:
    if name not in DATASETS:
        raise unknown("task", name, DATASETS)
    return import_module(f"spare.datasets.{name}")


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
