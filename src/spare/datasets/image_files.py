"""From a list of image files to a task: what every data set of images has in common.

A data set's own module says which files there are, with their labels, splits and attributes (a
`Listing`); here they are checked before anything is trained, decoded once into a cache, and become
splits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import (
    RandomTransform,
    center_crop,
    compose,
    random_crop,
    random_flip,
    random_resized_crop,
    scale_bytes,
)
from spare.errors import DataError, InputError, RunError, SpareWarning, unknown

NORMALIZE: dict[str, tuple[float | Sequence[float], float | Sequence[float]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": (0.5, 0.5),
}
AUGMENT = ("none", "flip", "crop", "resized_crop")
CACHE = ("auto", "on", "off")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm")
SPLITS = ("train", "val", "test")
#: Problems named in an error itself; the rest are in a file that it names.
SHOWN = 10
#: A file that a drawn data set has (drawn.py).
DRAWN = "drawn.json"
#: Of the free disk space and of the memory, the share that a cache may take unasked.
SPARE_ROOM = 0.5
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Preparation:
    """How an image becomes a network's input: choices of every data set of images."""

    #: Side of the square that is decoded once and kept.
    resize: int = 256
    #: Side of what the network sees: the center, or in training as `augment` says; 0 for all.
    crop: int = 224
    #: Shorter side to `resize` and the center square, instead of stretching to a square.
    keep_aspect: bool = True
    #: Of training batches: none, flip, crop (and flip), resized_crop (and flip).
    augment: str = "flip"
    #: imagenet (its mean and deviation a channel) or half (-1 to 1).
    normalize: str = "imagenet"
    #: on, off (decode every time), or auto: on unless the disk has no room.
    cache: str = "auto"
    #: Leave images out that cannot be read, instead of stopping before training.
    skip_bad: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("augment", self.augment, AUGMENT),
            ("normalize", self.normalize, NORMALIZE),
            ("cache", self.cache, CACHE),
        ):
            if value not in known:
                raise unknown(name, value, known)
        if self.resize < 1 or not 0 <= self.crop <= self.resize:
            raise InputError(
                f"resize is at least 1 and crop from 0 to resize, not {self.resize} and "
                f"{self.crop}."
            )


@dataclass(frozen=True)
class Listing:
    """Every image of a data set, before any is opened; splits are 0 train, 1 val, 2 test."""

    root: Path
    names: Sequence[str]
    labels: np.ndarray
    splits: np.ndarray
    class_names: tuple[str, ...]
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    attribute_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Row of each name in the file that lists them; None when no file does.
    rows: np.ndarray | None = None
    #: Height and width of each image as it is in its file, once they were opened.
    sizes: np.ndarray | None = None

    def take(self, keep: np.ndarray) -> Listing:
        return replace(
            self,
            names=[self.names[i] for i in np.flatnonzero(keep).tolist()],
            labels=self.labels[keep],
            splits=self.splits[keep],
            attributes={name: values[keep] for name, values in self.attributes.items()},
            rows=None if self.rows is None else self.rows[keep],
            sizes=None if self.sizes is None else self.sizes[keep],
        )

    def called(self, i: int) -> str:
        """What a person can find image `i` by."""
        return self.names[i] if self.rows is None else f"{self.names[i]} (row {self.rows[i]})"


def image_task(
    name: str,
    listing: Listing,
    preparation: Preparation,
    *,
    center: int = 0,
    shortcuts: tuple[str, ...] = (),
    allow_outside: bool = False,
    read: Callable[[int], bytes] | None = None,
    fingerprint: str = "",
    report: Report = lambda what, done, total: None,
) -> Task:
    """Check the files, prepare the pixels, and divide them into the splits of a task.

    read, fingerprint   for images that are not files below the listing's root: the bytes of image
                        i, and what stands for the content of all of them.
    """
    check_classes(listing.labels, listing.splits, listing.class_names)
    if read is None:
        listing = existing_files(listing, preparation.skip_bad, allow_outside)
    listing, splits, content = _inputs(listing, preparation, center, read, fingerprint, report)
    check_classes(listing.labels, listing.splits, listing.class_names)
    made: dict[str, Split | None] = dict.fromkeys(SPLITS)
    for number, split in enumerate(SPLITS):
        own = listing.splits == number
        if own.any():
            attributes = {key: values[own] for key, values in listing.attributes.items()}
            made[split] = Split(splits[number], listing.labels[own], attributes or None)
    names = {
        split: [listing.names[i] for i in np.flatnonzero(listing.splits == number).tolist()]
        for number, split in enumerate(SPLITS)
        if made[split] is not None
    }
    assert made["train"] is not None
    return Task(
        name=name,
        train=made["train"],
        val=made["val"],
        test=made["test"],
        class_names=listing.class_names,
        attribute_values=dict(listing.attribute_values),
        shortcuts=shortcuts,
        names=names,
        sizes=None if listing.sizes is None else listing.sizes[listing.splits == 0],
        content=content,
    )


