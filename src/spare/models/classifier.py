"""Classifiers: features, then one linear head.

Every model is a `Classifier`, so that one forward pass gives the last layer's outputs and the
features before it, whatever the network is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


class Classifier(nn.Module):
    """A network as features and a linear head."""

    def __init__(self, features: nn.Module, head: nn.Linear):
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def trains_features(self) -> bool:
        """False when training changes only the head."""
        return any(weight.requires_grad for weight in self.features.parameters())


def build(builder: Callable[[], nn.Module], key: tuple[int, ...]) -> nn.Module:
    """A fresh model whose initial weights depend on `key` alone, not on the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(key))
        return builder()


def torch_seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
