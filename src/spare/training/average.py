"""A moving average of a model's weights, updated as flat lists of tensors."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from spare.training.device import HOST


class MovingAverage(nn.Module):
    """A copy of a model whose weights follow those of the model, and whose buffers equal them.

    Before the first update the copy has the model's initial weights; the first update copies, each
    later one moves every weight by `1 - decay` of its distance. Nothing is walked at an update:
    for a small network that would take a tenth of a step.
    """

    n_averaged: Tensor

    def __init__(self, model: nn.Module, decay: float):
        super().__init__()
        self.module = copy.deepcopy(model)
        # On the host, so that asking for it never waits for a device.
        self.register_buffer("n_averaged", torch.zeros((), dtype=torch.long, device=HOST))
        self.decay = decay
        pairs = list(zip(self.module.parameters(), model.parameters(), strict=True))
        self._moving = _columns([pair for pair in pairs if pair[0].is_floating_point()])
        self._fixed = _columns([pair for pair in pairs if not pair[0].is_floating_point()])
        # By owner and name: a module may replace a buffer by another tensor.
        modules = zip(self.module.modules(), model.modules(), strict=True)
        self._buffers_of = [
            (mine._buffers, its._buffers, name) for mine, its in modules for name in mine._buffers
        ]

    @torch.no_grad()
    def update(self) -> None:
        """Follow the model by one step."""
        count = self.n_averaged
        if not count:
            _copy(*self._moving)
        elif self._moving[0]:
            torch._foreach_lerp_(*self._moving, 1 - self.decay)
        _copy(*self._fixed)
        buffers = ((mine[name], its[name]) for mine, its, name in self._buffers_of)
        _copy(*_columns([(a, b) for a, b in buffers if a is not None and b is not None]))
        count.add_(1)  # in place: a module's attribute takes longer to set than weights to move


def _columns(pairs: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return [mine for mine, _ in pairs], [its for _, its in pairs]


def _copy(mine: list[Tensor], its: list[Tensor]) -> None:
    for kept, now in zip(mine, its, strict=True):
        kept.copy_(now)
