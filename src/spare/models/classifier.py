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


def drawn_at_random(one: nn.Module, two: nn.Module) -> bool:
    """Whether the features of two classifiers that were made alike have mostly other weights, as
    networks have that nobody trained. Trained ones share what was trained; a head alone has none.

    >>> one, two = (Classifier(nn.Linear(3, 2), nn.Linear(2, 2)) for _ in range(2))
    >>> drawn_at_random(one, two), drawn_at_random(one, one)
    (True, False)
    """
    if not isinstance(one, Classifier) or not isinstance(two, Classifier):
        return False
    others = dict(two.features.named_parameters())
    alike = {True: 0, False: 0}
    for name, weights in one.features.named_parameters():
        # Normalization starts with zeros and ones, whoever trains it, and tells nothing.
        if not nn.parameter.is_lazy(weights) and (weights != weights.reshape(-1)[:1]).any():
            other = others.get(name)
            alike[other is not None and torch.equal(weights, other)] += weights.numel()
    return alike[False] > alike[True]


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