def check_classes(labels: np.ndarray, splits: np.ndarray, class_names: Sequence[str]) -> None:
    """Every class needs training examples, and there must be more than one class."""
    if len(class_names) < 2:
        raise DataError(
            f"there is one class only ({class_names[0]!r}): a classifier needs two or more."
            if class_names
            else "there are no classes."
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
    """Refuse paths out of the root; find what is missing without opening anything.

    Folders are read once each, so that a million rows take seconds.
    """
    root = Path(os.path.realpath(listing.root))
    folders: dict[str, dict[str, bool]] = {}
    missing: list[int] = []
    for i, name in enumerate(listing.names):
        folder, _, file = name.rpartition("/")
        if folder not in folders:
            folders[folder] = _files(root / folder)
            if not allow_outside:
                _refuse_outside(root, listing, i, Path(os.path.realpath(root / folder)))
        if file not in folders[folder]:
            missing.append(i)
        elif folders[folder][file] and not allow_outside:  # a link may lead anywhere
            _refuse_outside(root, listing, i, Path(os.path.realpath(root / name)))
    if not missing:
        return listing
    named = [listing.called(i) for i in missing]
    if not skip_bad:
        raise DataError(
            f"{len(missing):,} of {len(listing.names):,} image files are missing below "
            f"{listing.root}: {listed(named)}; put them there, or leave them out with --skip-bad."
        )
    _warn_left_out(len(missing), len(listing.names), "missing", named)
    keep = np.ones(len(listing.names), dtype=bool)
    keep[missing] = False
    return listing.take(keep)


def _files(folder: Path) -> dict[str, bool]:
    """The names in a folder, and whether each is a link."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_symlink() for entry in entries}
    except OSError:
        return {}


def _refuse_outside(root: Path, listing: Listing, i: int, place: Path) -> None:
    if not place.is_relative_to(root):
        raise DataError(
            f"{listing.called(i)} leads out of the data's folder {listing.root}: give "
            f"--allow-outside if that is meant."
        )


def listed(names: Sequence[str]) -> str:
    more = "" if len(names) <= SHOWN else f", and {len(names) - SHOWN:,} more ({_written(names)})"
    return ", ".join(names[:SHOWN]) + more


def _written(names: Sequence[str]) -> str:
    """The whole list in a file; where it is, is what is said."""
    from spare.files import write_atomic
    from spare.images.cache import cache_folder

    text = ("\n".join(names) + "\n").encode("utf-8", "surrogateescape")
    path = cache_folder() / f"missing-{hashlib.sha256(text).hexdigest()[:12]}.txt"

    def write(temporary: Path) -> None:
        temporary.write_bytes(text)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, write)
    except (OSError, RunError):
        return "and there is no place to write the whole list to"
    return f"all of them in {path}"


def _warn_left_out(n: int, total: int, why: str, named: Sequence[str]) -> None:
    warnings.warn(
        f"{n:,} of {total:,} images are left out, {why}: {listed(named)}.",
        SpareWarning,
        stacklevel=3,
    )


def _inputs(
    listing: Listing,
    preparation: Preparation,
    center: int,
    read: Callable[[int], bytes] | None,
    fingerprint: str,
    report: Report,
) -> tuple[Listing, list[Any], str]:
    """The listing without what was left out, inputs for train, val and test, and what stands for
    their content."""
    from spare.images.cache import DecodedInputs, cache_folder, fingerprint_files, prepare
    from spare.images.decode import Geometry

    root = listing.root
    file_names = listing.names
    if read is None:
        fingerprint = fingerprint_files(root, file_names)

        def read(i: int) -> bytes:
            return (root / file_names[i]).read_bytes()

    geometry = Geometry(preparation.resize, center=center, keep_aspect=preparation.keep_aspect)
    needed = 3 * geometry.resize**2 * len(file_names)
    keep = preparation.cache == "on" or (
        preparation.cache == "auto" and needed < SPARE_ROOM * _free_space(cache_folder())
    )
    if preparation.cache == "auto" and not keep:
        warnings.warn(
            f"{cache_folder()} has no room for a cache of {needed / 1e9:.1f} GB: the images are "
            f"decoded every time, which is several times slower.",
            SpareWarning,
            stacklevel=3,
        )
    called = [listing.called(i) for i in range(len(file_names))]
    prepared = prepare(
        called,
        read,
        geometry,
        fingerprint,
        folder=cache_folder(),
        keep=keep,
        skip_bad=preparation.skip_bad,
        report=lambda done, total: report("images", done, total),
    )
    good = np.ones(len(called), dtype=bool)
    if prepared.bad:
        named = [f"{called[i]} ({why})" for i, why in prepared.bad.items()]
        _warn_left_out(len(named), len(called), "unreadable", named)
        good[list(prepared.bad)] = False
    finish = scale_bytes(*NORMALIZE[preparation.normalize])
    view = center_crop(preparation.crop) if preparation.crop else None
    augment = augmentation(preparation)
    inputs: list[Any] = []
    for number in range(len(SPLITS)):
        rows = np.flatnonzero(good & (listing.splits == number))
        changes: dict[str, Any] = {"view": view, "finish": finish}
        changes["augment"] = augment if number == 0 else None
        if prepared.pixels is not None:
            pixels = prepared.pixels
            inputs.append(TensorInputs(pixels, rows=rows, in_memory=fits_memory(needed), **changes))
        else:
            inputs.append(DecodedInputs(read, geometry, rows=rows, **changes))
    content = hashlib.sha256(
        f"{fingerprint} {geometry} {preparation.crop} {preparation.normalize}".encode()
        + good.tobytes()
        + listing.splits.tobytes()
    )
    opened = replace(listing, sizes=prepared.sizes)
    return opened.take(good), inputs, content.hexdigest()


def fits_memory(size: int) -> bool:
    """Whether so many bytes stay in memory once read; what does not is read by loader processes."""
    return size < SPARE_ROOM * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_space(folder: Path) -> int:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(there).free


def augmentation(preparation: Preparation) -> RandomTransform | None:
    size = preparation.crop or preparation.resize
    steps: dict[str, list[RandomTransform]] = {
        "none": [],
        "flip": [lambda batch, rng: center_crop(size)(batch), random_flip()],
        "crop": [random_crop(size), random_flip()],
        "resized_crop": [random_resized_crop(size), random_flip()],
    }
    chosen = steps[preparation.augment]
    return compose(*chosen) if chosen else None


def check_counts(
    task: str, root: Path, found: Mapping[str, int], official: Mapping[str, int]
) -> None:
    """A warning that says what differs from the official counts; a drawn set has counts of its own.

    Keys are a split and a group, as 'train waterbird/water'.
    """
    if (root / DRAWN).exists():
        return
    there = {name.split()[0] for name, n in found.items() if n}
    missing = sorted({name.split()[0] for name in official} - there)
    differing = [f"there is no {split} split" for split in missing] + [
        f"{name} has {found.get(name, 0):,} instead of {count:,}"
        for name, count in official.items()
        if found.get(name, 0) != count and name.split()[0] not in missing
    ]
    if differing:
        warnings.warn(
            f"{task} differs from the official data: {'; '.join(differing)}.",
            SpareWarning,
            stacklevel=2,
        )


def group_counts(listing: Listing) -> dict[str, int]:
    """Examples of each group of each split, as 'train waterbird/water'."""
    found: dict[str, int] = {}
    parts = [listing.class_names, *listing.attribute_values.values()]
    for number, split in enumerate(SPLITS):
        own = listing.splits == number
        keys = np.stack([listing.labels[own], *(v[own] for v in listing.attributes.values())])
        groups, counts = np.unique(keys, axis=1, return_counts=True)
        for group, n in zip(groups.T.tolist(), counts.tolist(), strict=True):
            named = "/".join(names[value] for names, value in zip(parts, group, strict=True))
            found[f"{split} {named}"] = n
    return found
