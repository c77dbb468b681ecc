"""Images taken apart: whole, only the shortcut, only what should matter; as the network sees them.

Digits lose their color, or their shape; images with segmentation masks their foreground, or their
background, in whose place is gray.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.errors import DataError, InputError
from spare.images.decode import BadImage, Geometry, decode_to
from spare.images.decoded import read_image
from spare.theory.colored_digits import color_only, digit_only
from spare.theory.early import Early

#: Gray, for a network whose inputs are normalized.
GRAY = 0.0
#: Images that the typical shape of a digit is taken from.
TYPICAL = 2000


@dataclass(frozen=True)
class Parts:
    """Some images, whole and taken apart."""

    full: Tensor
    shortcut: Tensor
    core: Tensor
    #: What is left in each, in words.
    words: tuple[str, str]


def digits_apart(early: Early, rows: np.ndarray, color: Tensor) -> Parts:
    """Training images of Colored MNIST, all of one color."""
    inputs = early.task.train.inputs
    full = inputs.take(rows)
    typical = inputs.take(np.arange(min(len(inputs), TYPICAL)))
    shortcut = color_only(full, color.expand(len(rows), -1), typical)
    return Parts(full, shortcut, digit_only(full), ("color only", "digit only"))


def masked_apart(early: Early, rows: np.ndarray, masks: Path) -> Parts:
    """Training images with a mask each: `masks`/NAME.png for the image NAME.jpg."""
    full = early.task.train.inputs.take(rows)
    inside = _masks(masks, early, rows, full)
    gray = torch.full_like(full, GRAY)
    return Parts(
        full,
        torch.where(inside, gray, full),
        torch.where(inside, full, gray),
        ("background only", "foreground only"),
    )


def _masks(folder: Path, early: Early, rows: np.ndarray, full: Tensor) -> Tensor:
    """Where the foreground is, in the network's view of these images."""
    choices = early.plan.choices
    if "resize" not in choices or "train" not in early.task.names:
        raise InputError(
            f"{early.task.name} is not made of image files, so that masks do not go with it: name "
            f"a task of images."
        )
    if not folder.is_dir():
        raise DataError(f"there is no folder of masks {folder}: name one with --set masks=FOLDER.")
    geometry = Geometry(choices["resize"], keep_aspect=choices["keep_aspect"])
    side = full.shape[-1]
    inside = torch.zeros(len(rows), 1, side, side, dtype=torch.bool)
    for number, row in enumerate(rows):
        path = folder / Path(early.task.names["train"][row]).with_suffix(".png")
        if not path.is_file():
            raise DataError(f"there is no mask {path}: put one there for every image of the class.")
        try:
            mask = decode_to(read_image(path), geometry).pixels
        except BadImage as error:
            raise DataError(f"the mask {path} cannot be read: {error}.") from error
        start = (mask.shape[-1] - side) // 2
        inside[number] = mask[:1, start : start + side, start : start + side] > 127
    return inside
