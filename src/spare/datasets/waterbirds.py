"""Waterbirds (Sagawa et al., 2020): land and water birds pasted before land and water.

Official files: metadata.csv with img_filename, y (1 water bird), split (0, 1, 2) and place (1
water), and the images below the same folder. In training 95 % of the birds are before their own
background; in val and test half of each class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spare.data.task import Task
from spare.datasets.archives import fetch_archive
from spare.datasets.image_files import (
    Listing,
    Preparation,
    Report,
    check_counts,
    group_counts,
    image_task,
)
from spare.datasets.manifest import read_listing
from spare.errors import DataError

CLASSES = ("landbird", "waterbird")
PLACES = ("land", "water")
OFFICIAL_FOLDER = "waterbird_complete95_forest2water2"
COUNTS = {
    f"{split} {bird}/{place}": n
    for split, counts in {
        "train": (3498, 184, 56, 1057),
        "val": (467, 466, 133, 133),
        "test": (2255, 2255, 642, 642),
    }.items()
    for (bird, place), n in zip([(b, p) for b in CLASSES for p in PLACES], counts, strict=True)
}
#: Where its authors keep it.
ARCHIVE = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz"
WHERE = (
    f"Run 'spare data get waterbirds', or unpack {ARCHIVE} so that metadata.csv is in "
    f"{{folder}}/{OFFICIAL_FOLDER}."
)


def find(data: Path) -> Path | None:
    """The folder that holds metadata.csv."""
    places = (data / "waterbirds" / OFFICIAL_FOLDER, data / "waterbirds", data / OFFICIAL_FOLDER)
    return next((place for place in places if (place / "metadata.csv").is_file()), None)


def load(
    data: Path,
    seed: int,
    report: Report = lambda what, done, total: None,
    *,
    preparation: Preparation,
) -> Task:
    root = find(data)
    if root is None:
        raise DataError(f"there is no Waterbirds in {data}. {where(data)}")
    listing = listing_of(root)
    check_counts("waterbirds", root, group_counts(listing), COUNTS)
    return image_task("waterbirds", listing, preparation, report=report)


def listing_of(root: Path) -> Listing:
    listing = read_listing(
        root / "metadata.csv", path="img_filename", label="y", split="split", attributes=("place",)
    )
    return renamed(listing, root / "metadata.csv", CLASSES, {"place": PLACES})


def renamed(
    listing: Listing,
    path: Path,
    class_names: tuple[str, ...],
    attribute_values: dict[str, tuple[str, ...]],
) -> Listing:
    """Words for the numbers of an official table, after a check that there are no others."""
    wanted = {"y": (listing.class_names, class_names)}
    for name, words in attribute_values.items():
        wanted[name] = (listing.attribute_values[name], words)
    for name, (found, words) in wanted.items():
        if len(found) != len(words):
            raise DataError(
                f"{path} has {len(found)} values in column {name!r} ({', '.join(found)}) instead "
                f"of the official {len(words)}."
            )
    return replace(listing, class_names=class_names, attribute_values=attribute_values)


def get(data: Path, say: Callable[[str], None]) -> Path:
    """Make sure that Waterbirds is under `data`: what is there, else its authors' archive."""
    found = find(data)
    if found is None:
        found = data / "waterbirds" / OFFICIAL_FOLDER
        say(f"fetching {ARCHIVE}")
        fetch_archive(ARCHIVE, found, OFFICIAL_FOLDER)
    check_counts("waterbirds", found, group_counts(listing_of(found)), COUNTS)
    return found


def where(data: Path) -> str:
    return WHERE.format(folder=data / "waterbirds")


def present(data: Path) -> bool:
    return find(data) is not None
