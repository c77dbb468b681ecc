"""Restricted ImageNet (Santurkar et al.): nine super-classes of ImageNet's 1,000 classes.

Official files: train/<wnid>/ and val/<wnid>/ of ImageNet (ILSVRC 2012). A super-class is a range of
the sorted wnids. Nobody published group labels: a CSV with columns path and group may give
backgrounds, which are used only for scores. ImageNet's val folder is divided into val and test.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing, check_counts
from spare.datasets.preparation import Preparation
from spare.datasets.tables import column, read_table
from spare.datasets.words import MISSING, as_text, encode, unpacked
from spare.errors import DataError
from spare.images.imagenet import RANGES, WNIDS
from spare.progress import SILENT, Progress

TRAIN_COUNTS = (147873, 6500, 3900, 6500, 27141, 23400, 11234, 5200, 26000)
PER_WNID = 50
WHERE = (
    "ImageNet (ILSVRC 2012) needs an account at image-net.org; put its train/<wnid>/ and "
    "val/<wnid>/ folders in {folder}."
)


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    backgrounds: str = "",
) -> Task:
    """The task of nine super-classes.

    `backgrounds` is a CSV with columns path (such as train/n0123/x.JPEG) and group; empty for none.
    """
    if not present(data):
        raise DataError(f"there is no ImageNet in {data}. {where(data)}")
    listing = listing_of(data / "restricted_imagenet", backgrounds)
    counts = {
        f"train {name}": int(((listing.labels == i) & (listing.splits == 0)).sum())
        for i, name in enumerate(RANGES)
    }
    official = {f"train {n}": c for n, c in zip(RANGES, TRAIN_COUNTS, strict=True)}
    held_out = int((listing.splits > 0).sum())
    classes = sum(last - first + 1 for first, last in RANGES.values())
    check_counts(
        "restricted_imagenet",
        data / "restricted_imagenet",
        counts | {"val folder": held_out},
        official | {"val folder": PER_WNID * classes},
    )
    return image_task("restricted_imagenet", listing, preparation, progress=progress)


def listing_of(root: Path, backgrounds: str) -> Listing:
    names: list[str] = []
    labels: list[int] = []
    splits: list[int] = []
    wnids = sorted(e.name for e in os.scandir(root / "train") if e.is_dir())
    if len(wnids) != WNIDS:
        raise DataError(
            f"{root / 'train'} has {len(wnids)} folders instead of ImageNet's {WNIDS}: the "
            f"super-classes are ranges of the sorted list of all of them."
        )
    for label, (first, last) in enumerate(RANGES.values()):
        for wnid in wnids[first : last + 1]:
            for folder in ("train", "val"):
                path = root / folder / wnid
                if not path.is_dir():
                    continue
                files = sorted(f.name for f in os.scandir(path) if f.name.endswith(".JPEG"))
                for i, file in enumerate(files):
                    names.append(f"{folder}/{wnid}/{file}")
                    labels.append(label)
                    splits.append(0 if folder == "train" else 1 + i % 2)
    groups = _groups(names, backgrounds) if backgrounds else None
    return Listing(
        root=root,
        names=names,
        labels=np.array(labels, dtype=np.int64),
        splits=np.array(splits, dtype=np.int64),
        class_names=tuple(RANGES),
        attributes={} if groups is None else {"background": groups[0]},
        attribute_values={} if groups is None else {"background": groups[1]},
    )


def _groups(names: list[str], file: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """The background of every image that the CSV names; the others are missing."""
    path = Path(file).expanduser()
    table = read_table(path, words=lambda names: ("path", "group"))
    columns = (
        as_text(unpacked(column(table, name, path.name)), name, path.name)
        for name in ("path", "group")
    )
    group_of = dict(zip(*columns, strict=True))
    known = set(names)
    foreign = [name for name in group_of if name not in known]
    if foreign:
        raise DataError(
            f"{len(foreign):,} paths of {path} are not images of this data set (the first is "
            f"{foreign[0]}): write them as train/n01440764/x.JPEG."
        )
    return encode([group_of.get(name) for name in names], MISSING)


def where(data: Path) -> str:
    return WHERE.format(folder=data / "restricted_imagenet")


def present(data: Path) -> bool:
    return (data / "restricted_imagenet" / "train").is_dir()
