"""How strongly a network answers to a feature, and what the first theorem says of it.

The constants hold for inputs of norm about sqrt(d), so a feature is measured inside typical inputs,
(f(x + v) - f(x - v)) / 2; what v alone gives is measured beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from spare.theory.constants import activation_named, constants_of
from spare.theory.mixtures import CLASSES, Examples

#: Typical inputs that a feature is measured inside of.
PROBES = 128


class Feature(NamedTuple):
    """A feature of the data, and how much the labels go with it."""

    kind: str
    #: +1 or -1: the class whose core feature it is, or in whose majority it is.
    of_class: int
    vector: Tensor
    #: c n_c / n of a core feature, (n_{+1,s} - n_{-1,s}) / n of a spurious one.
    excess: float

    @property
    def name(self) -> str:
        return f"{self.kind} of class {self.of_class:+d}"

    def slope(self, activation: str, lr: float) -> float:
        """By the first theorem: how much f(v) grows in one step."""
        zeta = constants_of(activation).zeta
        square = float((self.vector.double() ** 2).sum())
        return 2 * lr * zeta**2 * square * self.excess / self.vector.shape[-1]


def features_of(examples: Examples) -> list[Feature]:
    """The core features of both classes, then the spurious ones of both majorities."""
    balance = [float((examples.y == c).double().mean()) * c for c in CLASSES]
    core = [Feature("core", c, examples.core[i], balance[i]) for i, c in enumerate(CLASSES)]
    spurious = [
        Feature("spurious", c, examples.spurious[i], examples.excess(i))
        for i, c in enumerate(CLASSES)
    ]
    return core + spurious


def inside(network: Callable[[Tensor], Tensor], probes: Tensor, vectors: Tensor) -> Tensor:
    """How much f moves along each vector (..., k, d), on average over typical inputs (p, d).

    With the vector an input is as long as without it, sqrt(d): the constants hold there.
    """
    moved = vectors[..., :, None, :]
    count, d = probes.shape
    rest = probes * (1 - (moved**2).sum(-1, keepdim=True) / d).clamp(0).sqrt()
    pairs = torch.cat([rest + moved, rest - moved], -2)
    shape = pairs.shape[:-1]
    values = network(pairs.reshape(*pairs.shape[:-3], -1, d)).reshape(shape)
    return (values[..., :count] - values[..., count:]).mean(-1) / 2


def steeper(activation: str) -> float:
    """How much steeper an activation is at 0 than on average over typical inputs."""
    at_0 = activation_named(activation).slope(torch.zeros(1)).item()
    return at_0 / constants_of(activation).zeta
