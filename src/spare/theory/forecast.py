"""When classes should fall apart, from the network's first outputs and a linear learner's clock.

A linear learner on the same inputs (linear_clock.py) says whether, and at which time t, the classes
fall apart: the regime in which the theory promises separation. The network's own outputs say how
fast it starts: the epoch e at which they agree with the linear learner's. The network then
separates after about

    e * SCALE * t^POWER

epochs. In the theory the power is 1. A real network, whose layers all move, needs less time for a
faint feature than that; power and scale were chosen on planted textures of four strengths, and
tested on other kinds, classes, networks and rates (benchmarks/predicting.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spare.theory.linear_clock import LinearClock, reached_at

#: Chosen on what benchmarks/predicting.py calls seen.
SCALE, POWER = 2.2, 1 / 3
#: The network has started when its outputs have this correlation with the linear learner's.
STARTED = 0.8
#: Looks within the first epoch, as shares of it; then one look after every epoch.
WITHIN = (0.125, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Forecast:
    """When the classes should fall apart."""

    #: Of the linear learner; None where it never separates them.
    linear_time: float | None
    most_clarity: float
    #: Epoch at which the network's outputs agree with the linear learner's.
    started: float | None
    #: Epoch of separation.
    epoch: float | None

    @property
    def promised(self) -> bool:
        """Whether the data is where the theory promises separation."""
        return self.linear_time is not None


def forecast(clock: LinearClock, epochs: Sequence[float], logits: Sequence[np.ndarray]) -> Forecast:
    """Predict from a linear learner and the network's outputs at some moments.

    Parameters
    ----------
    clock : LinearClock
    epochs : sequence of float
        When the outputs were taken.
    logits : sequence of arrays
        Of the clock's examples, at each of these moments.
    """
    started = reached_at(epochs, [clock.agreement(each) for each in logits], STARTED)
    time = clock.separates_at
    epoch = None
    if time is not None and started is not None:
        epoch = started * SCALE * max(time, 1.0) ** POWER
    return Forecast(time, float(clock.clarity.max()), started, epoch)
