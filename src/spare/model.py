"""Classifiers: features, then one linear head.

Every model here is a `Classifier`, so that the last layer's outputs and the features before it can
be had from one forward pass whatever the network is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    def __init__(self, features: nn.Module, head: nn.Linear):
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def lenet5(classes: int, *, channels: int = 3, size: int = 32) -> Classifier:
    """LeNet-5 with ReLU and max-pooling; 84 features before the head.

    Pooling stands before ReLU: the maximum of rectified values is the rectified maximum, and there
    are four times fewer of them.
    """
    side = ((size - 4) // 2 - 4) // 2
    features = nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * side * side, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(84, classes))


def small_cnn(classes: int, *, channels: int = 3, size: int = 16) -> Classifier:
    """Two convolutions for images of a few pixels; 64 features before the head."""
    side = size // 4
    features = nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * side * side, 64),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(64, classes))


def build(builder: Callable[[], nn.Module], key: tuple[int, ...]) -> nn.Module:
    """A fresh model whose initial weights depend on `key` alone, not on the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(key))
        return builder()


def torch_seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
