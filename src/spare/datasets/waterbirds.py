"""Waterbirds (Sagawa et al., 2020): land and water birds pasted onto land and water.

Official files: metadata.csv with img_filename, y (1 water bird), split (0, 1, 2) and place (1
water), and the images below the same folder. In training 95 % of the birds have the background of
their class; in val and test half of each class.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spare.data.task import Task
from spare.datasets.archives import fetch_archive
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing, check_counts, group_counts
from spare.datasets.manifest import ImageColumns, read_listing
from spare.datasets.preparation import Preparation
from spare.errors import DataError
from spare.progress import SILENT, Progress

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
#: sha256 of what metadata.csv says of the 11,788 images: see `content_of`. Its authors publish no
#: checksum of the archive, so the pixels themselves are not checked.
CONTENT = "0fa5598b6749e368c171fab4c3fcb5da66750fe0338caf6a771cf46485d77f1a"
#: Where its authors keep it.
ARCHIVE = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz"
WHERE = (
    f"Run 'spare data get waterbirds', or unpack {ARCHIVE} so that metadata.csv is in "
    f"{{folder}}/{OFFICIAL_FOLDER}."
)


def find(data: Path) -> Path | None:
    """The folder that holds metadata.csv."""
    candidates = (
        data / "waterbirds" / OFFICIAL_FOLDER,
        data / "waterbirds",
        data / OFFICIAL_FOLDER,
    )
    return next((path for path in candidates if (path / "metadata.csv").is_file()), None)


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
) -> Task:
    root = find(data)
    if root is None:
        raise DataError(f"there is no Waterbirds in {data}. {where(data)}")
    listing = listing_of(root)
    check_counts("waterbirds", root, group_counts(listing), COUNTS)
    return image_task(
        "waterbirds", listing, preparation, shortcuts={"place": (0, 1)}, progress=progress
    )


def listing_of(root: Path) -> Listing:
    columns = ImageColumns("y", "split", ("place",), path="img_filename")
    listing = read_listing(root / "metadata.csv", columns)
    return _with_names(listing, root / "metadata.csv", CLASSES, {"place": PLACES})


def _with_names(
    listing: Listing,
    path: Path,
    class_names: tuple[str, ...],
    attribute_values: dict[str, tuple[str, ...]],
) -> Listing:
    """Names for the numbers of an official table, after a check that there are no others."""
    expected = {"y": (listing.class_names, class_names)}
    for name, names in attribute_values.items():
        expected[name] = (listing.attribute_values[name], names)
    for name, (values, names) in expected.items():
        if len(values) != len(names):
            raise DataError(
                f"{path} has {len(values)} values in column {name!r} ({', '.join(values)}) instead "
                f"of the official {len(names)}: get the official table."
            )
    return replace(listing, class_names=class_names, attribute_values=attribute_values)


def get(data: Path, say: Callable[[str], None]) -> Path:
    """Where Waterbirds is below `data`, after fetching its authors' archive if necessary."""
    folder = find(data)
    if folder is None:
        folder = data / "waterbirds" / OFFICIAL_FOLDER
        say(f"fetching {ARCHIVE}")
        fetch_archive(ARCHIVE, folder, OFFICIAL_FOLDER, _check_content)
    check_counts("waterbirds", folder, group_counts(listing_of(folder)), COUNTS)
    return folder


def content_of(listing: Listing) -> str:
    """A hash of every image's name, class, split and background, in any order of the rows."""
    rows = zip(
        listing.names,
        listing.labels.tolist(),
        listing.splits.tolist(),
        listing.attributes["place"].tolist(),
        strict=True,
    )
    lines = ("\t".join(map(str, row)) + "\n" for row in sorted(rows))
    return hashlib.sha256("".join(lines).encode(errors="surrogatepass")).hexdigest()


def _check_content(folder: Path) -> None:
    """Refuse an archive with other images, labels, splits or backgrounds than the official ones."""
    if content_of(listing_of(folder)) != CONTENT:
        raise DataError(
            f"{ARCHIVE} is not the official data: its metadata.csv names other images, classes, "
            f"splits or backgrounds, so nothing was kept; get the data by hand."
        )


def where(data: Path) -> str:
    return WHERE.format(folder=data / "waterbirds")


def present(data: Path) -> bool:
    return find(data) is not None
