"""What the corollary says of every example's output, and what the network says.

In units of 2 lr zeta^2 t / d, and times the class, the output of an example is

    ||v_c||^2 n_c / n  +  ||v_s||^2 (n_{c,s} - n_{c',s}) / n  +  xi  +  what is the same for a class
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from spare.theory.constants import constants_of
from spare.theory.linear_model import trace_of_square, transformed
from spare.theory.mixtures import Examples, Mixture, sampled
from spare.theory.network import check_step, symmetric
from spare.theory.study import generator_of, precision_named

#: What the corollary leaves open is O(d^-alpha).
ALPHA = 0.25
GROUPS = {
    "majority": "majority",
    "other": "minority, feature of the other majority",
    "alone": "minority, feature of no majority",
}


@dataclass(frozen=True)
class Measured:
    """Outputs over time, in the units of the corollary and times the class."""

    #: By step, of every example.
    steps: Mapping[int, np.ndarray]
    group: np.ndarray
    #: What the corollary predicts of every example, without what it leaves open.
    predicted: np.ndarray
    #: What is the same for all examples of a class.
    middle: np.ndarray
    half_gap: float
    slack: float
    xi_deviation: float
    kappa: float

    def beyond(self, step: int) -> np.ndarray:
        """By how much each example falls short of its bound; below 0 where it obeys."""
        difference = self.steps[step] - self.predicted
        return np.select(
            [self.group == "majority", self.group == "other"],
            [-difference, difference],
            np.abs(difference),
        )

    def on_their_side(self, step: int) -> float:
        """Share of examples on their group's side of the middle, as the mean over the groups."""
        around = self.steps[step] - self.middle
        right = np.where(self.group == "majority", around > 0, around < 0)
        groups = [name for name in np.unique(self.group) if name != "alone"]
        return float(np.mean([right[self.group == name].mean() for name in groups]))


class Training(NamedTuple):
    activation: str
    lr: float
    steps: int
    precision: str


def measure(mixture: Mixture, width: int, options: Training, seed: int, draw: int = 0) -> Measured:
    """Train the network of the theory, and put its outputs beside what the corollary predicts."""
    dtype = precision_named(options.precision)
    generator = generator_of(seed, 3, draw)
    examples = sampled(mixture, generator, dtype=dtype)
    network = symmetric(options.activation, width, mixture.d, generator, dtype)
    check_step(examples.x, options.activation, options.lr)
    zeta = constants_of(options.activation).zeta
    c = examples.y.double().numpy()
    outputs = {}
    for step in range(options.steps + 1):
        before = network.step(examples.x, examples.y, options.lr)
        if step:
            unit = 2 * options.lr * zeta**2 * step / mixture.d
            outputs[step] = c * before.double().numpy() / unit
    n = len(c)
    own = np.where(c > 0, 0, 1)
    position = examples.spurious_of
    group = np.where(position == own, "majority", np.where(position == 2, "alone", "other"))
    excess = np.array([examples.excess(feature) for feature in range(3)])
    signal = _signal(examples, excess)
    xi = c * (examples.noise.double() @ signal).numpy()
    balance = float((c > 0).mean()), float((c < 0).mean())
    core = (examples.core.double() ** 2).sum(1).numpy()
    middle = core[own] * np.array(balance)[own] + c * _shift(examples, options)
    # (K - k) / n with K the smallest majority and k the largest minority, as in the corollary.
    largest = min(((group == "majority") & (c == sign)).sum() for sign in (1, -1))
    smallest = max(((group == "other") & (c == sign)).sum() for sign in (1, -1))
    half_gap = float((examples.spurious.double() ** 2).sum(1)[0]) * (largest - smallest) / n
    place = np.select([group == "majority", group == "other"], [half_gap, -half_gap], 0.0)
    return Measured(
        outputs,
        group,
        middle + place + xi,
        middle,
        half_gap,
        mixture.d**-ALPHA * half_gap,
        float(xi.std()),
        _kappa(mixture, excess),
    )


def _signal(examples: Examples, excess: np.ndarray) -> torch.Tensor:
    """sum_i y_i x_i / n without its noise: what an example's own noise is multiplied with."""
    balance = [float((examples.y == c).double().mean()) * c for c in (1, -1)]
    weights = torch.tensor([*balance, *excess[: len(examples.spurious)]], dtype=torch.float64)
    return weights @ torch.cat([examples.core, examples.spurious]).double()


def _shift(examples: Examples, options: Training) -> float:
    """What bias and norm add to every output alike, in the units of the corollary."""
    x = examples.x.double()
    psi = transformed(x, options.activation, trace_of_square(x))[:, -2:]
    learned = (psi * examples.y.double()[:, None]).mean(0)
    zeta = constants_of(options.activation).zeta
    return float(psi.mean(0) @ learned) * x.shape[1] / (2 * zeta**2)


def _kappa(mixture: Mixture, excess: np.ndarray) -> float:
    """The paper's bound of the deviation of xi, of balanced classes."""
    core = math.sqrt(2 * 0.25 * mixture.noise_along("core") ** 2 * mixture.core**2)
    spurious = mixture.noise_along("spurious") * mixture.spurious * math.sqrt((excess**2).sum())
    return core + spurious
