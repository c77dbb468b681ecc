"""The corollary over many sizes: where groups begin to separate, and the slack that they need."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from spare.theory.corollary import ALPHA, Training, measure
from spare.theory.mixtures import Mixture
from spare.theory.study import Row

#: Points of the sweep of the threshold.
CORRELATIONS = (0.5, 0.525, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.995)
SIZES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Points of the sweep of the slack that is needed, with n = width = 2 d^(5/4), as the theorem wants
#: at least; and draws of data and network at each.
DIMENSIONS, DRAWS = (125, 250, 500, 1000), 3
#: Of features there, small beside sqrt(d) even in the fewest dimensions.
SMALL_CORE, SMALL_SPURIOUS = 2.5, 3.5


def threshold_rows(given: Mixture, width: int, training: Training, seed: int) -> list[Row]:
    """How many examples lie on their group's side, as the gap grows out of the noise."""
    d, n, width = max(given.d // 4, 8), max(given.n // 4, 8), max(width // 4 // 2 * 2, 2)
    small = math.sqrt(d) / 4
    base = Mixture(d=d, n=n, core=min(given.core, small), spurious=small, alone=0.0)
    points = [
        replace(base, spurious=size, correlation=p)
        for size, p in [
            *[(min(given.spurious, 0.8 * math.sqrt(d)), p) for p in CORRELATIONS],
            *[(size, 0.95) for size in SIZES if size < 0.8 * math.sqrt(d)],
        ]
    ]
    rows = []
    for mixture in points:
        measured = measure(mixture, width, training._replace(steps=1), seed)
        # The noise of an example meets the mean of all others' too.
        deviation = math.hypot(measured.xi_deviation, mixture.noise**2 * math.sqrt(d / n))
        rows.append(
            {
                "spurious": mixture.spurious,
                "correlation": mixture.correlation,
                "half gap": measured.half_gap,
                "kappa": measured.kappa,
                "half gap / kappa": measured.half_gap / measured.kappa,
                "half gap / deviation": measured.half_gap / deviation,
                "on their side": measured.on_their_side(1),
                "predicted": NormalDist().cdf(measured.half_gap / deviation),
            }
        )
    return rows


def slack_rows(d_given: int, training: Training, seed: int) -> list[Row]:
    """The slack within which 99 % are, above and below, as d grows with n and the width."""
    rows = []
    for d in [d for d in DIMENSIONS if d <= max(2 * d_given, DIMENSIONS[1])]:
        size = 2 * round(d ** (1 + ALPHA))
        mixture = Mixture(
            d=d, n=size, core=SMALL_CORE, spurious=SMALL_SPURIOUS, correlation=0.995, alone=0.5
        )
        needed = []
        for draw in range(DRAWS):
            measured = measure(mixture, size, training._replace(steps=1), seed, draw)
            outside = np.abs(measured.steps[1] - measured.predicted)
            needed.append(np.quantile(outside, 0.99) / measured.half_gap)
        rows.append(
            {"d": d, "n": size, "width": size, "slack needed / half gap": float(np.mean(needed))}
        )
    return rows
