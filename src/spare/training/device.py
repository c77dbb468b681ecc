"""Where tensors live and in which precision they are computed: nothing else knows of a device.

Inputs, labels and what is kept of outputs are on the host, as NumPy sees them; models, and a batch
while it is computed with, are on the device.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

#: The only one so far. One with a random generator of its own adds that to the functions below.
DEVICES = ("cpu",)
#: Where NumPy and people look at tensors.
HOST = torch.device("cpu")
PRECISIONS = ("float32", "bfloat16")


def to_host(tensor: Tensor) -> Tensor:
    """The same values where NumPy can see them, in float32 if they are floats of fewer bits."""
    host = tensor.detach().to(HOST)
    return host.float() if host.dtype in (torch.bfloat16, torch.float16) else host


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within it, forward passes compute in this precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def own_random_state() -> AbstractContextManager[None]:
    """Within it, torch's generator can be seeded and used without changing it for anyone else."""
    return torch.random.fork_rng(devices=[])


def random_state() -> Tensor:
    """The state of torch's generator, for a checkpoint."""
    return torch.get_rng_state()


def set_random_state(state: Tensor) -> None:
    torch.set_rng_state(state)
