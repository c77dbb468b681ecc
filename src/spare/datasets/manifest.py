"""Someone's own images, listed in a table: a column of paths, one of labels, and perhaps more.

Optional columns give the split and any number of attributes. Paths start from the table's own
folder (or `root`); one that leads out of it is refused unless `allow_outside`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares, complete_splits, split_numbers
from spare.datasets.tables import (
    LABEL_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    Columns,
    column,
    column_names,
    read_table,
    usual,
)
from spare.datasets.words import FIRST_ROW, MISSING, as_text, encode_column, labels_of, unpacked
from spare.errors import DataError, InputError, SpareWarning
from spare.progress import SILENT, Progress


@dataclass(frozen=True)
class ImageColumns(Columns):
    """Which columns hold what, and where the files are that they name."""

    #: The path of each image; empty for the first of `PATH_COLUMNS` that is there.
    path: str = ""
    #: The folder that paths start from; empty for the table's own, or in memory the current one.
    root: str = ""
    #: Accept paths that lead out of that folder.
    allow_outside: bool = False

    def words(self, names: Collection[str]) -> set[str]:
        return super().words(names) | {self.path or usual(PATH_COLUMNS, names)}


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares,
    columns: ImageColumns,
    encoding: str = "utf8",
) -> Task:
    """The task that a table lists."""
    listing = read_listing(data, columns, shares, encoding)
    return image_task(
        data.name, listing, preparation, allow_outside=columns.allow_outside, progress=progress
    )


def read_listing(
    path: Path, columns: ImageColumns, shares: Shares | None = None, encoding: str = "utf8"
) -> Listing:
    """The images that a file lists; without `shares` the splits are taken as they are."""
    named = columns.words(column_names(path, encoding))
    table = read_table(path, encoding, words=columns.words, only=named)
    return listing_of_table(table, path.name, path.parent, columns, shares)


def listing_of_table(
    table: Any,
    where: str,
    folder: Path,
    columns: ImageColumns,
    shares: Shares | None = None,
    *,
    first_row: int = FIRST_ROW,
) -> Listing:
    """The images that a table lists.

    Parameters
    ----------
    table : pyarrow.Table
        One row per image.
    where : str
        What errors call the table.
    folder : Path
        Where `columns.root` starts from.
    columns : ImageColumns
        Which columns hold what.
    shares : Shares, optional
        How missing splits are made up; without it, splits are taken as they are.
    first_row : int
        The number of the first row, as people count the rows.
    """
    path = columns.path or _usual_column(table, PATH_COLUMNS, "path", where)
    label = columns.label or _usual_column(table, LABEL_COLUMNS, "label", where)
    paths = as_text(unpacked(column(table, path, where)), path, where)
    missing = sum(word is None for word in paths)
    if missing:
        raise DataError(
            f"{where} has no value in column {path!r} in {missing:,} of "
            f"{len(paths):,} rows: fill them in or remove these rows."
        )
    labels, class_names = labels_of(column(table, label, where), label, where, first_row)
    splits = _splits(table, columns.split, where, first_row)
    encoded = {
        name: encode_column(column(table, name, where), name, where, MISSING)
        for name in columns.attributes
    }
    names = [word.replace("\\", "/") for word in paths if word is not None]
    listing = Listing(
        root=folder / columns.root,
        names=names,
        labels=labels,
        splits=np.zeros(len(names), dtype=np.int64) if splits is None else splits,
        class_names=class_names,
        attributes={name: codes for name, (codes, _) in encoded.items()},
        attribute_values={name: values for name, (_, values) in encoded.items()},
        rows=np.arange(len(names)) + first_row,
    )
    listing = _without_duplicates(listing, where)
    if shares is None:
        return listing
    given_splits = None if splits is None else listing.splits
    return replace(listing, splits=complete_splits(given_splits, listing.labels, shares))


def _usual_column(table: Any, names: Sequence[str], option: str, where: str) -> str:
    """The first column that has one of these names."""
    usual = next((name for name in names if name in table.column_names), None)
    if usual is None:
        raise InputError(
            f"{where} has no column called {names[0]!r}: name the one with --{option} "
            f"(there are {', '.join(map(str, table.column_names[:12]))})."
        )
    return usual


def _splits(table: Any, split: str, where: str, first_row: int) -> np.ndarray | None:
    """The splits that a table gives: in its `split` column, or in the usual one if there is one."""
    split = split or next((n for n in SPLIT_COLUMNS if n in table.column_names), "")
    if not split:
        return None
    codes, words = labels_of(column(table, split, where), split, where, first_row)
    return np.asarray(split_numbers(words, f"column {split!r} of {where}")[codes])


def _without_duplicates(listing: Listing, where: str) -> Listing:
    """Use a path that is listed twice once; refuse one with two labels or splits."""
    first_of: dict[str, int] = {}
    repeated: list[int] = []
    assert listing.rows is not None
    for i, name in enumerate(listing.names):
        first = first_of.setdefault(name, i)
        if first == i:
            continue
        for what, values in (("label", listing.labels), ("split", listing.splits)):
            if values[first] != values[i]:
                raise DataError(
                    f"{where} lists {listing.describe(first)} again as row {listing.rows[i]} with "
                    f"another {what}: remove one of the two."
                )
        repeated.append(i)
    if not repeated:
        return listing
    warnings.warn(
        f"{where} lists {len(repeated):,} paths more than once (the first is "
        f"{listing.describe(repeated[0])}): each is used once.",
        SpareWarning,
        stacklevel=4,
    )
    keep = np.ones(len(listing.names), dtype=bool)
    keep[repeated] = False
    return listing.where(keep)
