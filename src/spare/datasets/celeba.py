"""CelebA (Liu et al., 2015) as this field uses it: blond hair or not, where few men are blond.

Official files: list_attr_celeba (40 attributes, -1 or 1), list_eval_partition (0, 1, 2), each with
commas or spaces, gzipped or not, and img_align_celeba/. Any other two attributes can be chosen, and
the other 38 are known of the training images for comparison. Whoever has only some of the images
divides those with split=own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing, check_counts, group_counts
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares, divide
from spare.datasets.tables import column, read_table
from spare.datasets.words import as_text
from spare.errors import DataError, unknown
from spare.limits import Range
from spare.progress import SILENT, Progress

TABLES = ("list_attr_celeba", "list_eval_partition")
SUFFIXES = (".csv", ".csv.gz", ".txt", ".txt.gz")
IMAGES = "img_align_celeba"
CENTER = 178
SPLITS = ("official", "own")
#: Of a split of one's own: 70 % for training.
SHARES = Shares(val_share=0.15, test_share=0.15)
COUNTS = {
    f"{split} {group}": n
    for split, counts in {
        "train": (71629, 66874, 22880, 1387),
        "val": (8535, 8276, 2874, 182),
        "test": (9767, 7535, 2480, 180),
    }.items()
    for group, n in zip(
        [f"{y}/{a}" for y in ("not Blond_Hair", "Blond_Hair") for a in ("not Male", "Male")],
        counts,
        strict=True,
    )
}
WHERE = (
    "CelebA's authors give its aligned images and tables for research "
    "(mmlab.ie.cuhk.edu.hk/projects/CelebA.html): put img_align_celeba/, list_attr_celeba and "
    "list_eval_partition (.csv or .txt) in {folder}."
)


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares = SHARES,
    target: str = "Blond_Hair",
    attribute: str = "Male",
    split: str = "official",
    center: Annotated[int, Range(1, 10_000)] = CENTER,
) -> Task:
    """The task of two of the 40 columns; the paper's are Blond_Hair and Male.

    Parameters
    ----------
    split : str
        `official`, or `own` for those of the images that are there, divided at random by
        `val_share`, `test_share` and `split_seed`, every group by the same shares.
    center : int
        First crop every image to this many central pixels: 178 of the official images, whose width
        it is, and half of that for images at half size.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    listing = listing_of(data / "celeba", target, attribute)
    papers = (target, attribute) == ("Blond_Hair", "Male")
    if split == "own":
        listing = _divided(listing, attribute, shares)
    elif papers:
        check_counts("celeba", data / "celeba", group_counts(listing), COUNTS)
    return image_task(
        "celeba",
        listing,
        preparation,
        center=center,
        # A man is not blond, and who is blond is a woman.
        shortcuts={attribute: (1, 0)} if papers else None,
        progress=progress,
    )


def _divided(listing: Listing, attribute: str, shares: Shares) -> Listing:
    """The images that are there, in splits of one's own."""
    there = set(os.listdir(listing.root)) if listing.root.is_dir() else set()
    listing = listing.where(np.array([name in there for name in listing.names], dtype=bool))
    if not listing.names:
        raise DataError(f"none of the images of {TABLES[0]} is in {listing.root}: put some there.")
    return replace(
        listing, splits=divide(2 * listing.labels + listing.attributes[attribute], shares)
    )


def listing_of(root: Path, target: str, attribute: str) -> Listing:
    attributes, partition = (_table(root, name) for name in TABLES)
    attribute_path = _find(root, TABLES[0])
    assert attribute_path is not None
    first = attributes.column_names[0]
    names = as_text(column(attributes, first, attribute_path.name), first, attribute_path.name)
    split_of = dict(
        zip(
            as_text(partition[partition.column_names[0]].combine_chunks(), "", TABLES[1]),
            partition[partition.column_names[1]].to_pylist(),
            strict=True,
        )
    )
    without = [name for name in names if name not in split_of]
    if without:
        raise DataError(
            f"{len(without):,} images of {TABLES[0]} are not in {TABLES[1]} (the first is "
            f"{without[0]}): take both tables from the same source."
        )

    def positive(name: str) -> np.ndarray:
        values = column(attributes, name, attribute_path.name).to_numpy(zero_copy_only=False)
        return np.asarray((values > 0).astype(np.int64))

    facts = [name for name in attributes.column_names[1:] if name != attribute]
    return Listing(
        root=root / IMAGES,
        names=[str(name) for name in names],
        labels=positive(target),
        splits=np.array([int(split_of[name]) for name in names]),
        class_names=(f"not {target}", target),
        attributes={attribute: positive(attribute)},
        attribute_values={attribute: (f"not {attribute}", attribute)},
        facts={name: positive(name) for name in facts},
        fact_values={name: (f"not {name}", name) for name in facts},
    )


def _find(root: Path, name: str) -> Path | None:
    return next((p for s in SUFFIXES if (p := root / f"{name}{s}").is_file()), None)


def _table(root: Path, name: str) -> Any:
    path = _find(root, name)
    if path is None:
        raise DataError(f"there is no {name} in {root}. {where(root.parent)}")
    return read_table(path)


def where(data: Path) -> str:
    return WHERE.format(folder=data / "celeba")


def present(data: Path) -> bool:
    root = data / "celeba"
    return (root / IMAGES).is_dir() and all(_find(root, name) for name in TABLES)
