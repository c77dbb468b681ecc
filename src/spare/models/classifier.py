"""Classifiers: features, then one linear head.

Every model is a `Classifier`, so that one forward pass gives the last layer's outputs and the
features before it, whatever the network is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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


def share_no_weights(one: nn.Module, two: nn.Module) -> bool:
    """Whether no weights before the heads of two classifiers are the same, as in two networks that
    were drawn at random. Trained ones share what was trained.

    >>> one, two = (Classifier(nn.Linear(3, 2), nn.Linear(2, 2)) for _ in range(2))
    >>> share_no_weights(one, two), share_no_weights(one, one)
    (True, False)
    """
    first, second = one.state_dict(), two.state_dict()
    # Normalization starts with zeros and ones, whoever trains it, and tells nothing.
    telling = [
        name
        for name, value in first.items()
        if not name.startswith("head.") and isinstance(value, Tensor) and _varies(value)
    ]
    return bool(telling) and not any(torch.equal(first[name], second[name]) for name in telling)


def _varies(value: Tensor) -> bool:
    return value.numel() > 1 and bool(value.min() < value.max())


def device_of(model: nn.Module) -> torch.device:
    """Where a model is; one without parameters is on the host."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


@contextlib.contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """In evaluation mode within it; afterwards every module is in the mode that it was in."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def hash_state(digest: hashlib._Hash, state: Mapping[str, Any]) -> None:
    """Add the names and the bytes of a state dict to a digest."""
    for name, value in state.items():
        digest.update(name.encode())
        if not isinstance(value, Tensor):  # a module's extra state may be anything
            digest.update(type(value).__qualname__.encode())
        elif not nn.parameter.is_lazy(value):  # a lazy one has no values yet
            values = value.detach().cpu().contiguous().view(-1)
            digest.update(values.view(torch.uint8).numpy().data)


def torch_seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
