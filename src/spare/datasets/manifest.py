"""Someone's own images, listed in a table: a column of paths, one of labels, and perhaps more.

Optional columns say the split and any number of attributes. Paths are below the table's own folder
(or `root`); one that leads out of it is refused unless `allow_outside`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.datasets import PATH_COLUMNS
from spare.datasets.image_files import Listing, Preparation, Report, image_task
from spare.datasets.splits import Shares, as_numbers, complete
from spare.datasets.tables import (
    FIRST_ROW,
    MISSING,
    column,
    encode_column,
    labels_of,
    read_table,
    text,
)
from spare.errors import DataError, InputError, SpareWarning

LABEL_COLUMNS = ("label", "y", "class", "target", "labels")
SPLIT_COLUMNS = ("split", "partition", "subset")


def load(
    data: Path,
    seed: int,
    report: Report = lambda what, done, total: None,
    *,
    preparation: Preparation,
    shares: Shares,
    path: str = "",
    label: str = "",
    split: str = "",
    attributes: tuple[str, ...] = (),
    root: str = "",
    allow_outside: bool = False,
    encoding: str = "utf8",
) -> Task:
    """The task that a table lists.

    path, label, split, attributes   columns; empty for the usual names (attributes: none)
    root                             folder that the paths start from; empty for the table's own
    allow_outside                    accept paths that lead out of that folder
    """
    listing = read_listing(
        data, path=path, label=label, split=split, attributes=attributes, root=root,
        encoding=encoding, shares=shares,
    )  # fmt: skip
    return image_task(data.name, listing, preparation, allow_outside=allow_outside, report=report)


def read_listing(
    table_path: Path,
    *,
    path: str = "",
    label: str = "",
    split: str = "",
    attributes: Sequence[str] = (),
    root: str = "",
    encoding: str = "utf8",
    shares: Shares | None = None,
) -> Listing:
    """The rows of a table of images; without `shares` the splits are taken as they are."""
    table = read_table(table_path, encoding)
    path = path or usual(table, PATH_COLUMNS, "path", table_path)
    label = label or usual(table, LABEL_COLUMNS, "label", table_path)
    paths = column(table, path, table_path)
    if paths.null_count:
        raise DataError(
            f"{table_path} has no path in column {path!r} in {paths.null_count:,} of "
            f"{len(paths):,} rows: fill them in or remove these rows."
        )
    labels, class_names = labels_of(column(table, label, table_path), label, table_path)
    splits = split_numbers(table, split, table_path)
    encoded = attribute_columns(table, attributes, table_path)
    names = [word.replace("\\", "/") for word in text(paths) if word is not None]
    listing = Listing(
        root=(table_path.parent / root) if root else table_path.parent,
        names=names,
        labels=labels,
        splits=np.zeros(len(names), dtype=np.int64) if splits is None else splits,
        class_names=class_names,
        attributes={name: codes for name, (codes, _) in encoded.items()},
        attribute_values={name: values for name, (_, values) in encoded.items()},
        rows=np.arange(len(names)) + FIRST_ROW,
    )
    listing = without_duplicates(listing, table_path)
    if shares is None:
        return listing
    known = None if splits is None else listing.splits
    return replace(listing, splits=complete(known, listing.labels, shares))


def usual(table: Any, names: Sequence[str], what: str, path: Path) -> str:
    """The column that is called as such a column usually is."""
    found = next((name for name in names if name in table.column_names), None)
    if found is None:
        raise InputError(
            f"{path.name} has no column called {names[0]!r}: name the one with --{what} "
            f"(there are {', '.join(map(str, table.column_names[:12]))})."
        )
    return found


def split_numbers(table: Any, split: str, path: Path) -> np.ndarray | None:
    """The splits that a table gives: its `split` column, or the usual one if it has it."""
    split = split or next((n for n in SPLIT_COLUMNS if n in table.column_names), "")
    if not split:
        return None
    codes, words = labels_of(column(table, split, path), split, path)
    return as_numbers(words, f"column {split!r} of {path.name}")[codes]


def attribute_columns(
    table: Any, names: Sequence[str], path: Path
) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    return {name: encode_column(column(table, name, path), MISSING) for name in names}


def without_duplicates(listing: Listing, path: Path) -> Listing:
    """A path twice is left out once; under two labels or splits nobody can say which is right."""
    seen: dict[str, int] = {}
    again: list[int] = []
    for i, name in enumerate(listing.names):
        first = seen.setdefault(name, i)
        if first == i:
            continue
        for what, values in (("label", listing.labels), ("split", listing.splits)):
            if values[first] != values[i]:
                raise DataError(
                    f"{path} lists {listing.called(first)} again as row {i + FIRST_ROW} with "
                    f"another {what}: remove one of the two."
                )
        again.append(i)
    if not again:
        return listing
    warnings.warn(
        f"{path.name} lists {len(again):,} paths more than once (the first is "
        f"{listing.called(again[0])}): each is used once.",
        SpareWarning,
        stacklevel=3,
    )
    keep = np.ones(len(listing.names), dtype=bool)
    keep[again] = False
    return listing.take(keep)
