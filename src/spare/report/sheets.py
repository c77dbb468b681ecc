"""Sheets of pictures: one PNG per class, with one row of examples per cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.data.task import Task
from spare.data.viewing import pictures
from spare.files.writing import write_atomic
from spare.records.groups_file import GroupTable
from spare.records.layout import sheet_name
from spare.records.record import DiscoveryRecord

COLUMNS = 12
SIDE = 96
GAP = 4


def write_sheets(
    folder: Path, task: Task, record: DiscoveryRecord, table: GroupTable | None
) -> dict[str, str]:
    """Write a sheet for every class of a folder's record, rows from the largest cluster down.

    Returns
    -------
    dict
        The name of each class's file; {} for data without pictures.
    """
    if table is None or pictures(task.train.inputs, np.arange(1)) is None:
        return {}
    written: dict[str, str] = {}
    rng = np.random.default_rng([record["seed"], 0x5EE7])
    cluster = 0
    for class_name, groups in (record["discovery"] or {}).items():
        strips = []
        for _ in groups["sizes"]:
            examples = np.flatnonzero(table.clusters == cluster)
            chosen = rng.permutation(examples)[:COLUMNS]
            pixels = pictures(task.train.inputs, np.sort(chosen))
            assert pixels is not None
            strips.append(_strip(pixels))
            cluster += 1
        name = sheet_name(task.class_names.index(class_name))
        _write_png(folder / name, torch.cat(strips, dim=0))
        written[class_name] = name
    return written


def _write_png(path: Path, pixels: Tensor) -> None:
    from PIL import Image

    image = Image.fromarray(pixels.numpy())
    write_atomic(path, lambda temporary: image.save(temporary, format="PNG"))


def _strip(pixels: Tensor) -> Tensor:
    """(n, 3, h, w) as one row of COLUMNS pictures, (SIDE + GAP, width, 3)."""
    small = torch.nn.functional.interpolate(pixels.float(), size=(SIDE, SIDE), mode="nearest")
    strip = torch.full((SIDE + GAP, COLUMNS * (SIDE + GAP), 3), 255, dtype=torch.uint8)
    for i, image in enumerate(small.to(torch.uint8)):
        left = i * (SIDE + GAP)
        strip[:SIDE, left : left + SIDE] = image.permute(1, 2, 0)
    return strip
