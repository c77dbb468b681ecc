"""Numbers that describe an image without knowing what is in it, to compare clusters by."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: Brightness as the eye weights the colors.
LUMINANCE = (0.299, 0.587, 0.114)


def image_statistics(pixels: Tensor) -> dict[str, np.ndarray]:
    """Statistics of images (bytes, n x 3 x height x width), each with one number per image.

    Returns
    -------
    dict
        By name: brightness, the mean luminance (0 to 1); contrast, the standard deviation of the
        luminance; red, green and blue, each color's share of the light (a third each where there is
        no color); sharpness, the mean difference of neighboring pixels, relative to the contrast.
    """
    light = pixels.float() / 255
    weights = torch.tensor(LUMINANCE).view(1, 3, 1, 1)
    gray = (light * weights).sum(1)
    brightness, contrast = gray.mean((1, 2)), gray.std((1, 2), unbiased=False)
    colors = light.mean((2, 3))
    shares = (colors + 1e-6) / (colors + 1e-6).sum(1, keepdim=True)
    across = (gray[:, :, 1:] - gray[:, :, :-1]).abs().mean((1, 2))
    down = (gray[:, 1:] - gray[:, :-1]).abs().mean((1, 2))
    statistics = {
        "brightness": brightness,
        "contrast": contrast,
        "red": shares[:, 0],
        "green": shares[:, 1],
        "blue": shares[:, 2],
        "sharpness": (across + down) / (contrast + 1e-6),
    }
    return {name: values.double().numpy() for name, values in statistics.items()}


def size_statistics(sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics of the sizes of images (n x 2, height and width), each with one number per image.

    `size` is the side of a square with as many pixels, `shape` is width over height.

    >>> size_statistics(np.array([[100, 400]]))
    {'size': array([200.]), 'shape': array([4.])}
    """
    height, width = sizes.T.astype(np.float64)
    return {"size": np.sqrt(height * width), "shape": width / height}
