"""Examples as people see them."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import ConcatInputs, Inputs, SubsetInputs


def pictures(inputs: Inputs, indices: np.ndarray) -> Tensor | None:
    """These examples as (n, 3, height, width) bytes; None if they are not images.

    What is done to pixels only for the network's sake (`finish`) is left out.
    """
    if isinstance(inputs, SubsetInputs):
        return pictures(inputs.inputs, inputs.rows_of(indices))
    if isinstance(inputs, ConcatInputs):
        return _pictures_of_parts(inputs, indices)
    unfinished = inputs
    if getattr(inputs, "finish", None) is not None:
        unfinished = copy.copy(inputs)
        unfinished.finish = None  # type: ignore[attr-defined]
    pixels = unfinished.take(indices)
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        return None
    if pixels.dtype != torch.uint8:
        low = pixels.amin(dim=(1, 2, 3), keepdim=True)
        high = pixels.amax(dim=(1, 2, 3), keepdim=True)
        if low.min() < 0 or high.max() > 1:  # normalized in some way: show the full range
            pixels = (pixels - low) / (high - low).clamp(min=1e-6)
        pixels = (pixels * 255).round().to(torch.uint8)
    return pixels.expand(-1, 3, -1, -1)


def _pictures_of_parts(inputs: ConcatInputs, indices: np.ndarray) -> Tensor | None:
    pixels = []
    for index in indices:
        part = int(np.searchsorted(inputs.starts, index, side="right")) - 1
        picture = pictures(inputs.parts[part], np.array([index - inputs.starts[part]]))
        if picture is None:
            return None
        pixels.append(picture)
    return torch.cat(pixels)
