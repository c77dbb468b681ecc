"""CnC's loss: alike within a class whatever the slice, apart within a slice whatever the class.

Zhang, Sohoni, Zhang, Finn, Ré: Correct-N-Contrast: A Contrastive Approach for Improving Robustness
to Spurious Correlations, ICML 2022. The slice of an example is the class that an early model took
it for. With h the features before the head and s(u, v) = exp(cos(h_u, h_v) / temperature):

    L(u; P, N) = - mean over p in P of log [ s(u, p) / (sum over P of s + sum over N of s) ]
    loss = w [ L(anchor; positives, hard negatives) + L(first positive; anchors, easy negatives) ]
           + (1 - w) cross-entropy of all of them

The encoder is in eval mode while it is trained, as in the official code: batch normalization uses
the statistics that the network came with, and dropout is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.errors import InputError
from spare.models import Classifier
from spare.training.loop import Objective


@dataclass(frozen=True)
class Roles:
    """The role of every example of a sub-batch: one row of booleans per role."""

    anchors: Tensor
    positives: Tensor
    hard_negatives: Tensor
    easy_negatives: Tensor


def roles(labels: Tensor, slices: Tensor) -> Roles:
    """The role of every example, from its label and slice; the first example is the anchor.

    >>> roles(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])).hard_negatives.tolist()
    [False, False, True, False]
    """
    same_class, same_slice = labels == labels[0], slices == labels[0]
    anchors, positives = same_class & same_slice, same_class & ~same_slice
    hard = ~same_class & same_slice
    first_positive = int(positives.int().argmax())
    easy = ~same_class & (slices == labels) & (slices == slices[first_positive])
    if not (anchors[0] and positives.any() and (anchors | positives | hard | easy).all()):
        raise InputError(
            "a sub-batch to contrast has a correct example first, at least one positive, and no "
            "example without a role: make it with batches.contrastive."
        )
    return Roles(anchors, positives, hard, easy)


def unit_length(hidden: Tensor) -> Tensor:
    """Rows scaled to length 1; rows of zeros, which ReLU can give, stay zeros in any precision."""
    return nn.functional.normalize(hidden, eps=max(1e-12, torch.finfo(hidden.dtype).tiny))


def contrast(example: Tensor, positives: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """L of an example, given features of length 1: the dot product is the cosine."""
    similarity = torch.cat([positives, negatives]) @ example / temperature
    return similarity.logsumexp(0) - similarity[: len(positives)].mean()


def correct_n_contrast(
    slices: Any, *, temperature: float = 0.05, weight: float = 0.75
) -> Objective:
    """The loss of a sub-batch (batches.contrastive), given the slice of every training example."""
    all_slices = torch.as_tensor(np.asarray(slices))

    def objective(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        assert isinstance(model, Classifier)
        model.features.eval()
        hidden = model.features(x)
        role = roles(y, all_slices[index].to(x.device))
        unit = unit_length(hidden)
        anchors, positives = unit[role.anchors], unit[role.positives]
        from_anchor = contrast(anchors[0], positives, unit[role.hard_negatives], temperature)
        from_positive = contrast(positives[0], anchors, unit[role.easy_negatives], temperature)
        plain = nn.functional.cross_entropy(model.head(hidden), y)
        return weight * (from_anchor + from_positive) + (1 - weight) * plain

    return objective
