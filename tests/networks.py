"""Networks to test with, and how they are made and compared."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from spare.models import Classifier, ModelChoice, build, builder

SMALL = (3, 64, 64)
TINY = (3, 2, 2)
SCRATCH = ModelChoice(weights="none")


def made(name: str, shape=SMALL, classes: int = 2, key=(0,), **more) -> Classifier:
    return build(builder(replace(SCRATCH, model=name, **more), classes, shape), key)


def batch(shape, n: int = 3) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(1))


def same_weights(one: nn.Module, two: nn.Module) -> bool:
    ours, theirs = one.state_dict(), two.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


class Net(nn.Module):
    """Batch norm, dropout and a linear head; what follows the head can be chosen."""

    def __init__(self, outputs: int = 4, after=lambda logits: logits):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.middle = nn.Linear(24, 10)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(10, outputs)
        self.after = after

    def forward(self, x):
        return self.after(self.fc(self.dropout(torch.relu(self.middle(self.body(x))))))
