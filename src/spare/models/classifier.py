"""Classifiers: features, then one linear head.

Every model is a `Classifier`, so that the last layer's outputs and the features before it can be
had from one forward pass whatever the network is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


class Classifier(nn.Module):
    def __init__(self, features: nn.Module, head: nn.Linear):
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    @property
    def trains_features(self) -> bool:
        """False when the head is all that training changes."""
        return any(weight.requires_grad for weight in self.features.parameters())


def build(builder: Callable[[], nn.Module], key: tuple[int, ...]) -> nn.Module:
    """A fresh model whose initial weights depend on `key` alone, not on the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(key))
        return builder()


def torch_seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
