"""Activations, and the numbers that the theory knows them by.

For g ~ N(0, 1): zeta = E phi'(g), theta_0 = E phi(g), theta_1 = E g phi'(g),
theta_2 = E (g^3 / 2 - g) phi'(g). Of the data, nu = theta_1 sqrt(Tr(Sigma^2) / d).

Where a closed form is known it is used; the others are integrated numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spare.errors import unknown

#: Of the leaky ReLU, left of 0.
SLOPE = 0.1
#: Panels, and nodes in each, of the rule for E over a normal variable; beyond `REACH` its density
#: is below 1e-43. A kink at 0 is a border between panels, so the rule is as exact for ReLU.
PANELS, NODES, REACH = 40, 40, 14.0

NAMES = ("zeta", "theta_0", "theta_1", "theta_2")


@dataclass(frozen=True)
class Activation:
    """A function that acts on every number, with its derivative and the constants that are known.

    Attributes
    ----------
    value, slope : callable
    closed : mapping
        Those of `NAMES` for which there is a closed form.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    closed: Mapping[str, float]


@dataclass(frozen=True)
class Constants:
    """What the theory knows an activation by."""

    zeta: float
    theta_0: float
    theta_1: float
    theta_2: float

    def nu(self, covariance_squares: float, d: int) -> float:
        """Of data in `d` dimensions whose covariance has this sum of squared eigenvalues."""
        return self.theta_1 * math.sqrt(covariance_squares / d)


_NORMAL = 1 / math.sqrt(2 * math.pi)
_ODD = {"theta_0": 0.0, "theta_1": 0.0, "theta_2": 0.0}


def _sigmoid_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s * (1 - s)


ACTIVATIONS: dict[str, Activation] = {
    each.name: each
    for each in (
        Activation(
            "relu",
            torch.relu,
            lambda x: (x > 0).to(x.dtype),
            {"zeta": 0.5, "theta_0": _NORMAL, "theta_1": _NORMAL, "theta_2": 0.0},
        ),
        Activation(
            "leaky_relu",
            lambda x: torch.where(x > 0, x, SLOPE * x),
            lambda x: SLOPE + (1 - SLOPE) * (x > 0).to(x.dtype),
            {
                "zeta": (1 + SLOPE) / 2,
                "theta_0": (1 - SLOPE) * _NORMAL,
                "theta_1": (1 - SLOPE) * _NORMAL,
                "theta_2": 0.0,
            },
        ),
        Activation(
            "erf",
            torch.erf,
            lambda x: (2 / math.sqrt(math.pi)) * torch.exp(-x * x),
            {"zeta": 2 / math.sqrt(3 * math.pi), **_ODD},
        ),
        Activation("tanh", torch.tanh, lambda x: 1 - torch.tanh(x) ** 2, _ODD),
        Activation("sigmoid", torch.sigmoid, _sigmoid_slope, {**_ODD, "theta_0": 0.5}),
        Activation("softplus", torch.nn.functional.softplus, torch.sigmoid, {"zeta": 0.5}),
    )
}


def activation_named(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def constants_of(name: str) -> Constants:
    """The constants of an activation, in closed form where there is one.

    >>> round(constants_of("erf").zeta, 4)
    0.6515
    """
    closed = activation_named(name).closed
    missing = [each for each in NAMES if each not in closed]
    integrated = by_quadrature(name) if missing else {}
    return Constants(**{each: closed.get(each, integrated.get(each, 0.0)) for each in NAMES})


def by_quadrature(name: str) -> dict[str, float]:
    """The constants of an activation by numerical integration, whatever is known of them."""
    activation = activation_named(name)
    g, weights = normal_rule()
    slope = activation.slope(torch.from_numpy(g)).numpy()
    integrands = {
        "zeta": slope,
        "theta_0": activation.value(torch.from_numpy(g)).numpy(),
        "theta_1": g * slope,
        "theta_2": (g**3 / 2 - g) * slope,
    }
    return {each: float(weights @ integrand) for each, integrand in integrands.items()}


def normal_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of an integral against the normal density: Gauss-Legendre in panels."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(-REACH, REACH, PANELS + 1)
    half = np.diff(edges)[:, None] / 2
    g = (edges[:-1, None] + half + half * nodes).ravel()
    density = np.exp(-g * g / 2) * _NORMAL
    return g, (half * weights).ravel() * density
