"""Where tensors live and in which precision they are computed: nothing else knows of a device.

Inputs, labels and what is kept of outputs are on the host, as NumPy sees them; models, and a batch
while it is computed with, are on the device.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from spare.models.classifier import device_of

__all__ = ["DEVICES", "PRECISIONS", "device_of", "in_precision", "to_host"]

DEVICES = ("cpu",)
PRECISIONS = ("float32", "bfloat16")


def to_host(tensor: Tensor) -> Tensor:
    """The same values where NumPy can see them, in float32 if they are floats of fewer bits."""
    host = tensor.detach().cpu()
    return host.float() if host.dtype in (torch.bfloat16, torch.float16) else host


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within it, forward passes compute in this precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
