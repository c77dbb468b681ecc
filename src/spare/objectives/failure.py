"""LfF's loss: two networks, of which one learns from the failures of the other.

Nam, Cha, Ahn, Lee, Shin: Learning from Failure: De-biasing Classifier from Biased Classifier,
NeurIPS 2020. With l_b and l_d the cross-entropies of the biased and the debiased network on an
example, and p_b the biased network's probability of the label:

    b <- a b + (1 - a) l_b,   d <- a d + (1 - a) l_d      the first visit sets b = l_b, d = l_d
    W = b' / (b' + d' + 1e-8)      b', d': divided by the largest of all examples of the same class
    loss = mean of q p_b^q l_b + mean of W l_d            no gradient through p_b^q and W

So the biased network favors what it finds easy, and the debiased one what the biased finds hard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SMALL = 1e-8


class LearningFromFailure(nn.Module):
    """Holds the biased network and both averages, so that a checkpoint has them.

    Parameters
    ----------
    biased
        The second network, trained along by the same optimizer.
    labels
        Of all training examples, in order.
    q
        How much more the biased network favors what it finds easy.
    decay
        How much of an example's average loss is kept at each visit (a).
    """

    averages: Tensor
    visited: Tensor
    _labels: Tensor

    def __init__(self, biased: nn.Module, labels: Any, q: float = 0.7, decay: float = 0.7):
        super().__init__()
        self.biased = biased
        self.q, self.decay = q, decay
        all_labels = torch.as_tensor(np.asarray(labels, dtype=np.int64)).expand(2, -1)
        self._classes = int(all_labels.max()) + 1
        # The data has the labels, so a checkpoint need not.
        self.register_buffer("_labels", all_labels, persistent=False)
        # Row 0 is b, row 1 is d. A loss is never negative, so the 0 of an example that was not
        # visited yet is no class's largest.
        self.register_buffer("averages", torch.zeros(all_labels.shape))
        self.register_buffer("visited", torch.zeros(all_labels.shape[1], dtype=torch.bool))

    @property
    def networks(self) -> list[nn.Module]:
        """Through which the inputs pass too."""
        return [self.biased]

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        losses = torch.stack(
            [
                nn.functional.cross_entropy(network(x), y, reduction="none")
                for network in (self.biased, model)
            ]
        )
        rows = torch.as_tensor(index, device=x.device)
        with torch.no_grad():
            easy = self.q * torch.exp(-self.q * losses[0])  # p_b = exp(-l_b)
            self.remember(losses, rows)
            hard = self.weights(rows)
        return (easy * losses[0]).mean() + (hard * losses[1]).mean()

    def remember(self, losses: Tensor, rows: Tensor) -> None:
        """Move the averages of these examples toward their losses, (2, examples)."""
        moved = self.decay * self.averages[:, rows] + (1 - self.decay) * losses
        self.averages[:, rows] = torch.where(self.visited[rows], moved, losses)
        self.visited[rows] = True

    def weights(self, rows: Tensor) -> Tensor:
        """W of these examples."""
        zeros = self.averages.new_zeros(2, self._classes)
        largest = zeros.scatter_reduce(1, self._labels, self.averages, "amax")
        largest = largest.clamp(min=torch.finfo(torch.float32).tiny)
        b, d = (self.averages[:, rows] / largest.gather(1, self._labels[:, rows])).unbind()
        weights: Tensor = b / (b + d + SMALL)
        return weights
