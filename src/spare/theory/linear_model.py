"""The linear model that the network begins as (Hu et al. 2020), on transformed inputs.

    psi(x) = [ sqrt(2/d) zeta x ;  sqrt(3/(2d)) nu ;  theta_0 + theta_1 u + theta_2 u^2 ],
    u = ||x|| / sqrt(d) - 1

Gradient descent on it from 0 has a closed form: in the eigenvectors of Psi'Psi / n, every
coordinate goes to its optimum at a rate of its own. So any step can be computed at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spare.theory.constants import constants_of

#: Steps of the power iteration, and the relative change at which it stops.
MOST_ITERATIONS, CONVERGED = 500, 1e-6


def transformed(x: Tensor, activation: str, trace: float | None = None) -> Tensor:
    """psi of every row; `trace` is Tr(Sigma^2), by default that of these rows."""
    d = x.shape[1]
    constants = constants_of(activation)
    if trace is None:
        trace = trace_of_square(x) if constants.theta_1 else 0.0
    bias = math.sqrt(3 / (2 * d)) * constants.nu(trace, d)
    u = x.norm(dim=1, keepdim=True) / math.sqrt(d) - 1
    size = constants.theta_0 + constants.theta_1 * u + constants.theta_2 * u**2
    return torch.cat([math.sqrt(2 / d) * constants.zeta * x, torch.full_like(u, bias), size], 1)


def trace_of_square(x: Tensor) -> float:
    """Tr(Sigma^2), where Sigma is the covariance of the rows."""
    centered = x - x.mean(0)
    small = centered if x.shape[0] < x.shape[1] else centered.T  # their Gram matrices agree in it
    gram = small @ small.T / x.shape[0]
    return float((gram * gram).sum())


def largest_eigenvalue(psi: Tensor) -> float:
    """Of psi'psi / n, by power iteration."""
    vector = psi.mean(0) + psi[0]
    value = 0.0
    for _ in range(MOST_ITERATIONS):
        following = psi.T @ (psi @ vector) / len(psi)
        before, value = value, float(following.norm() / vector.norm())
        if value == 0 or abs(value - before) < CONVERGED * value:
            break
        vector = following / following.norm()
    return max(value, 1e-12)


@dataclass(frozen=True)
class LinearModel:
    """Gradient descent on psi, at any step."""

    activation: str
    lr: float
    trace: float
    #: Of psi'psi / n.
    values: Tensor
    vectors: Tensor
    #: psi'y / n in the eigenvectors.
    target: Tensor

    def weights(self, step: int) -> Tensor:
        """After so many steps from 0: (1 - (1 - lr lambda)^t) / lambda times the target."""
        decay = 1 - self.lr * self.values
        # Where lambda is next to 0 the geometric series is t times lr.
        small = self.values * self.lr < 1e-12
        series = torch.where(small, self.lr * step, (1 - decay**step) / self.values.clamp(1e-300))
        return self.vectors @ (series * self.target)

    def __call__(self, x: Tensor, step: int) -> Tensor:
        return transformed(x, self.activation, self.trace) @ self.weights(step)


def fitted(x: Tensor, y: Tensor, activation: str, lr: float) -> LinearModel:
    """The linear model of these examples; one eigendecomposition serves all steps."""
    trace = trace_of_square(x)
    psi = transformed(x, activation, trace)
    values, vectors = torch.linalg.eigh(psi.T @ psi / len(psi))
    return LinearModel(
        activation, lr, trace, values.clamp(0), vectors, vectors.T @ (psi.T @ y) / len(psi)
    )
