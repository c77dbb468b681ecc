"""Every image of a data set before any is opened: its file, label, split and attributes."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from spare.datasets.splits import SPLITS
from spare.errors import DataError, RunError, SpareWarning
from spare.files.writing import write_atomic
from spare.images.cache import cache_folder
from spare.limits import CLASSES
from spare.synthetic.folder import ABOUT

#: Problems named in an error itself; a file that it points to lists them all.
SHOWN = 10


@dataclass(frozen=True)
class Listing:
    """One entry per image; splits are 0 train, 1 val, 2 test."""

    root: Path
    names: Sequence[str]
    labels: np.ndarray
    splits: np.ndarray
    class_names: tuple[str, ...]
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    attribute_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What else is known of each image, which makes no groups: value numbers, and their names.
    facts: Mapping[str, np.ndarray] = field(default_factory=dict)
    fact_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Row of each image in the table that lists them; None if there is no table.
    rows: np.ndarray | None = None
    #: Height and width of each image in its file, once they have been opened.
    sizes: np.ndarray | None = None

    def where(self, keep: np.ndarray) -> Listing:
        """The images for which `keep` is True."""
        return replace(
            self,
            names=[self.names[i] for i in np.flatnonzero(keep).tolist()],
            labels=self.labels[keep],
            splits=self.splits[keep],
            attributes={name: values[keep] for name, values in self.attributes.items()},
            facts={name: values[keep] for name, values in self.facts.items()},
            rows=None if self.rows is None else self.rows[keep],
            sizes=None if self.sizes is None else self.sizes[keep],
        )

    def describe(self, i: int) -> str:
        """What people can find image `i` by."""
        return self.names[i] if self.rows is None else f"{self.names[i]} (row {self.rows[i]})"


def check_classes(labels: np.ndarray, splits: np.ndarray, class_names: Sequence[str]) -> None:
    """Every class needs training examples, and there must be more than one class."""
    CLASSES.check(len(class_names), "the data")
    if len(class_names) < 2:
        raise DataError(
            f"there is only one class ({class_names[0]!r}): a classifier needs two or more."
            if class_names
            else "there are no classes: give at least two."
        )
    counts = np.stack(
        [np.bincount(labels[splits == s], minlength=len(class_names)) for s in range(len(SPLITS))]
    )
    for name, (train, val, test) in zip(class_names, counts.T.tolist(), strict=True):
        if train == 0:
            raise DataError(
                f"class {name!r} has no training example (val has {val:,}, test {test:,}): add "
                f"some to the training split, or leave this class out."
            )


def existing_files(listing: Listing, skip_bad: bool, allow_outside: bool) -> Listing:
    """Refuse paths that lead out of the root, and find missing files without opening any.

    Each folder is listed once, so that a million rows take seconds.
    """
    root = Path(os.path.realpath(listing.root))
    folders: dict[str, dict[str, bool]] = {}
    missing: list[int] = []
    for i, name in enumerate(listing.names):
        folder, _, file = name.rpartition("/")
        if "\0" in name:
            missing.append(i)
            continue
        if folder not in folders:
            folders[folder] = _files_in(root / folder)
            if not allow_outside:
                _refuse_outside(root, listing, i, Path(os.path.realpath(root / folder)))
        if file not in folders[folder]:
            missing.append(i)
        elif folders[folder][file] and not allow_outside:  # a link may lead anywhere
            _refuse_outside(root, listing, i, Path(os.path.realpath(root / name)))
    if not missing:
        return listing
    descriptions = [listing.describe(i) for i in missing]
    if not skip_bad:
        raise DataError(
            f"{len(missing):,} of {len(listing.names):,} image files are missing (or no files) "
            f"below {listing.root}: {listed(descriptions)}; put them there, or leave them out with "
            f"--skip-bad."
        )
    warn_left_out(len(missing), len(listing.names), "missing", descriptions)
    keep = np.ones(len(listing.names), dtype=bool)
    keep[missing] = False
    return listing.where(keep)


def _files_in(folder: Path) -> dict[str, bool]:
    """The names of the files in a folder, and whether each is a link; pipes are no files."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_symlink() for entry in entries if _is_file(entry)}
    except OSError:
        return {}


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # links that lead in a circle
        return False


def _refuse_outside(root: Path, listing: Listing, i: int, path: Path) -> None:
    if not path.is_relative_to(root):
        raise DataError(
            f"{listing.describe(i)} leads out of the data's folder {listing.root}: give "
            f"--allow-outside if that is meant."
        )


def listed(names: Sequence[str]) -> str:
    """The first few names, and where all of them can be read."""
    more = "" if len(names) <= SHOWN else f", and {len(names) - SHOWN:,} more ({_written(names)})"
    return ", ".join(names[:SHOWN]) + more


def _written(names: Sequence[str]) -> str:
    """Write the complete list to a file, and say where that is."""
    text = ("\n".join(names) + "\n").encode("utf-8", "surrogateescape")
    path = cache_folder() / f"missing-{hashlib.sha256(text).hexdigest()[:12]}.txt"

    def write(temporary: Path) -> None:
        temporary.write_bytes(text)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, write)
    except (OSError, RunError):
        return "the complete list could not be written"
    return f"all of them in {path}"


def warn_left_out(n: int, total: int, why: str, descriptions: Sequence[str]) -> None:
    warnings.warn(
        f"{n:,} of {total:,} images are left out, {why}: {listed(descriptions)}.",
        SpareWarning,
        stacklevel=3,
    )


def check_counts(
    task: str, root: Path, counts: Mapping[str, int], official: Mapping[str, int]
) -> None:
    """Warn of differences from the official counts; a drawn data set may have any counts.

    Keys are a split and a group, such as 'train waterbird/water'.
    """
    if (root / ABOUT).exists():
        return
    present = {name.split()[0] for name, n in counts.items() if n}
    missing = sorted({name.split()[0] for name in official} - present)
    differing = [f"there is no {split} split" for split in missing] + [
        f"{name} has {counts.get(name, 0):,} instead of {count:,}"
        for name, count in official.items()
        if counts.get(name, 0) != count and name.split()[0] not in missing
    ]
    if differing:
        warnings.warn(
            f"{task} differs from the official data: {'; '.join(differing)}.",
            SpareWarning,
            stacklevel=2,
        )


def group_counts(listing: Listing) -> dict[str, int]:
    """Examples in each group of each split, by names such as 'train waterbird/water'."""
    by_name: dict[str, int] = {}
    parts = [listing.class_names, *listing.attribute_values.values()]
    for number, split in enumerate(SPLITS):
        rows = listing.splits == number
        keys = np.stack([listing.labels[rows], *(v[rows] for v in listing.attributes.values())])
        groups, counts = np.unique(keys, axis=1, return_counts=True)
        for group, n in zip(groups.T.tolist(), counts.tolist(), strict=True):
            group_name = "/".join(names[value] for names, value in zip(parts, group, strict=True))
            by_name[f"{split} {group_name}"] = n
    return by_name
