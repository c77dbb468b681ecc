"""Tasks by name, by the path of someone's own data, or from data in memory."""

from __future__ import annotations

from spare.datasets.registry import DATASETS, SOURCES, Dataset, data_root, source_named
from spare.datasets.source import OWN_DATA, Source, locate, names_code

__all__ = [
    "DATASETS",
    "OWN_DATA",
    "SOURCES",
    "Dataset",
    "Source",
    "data_root",
    "locate",
    "names_code",
    "source_named",
]
