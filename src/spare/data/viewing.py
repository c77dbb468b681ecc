"""Examples as people see them."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import ConcatInputs, Inputs, SubsetInputs


def pictures(inputs: Inputs, indices: np.ndarray) -> Tensor | None:
    """These examples as people see them: (n, 3, height, width) bytes; None if they are no images.

    What is done to pixels only for a network's sake (`finish`) is left out.
    """
    if isinstance(inputs, SubsetInputs):
        return pictures(inputs.inputs, inputs.places(indices))
    if isinstance(inputs, ConcatInputs):
        return _pictures_of_parts(inputs, indices)
    plain = inputs
    if getattr(inputs, "finish", None) is not None:
        plain = copy.copy(inputs)
        plain.finish = None  # type: ignore[attr-defined]
    seen = plain.take(indices)
    if seen.ndim != 4 or seen.shape[1] not in (1, 3):
        return None
    if seen.dtype != torch.uint8:
        low, high = seen.amin(dim=(1, 2, 3), keepdim=True), seen.amax(dim=(1, 2, 3), keepdim=True)
        if low.min() < 0 or high.max() > 1:  # in no range that is known
            seen = (seen - low) / (high - low).clamp(min=1e-6)
        seen = (seen * 255).round().to(torch.uint8)
    return seen.expand(-1, 3, -1, -1)


def _pictures_of_parts(inputs: ConcatInputs, indices: np.ndarray) -> Tensor | None:
    found = []
    for index in indices:
        part = int(np.searchsorted(inputs.starts, index, side="right")) - 1
        one = pictures(inputs.parts[part], np.array([index - inputs.starts[part]]))
        if one is None:
            return None
        found.append(one)
    return torch.cat(found)
