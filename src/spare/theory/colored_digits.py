"""Colored MNIST taken apart: the color without the digit, and the digit without the color.

The color alone is one shape for all classes, where the mean of the digits is brightest, in the
color of the image. The digit alone is white: every color of the palettes has a channel at its
maximum, so the largest channel is the digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.datasets import cmnist, data_root

#: Of the brightest pixel of the mean digit: above this a pixel belongs to the shape.
FOREGROUND = 0.5
#: Black, as the network sees it.
BLACK = -1.0
PARTS = {"full": "full images", "color": "color only", "digit": "digit only"}


def digit_only(images: Tensor) -> Tensor:
    """Images (n, 3, h, w) between -1 and 1 without their color."""
    return images.amax(1, keepdim=True).expand_as(images).contiguous()


def color_only(images: Tensor, colors: Tensor, typical: Tensor) -> Tensor:
    """Images of one shape in the colors (n, 3) of these; the shape is that of typical images."""
    mean = digit_only(typical)[:, 0].mean(0) - BLACK
    shape = mean > FOREGROUND * mean.max()
    black = torch.full_like(images, BLACK)
    return torch.where(shape, colors[:, :, None, None].to(images.dtype), black)


def palette_colors(palette: str) -> Tensor:
    """The colors of a palette, as the network sees them: between -1 and 1."""
    codes = torch.tensor([list(bytes.fromhex(code)) for code in cmnist.PALETTES[palette]])
    return codes / 127.5 - 1


def versions(
    data: Path | None, seed: int, palette: str, classes: Sequence[int], count: int, side: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Images of two classes in three versions, centered and of norm sqrt(d); and labels +1, -1."""
    # Two of five classes: four times as many examples have enough of them.
    size = min(4 * count, cmnist.TRAIN_SIZE)
    task = cmnist.load(data_root(data), seed, palette=palette, train_size=size)
    labels = np.asarray(task.train.labels)
    assert task.train.attributes is not None
    colors = np.asarray(task.train.attributes["color"])
    rows = np.flatnonzero(np.isin(labels, classes))[:count]
    images = task.train.inputs.take(rows).double()
    of_images = palette_colors(palette)[torch.from_numpy(colors[rows])]
    pictures = {
        "full": images,
        "color": color_only(images, of_images, images),
        "digit": digit_only(images),
    }
    flat = {name: _smaller(each, side).flatten(1) for name, each in pictures.items()}
    center = flat["full"].mean(0)
    scaled = {}
    for name, each in flat.items():
        around = each - center
        scaled[name] = around * math.sqrt(len(center)) / around.norm(dim=1, keepdim=True)
    return scaled, torch.from_numpy(np.where(labels[rows] == classes[0], 1.0, -1.0))


def _smaller(images: Tensor, side: int) -> Tensor:
    if side == images.shape[-1]:
        return images
    return torch.nn.functional.interpolate(images, size=(side, side), mode="area")
