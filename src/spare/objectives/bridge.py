"""Bridge's loss: within a class, the features of majority and minorities are pulled together.

With h the features before the head, s(i, j) = cos(h_i, h_j) / temperature, and in a batch P(i) the
examples of i's class in the other part and N(i) those of other classes:

    loss = cross-entropy + w mean over i of [ log sum over j in P(i) and N(i) of exp s(i, j)
                                              - mean over j in P(i) of s(i, j) ]

The two parts of a class are its majority, where the shortcut holds, and the rest. Examples of the
same class and part are neither pulled nor pushed: what they share may be the shortcut. An example
without a P(i) in its batch has no term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.models import Classifier
from spare.objectives.contrastive import unit_length
from spare.training.loop import Objective


def pulled_together(parts: Any, *, weight: float, temperature: float) -> Objective:
    """The loss, given the part of every training example."""
    all_parts = torch.as_tensor(np.asarray(parts))

    def objective(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        assert isinstance(model, Classifier)
        hidden = model.features(x)
        batch_parts = all_parts[index].to(x.device)
        plain = nn.functional.cross_entropy(model.head(hidden), y)
        return plain + weight * distance(hidden, y, batch_parts, temperature)

    return objective


def distance(hidden: Tensor, labels: Tensor, parts: Tensor, temperature: float) -> Tensor:
    """The mean over the examples that have any to be pulled to."""
    same_class = labels[:, None] == labels
    positives = same_class & (parts[:, None] != parts)
    pulled = positives.any(1)
    if not pulled.any():
        return hidden.new_zeros(())
    unit = unit_length(hidden)
    similarity = unit[pulled] @ unit.T / temperature
    positives, negatives = positives[pulled], ~same_class[pulled]
    total = similarity.masked_fill(~(positives | negatives), -torch.inf).logsumexp(1)
    return (total - (similarity * positives).sum(1) / positives.sum(1)).mean()
