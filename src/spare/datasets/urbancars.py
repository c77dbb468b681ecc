"""UrbanCars (Li et al., 2023): urban or country cars, with two shortcuts at once.

Official layout: bg-0.95_co_occur_obj-0.95/train and bg-0.5_co_occur_obj-0.5/{val,test}, each with
eight folders obj-X_bg-X_co_occur_obj-X, X urban or country, of *.jpg (beside them masks as png).
`spare data draw urbancars` draws a data set in the same layout.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing, check_counts, group_counts
from spare.datasets.preparation import Preparation
from spare.errors import DataError
from spare.progress import SILENT, Progress

VALUES = ("urban", "country")
SHORTCUTS = {"bg": (0, 1), "co_occur_obj": (0, 1)}
STRENGTHS = re.compile(r"bg-([\d.]+)_co_occur_obj-([\d.]+)")
GROUP = re.compile(r"obj-(\w+?)_bg-(\w+?)_co_occur_obj-(\w+)")
WHERE = (
    "UrbanCars is made by its authors' scripts (github.com/facebookresearch/Whac-A-Mole) from "
    "three public data sets; put its folders bg-0.95_co_occur_obj-0.95 and bg-0.5_co_occur_obj-0.5 "
    "in {folder}, or draw a set of the same layout with: spare data draw urbancars."
)


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
) -> Task:
    root = data / "urbancars"
    if not present(data):
        raise DataError(f"there is no UrbanCars in {data}. {where(data)}")
    listing = listing_of(root)
    check_counts("urbancars", root, group_counts(listing), official_counts())
    return image_task("urbancars", listing, preparation, shortcuts=SHORTCUTS, progress=progress)


def official_counts() -> dict[str, int]:
    counts = {}
    for obj in VALUES:
        for bg in VALUES:
            for co in VALUES:
                aligned = (bg == obj) + (co == obj)
                name = f"{obj}/{bg}/{co}"
                counts[f"train {name}"] = {2: 3610, 1: 190, 0: 10}[aligned]
                counts[f"val {name}"] = counts[f"test {name}"] = 125
    return counts


def listing_of(root: Path) -> Listing:
    names: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    for number, folder in enumerate(_split_folders(root)):
        if folder is None:
            continue
        for group in sorted(p for p in folder.iterdir() if p.is_dir()):
            match = GROUP.fullmatch(group.name)
            if match is None or any(value not in VALUES for value in match.groups()):
                raise DataError(
                    f"{group} is not a folder of UrbanCars: name it like "
                    f"obj-urban_bg-urban_co_occur_obj-urban."
                )
            values = tuple(VALUES.index(value) for value in match.groups())
            for file in sorted(group.glob("*.jpg")):
                names.append(file.relative_to(root).as_posix())
                rows.append((number, *values))  # type: ignore[arg-type]
    if not names:
        raise DataError(f"there are no images (*.jpg) below {root}.")
    splits, labels, bg, co = np.array(rows, dtype=np.int64).T
    return Listing(
        root=root,
        names=names,
        labels=labels,
        splits=splits,
        class_names=VALUES,
        attributes={"bg": bg, "co_occur_obj": co},
        attribute_values=dict.fromkeys(SHORTCUTS, VALUES),
    )


def _split_folders(root: Path) -> list[Path | None]:
    """train, val and test: each below the folder named after the strengths of its shortcuts."""
    folders: list[Path | None] = []
    for split in ("train", "val", "test"):
        tops = [p for p in sorted(root.iterdir()) if STRENGTHS.fullmatch(p.name)]
        candidates = [p / split for p in tops if (p / split).is_dir()]
        if len(candidates) > 1:
            both = " and ".join(str(path.relative_to(root)) for path in candidates[:2])
            raise DataError(f"{root} has more than one {split} split ({both}): keep one of them.")
        folders.append(candidates[0] if candidates else None)
    return folders


def where(data: Path) -> str:
    return WHERE.format(folder=data / "urbancars")


def present(data: Path) -> bool:
    root = data / "urbancars"
    return root.is_dir() and _split_folders(root)[0] is not None
