"""Small pictures of chosen examples, many in one image, which the page holds as text."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spare.errors import SpareError
from spare.inputs import Inputs, pictures

SIDE = 48
QUALITY = 70


@dataclass(frozen=True)
class Sprite:
    """One image with `count` small ones, row by row."""

    data: str
    columns: int
    count: int
    #: Pictures that could not be read, of which there is a grey square.
    missing: int


def sprite(inputs: Inputs, rows: np.ndarray) -> Sprite | None:
    """The pictures of these examples; None for data without pictures."""
    small: list[Tensor] = []
    missing = 0
    for row in rows:
        try:
            shown = pictures(inputs, np.array([row]))
        except (SpareError, OSError):  # its file is gone: the page goes on without it
            missing += 1
            small.append(torch.full((3, SIDE, SIDE), 128, dtype=torch.uint8))
            continue
        if shown is None:
            return None
        small.append(_fitted(shown[0]))
    if not small:
        return None
    columns = math.ceil(math.sqrt(len(small)))
    lines = math.ceil(len(small) / columns)
    sheet = torch.zeros((lines * SIDE, columns * SIDE, 3), dtype=torch.uint8)
    for i, picture in enumerate(small):
        top, left = i // columns * SIDE, i % columns * SIDE
        sheet[top : top + SIDE, left : left + SIDE] = picture.permute(1, 2, 0)
    return Sprite(_encoded(sheet), columns, len(small), missing)


def _fitted(picture: Tensor) -> Tensor:
    """The whole picture in a square of SIDE."""
    height, width = picture.shape[1:]
    larger = max(height, width)
    size = (max(1, round(height / larger * SIDE)), max(1, round(width / larger * SIDE)))
    smooth = larger > SIDE
    scaled = torch.nn.functional.interpolate(
        picture[None].float(),
        size,
        mode="bilinear" if smooth else "nearest",
        **({"antialias": True} if smooth else {}),
    )[0]
    square = torch.zeros((3, SIDE, SIDE), dtype=torch.uint8)
    top, left = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    square[:, top : top + size[0], left : left + size[1]] = scaled.round().clamp(0, 255).byte()
    return square


def _encoded(sheet: Tensor) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(sheet.numpy()).save(buffer, format="WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
