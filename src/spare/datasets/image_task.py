"""From a list of image files to a task: what every data set of images has in common.

A data set's module says which files there are, with their labels, splits and attributes (a
`Listing`). Here they are checked before anything is trained, decoded once into a cache, and divided
into splits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.inputs import Inputs, SubsetInputs, TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import center_crop, scale_bytes
from spare.datasets.listing import Listing, check_classes, existing_files, warn_left_out
from spare.datasets.preparation import NORMALIZE, Preparation, augmentation
from spare.datasets.splits import SPLITS
from spare.errors import SpareWarning
from spare.images.cache import cache_folder
from spare.images.decode import Geometry
from spare.images.decoded import DecodedInputs, read_image
from spare.images.prepare import fingerprint_files, prepare
from spare.progress import SILENT, Progress

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm")
#: The share of the free disk space, and of the memory, that a cache may take without being told.
ROOM_SHARE = 0.5


def image_task(
    name: str,
    listing: Listing,
    preparation: Preparation,
    *,
    center: int = 0,
    shortcuts: Mapping[str, tuple[int, ...]] | None = None,
    allow_outside: bool = False,
    read: Callable[[int], bytes] | None = None,
    fingerprint: str = "",
    progress: Progress = SILENT,
) -> Task:
    """Check the files, prepare the pixels, and divide them into the splits of a task.

    Parameters
    ----------
    name : str
        The task's name.
    listing : Listing
        Every image, with its label, split and attributes.
    preparation : Preparation
        How an image becomes a network's input.
    center : int
        First crop every image to this many central pixels; 0 for no crop.
    shortcuts : mapping, optional
        By attribute: for each class, the value that it has wherever the shortcut holds.
    allow_outside : bool
        Accept files that are outside of the listing's root.
    read, fingerprint : callable and str
        For images that are not files below the listing's root: returns the bytes of image i, and
        identifies the content of all of them.
    progress : Progress
        Told of the images that are decoded.
    """
    check_classes(listing.labels, listing.splits, listing.class_names)
    if read is None:
        listing = existing_files(listing, preparation.skip_bad, allow_outside)
    listing, inputs, content = _prepared_inputs(
        listing, preparation, center, read, fingerprint, progress
    )
    check_classes(listing.labels, listing.splits, listing.class_names)
    splits: dict[str, Split | None] = dict.fromkeys(SPLITS)
    names: dict[str, list[str]] = {}
    for number, split in enumerate(SPLITS):
        rows = np.flatnonzero(listing.splits == number)
        if len(rows):
            attributes = {key: values[rows] for key, values in listing.attributes.items()}
            splits[split] = Split(inputs[number], listing.labels[rows], attributes or None)
            names[split] = [listing.names[i] for i in rows.tolist()]
    assert splits["train"] is not None
    return Task(
        name=name,
        train=splits["train"],
        val=splits["val"],
        test=splits["test"],
        class_names=listing.class_names,
        attribute_values=dict(listing.attribute_values),
        shortcuts=shortcuts or {},
        names=names,
        facts={name: values[listing.splits == 0] for name, values in listing.facts.items()},
        fact_values=listing.fact_values,
        sizes=None if listing.sizes is None else listing.sizes[listing.splits == 0],
        content=content,
    )


def _prepared_inputs(
    listing: Listing,
    preparation: Preparation,
    center: int,
    read: Callable[[int], bytes] | None,
    fingerprint: str,
    progress: Progress,
) -> tuple[Listing, list[Inputs], str]:
    """The listing without what was left out, the inputs of train, val and test, and what identifies
    their content."""
    root = listing.root
    file_names = listing.names
    if read is None:
        fingerprint = fingerprint_files(root, file_names)

        def read(i: int) -> bytes:
            return read_image(root / file_names[i])

    geometry = Geometry(preparation.resize, center=center, keep_aspect=preparation.keep_aspect)
    needed = 3 * geometry.resize**2 * len(file_names)
    keep = preparation.cache == "on" or (
        preparation.cache == "auto" and needed < ROOM_SHARE * _free_space(cache_folder())
    )
    if preparation.cache == "auto" and not keep:
        warnings.warn(
            f"{cache_folder()} has no room for a cache of {needed / 1e9:.1f} GB: the images are "
            f"decoded every time, which is several times slower.",
            SpareWarning,
            stacklevel=3,
        )
    descriptions = [listing.describe(i) for i in range(len(file_names))]
    prepared = prepare(
        descriptions,
        read,
        geometry,
        fingerprint,
        folder=cache_folder(),
        keep=keep,
        skip_bad=preparation.skip_bad,
        progress=progress,
    )
    good = np.ones(len(descriptions), dtype=bool)
    if prepared.bad:
        bad = [f"{descriptions[i]} ({why})" for i, why in prepared.bad.items()]
        warn_left_out(len(bad), len(descriptions), "unreadable", bad)
        good[list(prepared.bad)] = False
    inputs: list[Inputs] = []
    for number in range(len(SPLITS)):
        transforms: dict[str, Any] = {
            "view": center_crop(preparation.crop) if preparation.crop else None,
            "augment": augmentation(preparation) if number == 0 else None,
            "finish": scale_bytes(*NORMALIZE[preparation.normalize]),
        }
        everything: Inputs
        if prepared.pixels is not None:
            in_memory = fits_memory(needed)
            everything = TensorInputs(prepared.pixels, in_memory=in_memory, **transforms)
        else:
            everything = DecodedInputs(read, len(file_names), geometry, **transforms)
        rows = np.flatnonzero(good & (listing.splits == number))
        inputs.append(SubsetInputs(everything, rows))
    content = hashlib.sha256(
        f"{fingerprint} {geometry} {preparation.crop} {preparation.normalize}".encode()
        + good.tobytes()
        + listing.splits.tobytes()
    )
    opened = replace(listing, sizes=prepared.sizes)
    return opened.where(good), inputs, content.hexdigest()


def fits_memory(size: int) -> bool:
    """Whether so many bytes stay in memory once read; else loader processes read them."""
    return size < ROOM_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_space(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
