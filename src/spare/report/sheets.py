"""Sheets of pictures: one PNG a class, a row of examples for each of its clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.data.task import Task
from spare.data.viewing import pictures
from spare.files import write_atomic
from spare.groups.result import Groups

COLUMNS = 12
SIDE = 96
GAP = 4


def write_sheets(folder: Path, task: Task, groups: Groups, seed: int) -> dict[str, str]:
    """A sheet for every class, rows from the largest cluster down; {} for data without pictures."""
    example = pictures(task.train.inputs, np.arange(1))
    if example is None:
        return {}
    written: dict[str, str] = {}
    rng = np.random.default_rng([seed, 0x5EE7])
    for label, seen in groups.evidence.items():
        rows = []
        for group in seen.ids:
            own = np.flatnonzero(groups.ids == group)
            shown = rng.permutation(own)[:COLUMNS]
            pixels = pictures(task.train.inputs, np.sort(shown))
            assert pixels is not None
            rows.append(_row(pixels))
        name = f"class-{label}.png"
        _write_png(folder / name, torch.cat(rows, dim=0))
        written[task.class_names[label]] = name
    return written


def _write_png(path: Path, pixels: Tensor) -> None:
    from PIL import Image

    image = Image.fromarray(pixels.numpy())
    write_atomic(path, lambda temporary: image.save(temporary, format="PNG"))


def _row(pixels: Tensor) -> Tensor:
    """(n, 3, h, w) as one strip of COLUMNS places, (SIDE, width, 3)."""
    small = torch.nn.functional.interpolate(pixels.float(), size=(SIDE, SIDE), mode="nearest")
    strip = torch.full((SIDE + GAP, COLUMNS * (SIDE + GAP), 3), 255, dtype=torch.uint8)
    for i, image in enumerate(small.to(torch.uint8)):
        left = i * (SIDE + GAP)
        strip[:SIDE, left : left + SIDE] = image.permute(1, 2, 0)
    return strip
