"""XRM's loss: two networks, of which each learns one half and imitates the other's sure mistakes.

Pezeshki, Bouchacourt, Ibrahim, Ballas, Vincent, Lopez-Paz: Discovering Environments with XRM, ICML
2024. Every training example is held in for one twin, which learns it, and held out for the other.
With C classes and p the softmax of the twin that an example is held out for:

    loss = mean cross-entropy of the held-in twin on the example's label, every class with the same
           mass
    then the label becomes argmax p with probability  (max p - 1/C) C / (C - 1)

The probability is 0 for a guess and 1 for certainty, so a label that a shortcut contradicts is soon
replaced by the one that the shortcut says, and both twins rely on the shortcut more and more. A
label stays replaced until the held-out twin is sure of another one. An example's mass is that of
the class that it really has, so that no class gains mass by being imitated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def flip_probabilities(logits: Tensor) -> Tensor:
    """How likely each label is replaced, given the logits of the twin that did not learn it.

    >>> flip_probabilities(torch.tensor([[0.0, 0.0], [0.0, 200.0]])).tolist()
    [0.0, 1.0]
    """
    classes = logits.shape[1]
    surest = logits.float().softmax(1).amax(1)
    return (surest - 1 / classes) * classes / (classes - 1)


class Twins(nn.Module):
    """Holds the second network and the labels as they are now, so that a checkpoint has them.

    Parameters
    ----------
    second
        The second twin, trained along by the same optimizer.
    labels
        Of all training examples, in order.
    held_by
        Which twin learns each of them: 0 for the model that is trained, 1 for `second`.
    """

    labels: Tensor
    _held_by: Tensor
    _mass: Tensor

    def __init__(self, second: nn.Module, labels: Any, held_by: Any):
        super().__init__()
        self.second = second
        given = torch.as_tensor(np.asarray(labels, dtype=np.int64))
        self.register_buffer("labels", given.clone())
        # The data and the seed say these, so a checkpoint need not.
        held_by = torch.as_tensor(np.asarray(held_by, dtype=np.int64))
        self.register_buffer("_held_by", held_by, persistent=False)
        self.register_buffer("_mass", 1 / torch.bincount(given).clamp(min=1), persistent=False)

    @property
    def networks(self) -> list[nn.Module]:
        """Through which the inputs pass too."""
        return [self.second]

    def forward(self, model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        logits = torch.stack([model(x), self.second(x)])
        rows = torch.as_tensor(index, device=x.device)
        held_by, columns = self._held_by[rows], torch.arange(len(index), device=x.device)
        held_in, held_out = logits[held_by, columns], logits[1 - held_by, columns]
        losses = nn.functional.cross_entropy(held_in, self.labels[rows], reduction="none")
        self.imitate(held_out.detach(), rows)
        mass = self._mass[y]
        return (mass * losses).sum() / mass.sum()

    def imitate(self, held_out: Tensor, rows: Tensor) -> None:
        """Replace labels of these examples by what the twins that did not learn them say."""
        # Drawn on the host, whose generator is in the checkpoint.
        chance = torch.rand(len(rows)).to(rows.device)
        flip = chance < flip_probabilities(held_out)
        self.labels[rows] = torch.where(flip, held_out.argmax(1), self.labels[rows])
