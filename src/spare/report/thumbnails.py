"""Small pictures of chosen examples, many of them in one image, which a page holds as text."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import Inputs
from spare.data.viewing import pictures
from spare.errors import SpareError

SIDE = 48
QUALITY = 70


@dataclass(frozen=True)
class Sprite:
    """One image that holds `count` small ones, row by row."""

    data: str
    columns: int
    count: int
    #: Pictures that could not be read; a gray square stands for each.
    missing: int


def thumbnails(inputs: Inputs, rows: np.ndarray) -> Sprite | None:
    """The pictures of these examples; None for data without pictures."""
    shown = read_pictures(inputs, rows)
    return None if shown is None else make_sprite(shown, SIDE)


def read_pictures(inputs: Inputs, rows: np.ndarray) -> list[Tensor | None] | None:
    """The picture of each example, None where its file is gone; None for data without pictures."""
    shown: list[Tensor | None] = []
    for row in rows:
        try:
            picture = pictures(inputs, np.array([row]))
        except (SpareError, OSError):  # the page does without it
            shown.append(None)
            continue
        if picture is None:
            return None
        shown.append(picture[0])
    return shown or None


def make_sprite(shown: Sequence[Tensor | None], side: int) -> Sprite:
    """One image of all pictures, each in a square of `side`; gray where one is missing."""
    columns = math.ceil(math.sqrt(len(shown)))
    lines = math.ceil(len(shown) / columns)
    sheet = torch.zeros((lines * side, columns * side, 3), dtype=torch.uint8)
    for i, picture in enumerate(shown):
        top, left = i // columns * side, i % columns * side
        square = sheet[top : top + side, left : left + side]
        square[:] = 128 if picture is None else _fitted(picture, side).permute(1, 2, 0)
    missing = sum(picture is None for picture in shown)
    return Sprite(_encoded(sheet), columns, len(shown), missing)


def _fitted(picture: Tensor, side: int) -> Tensor:
    """The picture, all of it, in a square."""
    height, width = picture.shape[1:]
    larger = max(height, width)
    size = (max(1, round(height / larger * side)), max(1, round(width / larger * side)))
    smooth = larger > side
    scaled = torch.nn.functional.interpolate(
        picture[None].float(),
        size,
        mode="bilinear" if smooth else "nearest",
        **({"antialias": True} if smooth else {}),
    )[0]
    square = torch.zeros((3, side, side), dtype=torch.uint8)
    top, left = (side - size[0]) // 2, (side - size[1]) // 2
    square[:, top : top + size[0], left : left + size[1]] = scaled.round().clamp(0, 255).byte()
    return square


def _encoded(sheet: Tensor) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(sheet.numpy()).save(buffer, format="WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
