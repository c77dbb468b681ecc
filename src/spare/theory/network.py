"""The paper's network: two layers, its scaling, its symmetric initialization, and gradient descent.

    f(x) = z . phi(W x / sqrt(d)) / sqrt(m)

Half of the hidden units are copies of the others with the opposite sign of z, so f is 0 at the
start. Full-batch gradient descent on both layers, of half the mean squared error. All tensors may
have leading dimensions: several networks, each with data of its own, are trained in one go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from spare.errors import InputError
from spare.limits import half_of_memory
from spare.theory.constants import Activation, activation_named
from spare.theory.linear_model import largest_eigenvalue, transformed

#: Numbers in the largest temporary array: rows are taken in portions.
PORTION = 2**23
#: How many arrays there are at once: temporary ones of that size, copies of the data, and copies of
#: the hidden layer's weights in a step.
TEMPORARY, LIKE_DATA, LIKE_WEIGHTS = 4, 5, 4


@dataclass
class TwoLayers:
    """A network of two layers, whose weights are changed in place."""

    activation: Activation
    #: (..., m, d) and (..., m).
    hidden: Tensor
    head: Tensor

    @property
    def scales(self) -> tuple[float, float]:
        m, d = self.hidden.shape[-2:]
        return 1 / math.sqrt(d), 1 / math.sqrt(m)

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs of inputs (..., n, d)."""
        inner, outer = self.scales
        parts = [
            outer * _times(self.activation.value(inner * (part @ self.hidden.mT)), self.head)
            for part in self.portions(x)
        ]
        return torch.cat(parts, -1)

    def step(self, x: Tensor, y: Tensor, lr: float) -> Tensor:
        """One step of gradient descent on all examples; the outputs that it started from."""
        inner, outer = self.scales
        to_head, to_hidden = torch.zeros_like(self.head), torch.zeros_like(self.hidden)
        outputs, start = [], 0
        for part in self.portions(x):
            reached = inner * (part @ self.hidden.mT)
            active = self.activation.value(reached)
            outputs.append(outer * _times(active, self.head))
            wanted = y[..., start : start + part.shape[-2]]
            start += part.shape[-2]
            residual = (outputs[-1] - wanted) / x.shape[-2]
            to_head += outer * _times(active.mT, residual)
            pull = self.activation.slope(reached).mul_(residual[..., None])
            to_hidden += pull.mT @ part
        self.hidden -= (lr * inner * outer) * self.head[..., None] * to_hidden
        self.head -= lr * to_head
        return torch.cat(outputs, -1)

    def portions(self, x: Tensor) -> Iterator[Tensor]:
        """The rows of x, so many at a time that the hidden layer's values fit."""
        columns = self.hidden.shape[-2] * math.prod(x.shape[:-2])
        size = max(1, PORTION // columns)
        return iter(x.split(size, -2))  # type: ignore[no-untyped-call]


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrix times vector, for each of several."""
    return (matrix @ vector[..., None])[..., 0]


def symmetric(
    activation: str, width: int, d: int, generator: torch.Generator, dtype: torch.dtype
) -> TwoLayers:
    """A network of the paper's initialization, whose outputs are 0.

    >>> net = symmetric("tanh", 4, 3, torch.Generator().manual_seed(0), torch.float64)
    >>> net(torch.ones(1, 3, dtype=torch.float64)).item()
    0.0
    """
    check_width(width)
    half = torch.randn(width // 2, d, generator=generator, dtype=torch.float64).to(dtype)
    signs = torch.randint(0, 2, (width // 2,), generator=generator).to(dtype) * 2 - 1
    return TwoLayers(
        activation_named(activation), torch.cat([half, half]), torch.cat([signs, -signs])
    )


def check_width(width: int) -> None:
    if width < 2 or width % 2:
        raise InputError(
            f"the width is an even number of at least 2, because half of the hidden units mirror "
            f"the others, not {width}."
        )


def check_memory(
    d: int, n: int, width: int, *, copies: int = 1, versions: int = 1, bytes_each: int = 8
) -> None:
    """Refuse sizes that do not fit in memory, before anything is made.

    copies      networks that are trained at the same time, each on data of its own
    versions    of the data that one network sees
    """
    matrices = copies * d * (LIKE_DATA * versions * n + LIKE_WEIGHTS * width)
    needed = bytes_each * (matrices + TEMPORARY * max(PORTION, copies * width))
    allowed = half_of_memory()
    if needed > allowed:
        raise InputError(
            f"d={d:,}, n={n:,} and width={width:,} need {needed / 1e9:,.1f} GB, and half of this "
            f"machine's memory is {allowed / 1e9:,.1f} GB: make one of them smaller."
        )


def check_step(x: Tensor, activation: str, lr: float) -> float:
    """Refuse a step size at which training diverges; returns the largest at which it does not.

    The network begins as the linear model on psi(x), so that model's largest curvature is the
    network's.
    """
    most = 2 / largest_eigenvalue(transformed(x, activation))
    if lr >= most:
        raise InputError(
            f"a step size (lr) of {lr:g} is beyond stability: on this data the outputs grow "
            f"without bound from {most:.3g} on; use at most {most / 2:.2g}."
        )
    return most
