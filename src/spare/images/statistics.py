"""What can be said of a picture without knowing what is in it: numbers to compare clusters by."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: Brightness as the eye weights the colours.
LUMINANCE = (0.299, 0.587, 0.114)


def image_statistics(pixels: Tensor) -> dict[str, np.ndarray]:
    """One number a picture (n, 3, height, width; bytes) for each of:

    brightness   mean luminance, 0 to 1
    contrast     its standard deviation
    red, green, blue   each colour's share of the light; a third each where there is no colour
    sharpness    mean difference of neighbouring pixels, relative to the contrast
    """
    light = pixels.float() / 255
    weights = torch.tensor(LUMINANCE).view(1, 3, 1, 1)
    grey = (light * weights).sum(1)
    brightness, contrast = grey.mean((1, 2)), grey.std((1, 2), unbiased=False)
    colours = light.mean((2, 3))
    shares = (colours + 1e-6) / (colours + 1e-6).sum(1, keepdim=True)
    across = (grey[:, :, 1:] - grey[:, :, :-1]).abs().mean((1, 2))
    down = (grey[:, 1:] - grey[:, :-1]).abs().mean((1, 2))
    found = {
        "brightness": brightness,
        "contrast": contrast,
        "red": shares[:, 0],
        "green": shares[:, 1],
        "blue": shares[:, 2],
        "sharpness": (across + down) / (contrast + 1e-6),
    }
    return {name: values.double().numpy() for name, values in found.items()}


def size_statistics(sizes: np.ndarray) -> dict[str, np.ndarray]:
    """One number a picture from its height and width: its size in pixels, as the side of a square
    with as many, and its shape, width by height.

    >>> size_statistics(np.array([[100, 400]]))
    {'size': array([200.]), 'shape': array([4.])}
    """
    height, width = sizes.T.astype(np.float64)
    return {"size": np.sqrt(height * width), "shape": width / height}
