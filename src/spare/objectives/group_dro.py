"""Group DRO's loss: the groups with the largest loss count most.

Sagawa, Koh, Hashimoto, Liang: Distributionally Robust Neural Networks for Group Shifts, ICLR 2020.
With L_g the mean loss of group g in the batch (0 where the batch has none of it), n_g its size in
training, K the adjustment:

    q_g <- q_g exp(eta (L_g + K / sqrt(n_g)));  q <- q / sum q
    loss = sum_g q_g L_g                                   no gradient through q

A group that is absent from the batch still gains by its adjustment, as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class GroupDro(nn.Module):
    """Holds q, so that a checkpoint has it."""

    q: Tensor
    _codes: Tensor
    _extra: Tensor

    def __init__(self, groups: Any, eta: float = 0.01, adjustment: float = 0.0):
        super().__init__()
        names, codes, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
        self.eta = eta
        extra = adjustment / torch.as_tensor(sizes, dtype=torch.float32).sqrt()
        # What a run is made with need not be in its checkpoint, but moves with q to a device.
        self.register_buffer("_codes", torch.as_tensor(codes), persistent=False)
        self.register_buffer("_extra", extra, persistent=False)
        self.register_buffer("q", torch.full((len(names),), 1 / len(names)))

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        losses = nn.functional.cross_entropy(model(x), y, reduction="none")
        return self.weighted(losses, self._codes[index])

    def weighted(self, losses: Tensor, groups: Tensor) -> Tensor:
        """The loss of a batch; moves q."""
        counts = torch.bincount(groups, minlength=len(self.q))
        means = torch.zeros_like(self.q).index_add(0, groups, losses) / counts.clamp(min=1)
        with torch.no_grad():
            grown = self.q * torch.exp(self.eta * (means + self._extra))
            self.q.copy_(grown / grown.sum())
        return (self.q * means).sum()
