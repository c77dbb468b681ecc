"""PGI's loss: within a class, predictions should not depend on the group.

Ahmed, Bengio, van Seijen, Courville: Systematic Generalisation with Group Invariant Predictions,
ICLR 2021. With b = 1 for the minority, else 0, and q_b the mean softmax over a class's examples
with this b in the batch:

    loss = 1/2 mean of l over b=0 + 1/2 mean of l over b=1
           + w(t) 1/C sum_c KL(q_1 || q_0)      w grows from 0 over the first epochs

The gradient of the second line reaches the features only, not the last layer. A class without
examples of both kinds in the batch has no term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.models import Classifier

#: Probabilities are clipped to this before their logarithm is taken.
LEAST = 1e-12


class GroupInvariance(nn.Module):
    """Counts its steps, so that w continues to grow where it was in a resumed run."""

    steps: Tensor
    _minority: Tensor

    def __init__(self, minority: Any, weight: float, grow_steps: int):
        super().__init__()
        self.weight, self.grow_steps = weight, grow_steps
        in_minority = torch.as_tensor(np.asarray(minority, dtype=bool))
        self.register_buffer("_minority", in_minority, persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        assert isinstance(model, Classifier)
        hidden = model.features(x)
        minority = self._minority[index]
        losses = nn.functional.cross_entropy(model.head(hidden), y, reduction="none")
        parts = [losses[rows].mean() for rows in (~minority, minority) if rows.any()]
        grown = min(1.0, int(self.steps) / max(self.grow_steps, 1))
        self.steps += 1
        loss = torch.stack(parts).mean()
        if grown == 0 or self.weight == 0:
            return loss
        return loss + self.weight * grown * self.penalty(model.head, hidden, y, minority)

    @staticmethod
    def penalty(head: nn.Linear, hidden: Tensor, y: Tensor, minority: Tensor) -> Tensor:
        """The mean divergence over all classes of the head, with the head's weights held fixed."""
        bias = None if head.bias is None else head.bias.detach()
        probabilities = nn.functional.linear(hidden, head.weight.detach(), bias).softmax(1)
        total = torch.zeros((), device=hidden.device)
        for label in torch.unique(y):
            q1, q0 = (probabilities[(y == label) & rows] for rows in (minority, ~minority))
            if len(q1) and len(q0):
                q1, q0 = q1.mean(0).clamp(min=LEAST), q0.mean(0).clamp(min=LEAST)
                total = total + (q1 * (q1 / q0).log()).sum()
        return total / head.out_features
