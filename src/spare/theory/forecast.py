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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spare.groups.blocks import class_offsets
from spare.theory.linear_clock import APART, LinearClock, reached_at

#: Chosen on what benchmarks/predicting.py calls seen.
SCALE, POWER = 2.2, 1 / 3
#: The network has started when its outputs have this correlation with the linear learner's.
STARTED = 0.8
#: Looks within the first epoch, as shares of it; then one look after every epoch.
WITHIN = (0.125, 0.25, 0.5, 0.75)
#: Said of pretrained networks and of features.
OTHER_MODELS = (
    "'spare discover' looks at other models here: at linear heads on the network's features, or at "
    "models that did not see the example. With --set early_layers=all --set cross_fit=0 it looks "
    "at the model that was watched, epoch by epoch."
)


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


def matched(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """As separation sees them: classes are predicted as often as they occur."""
    return np.asarray(logits + class_offsets(logits, labels))


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The label's logit above the largest other."""
    own = np.arange(len(labels)), labels
    others = logits.copy()
    others[own] = -np.inf
    return np.asarray(logits[own] - others.max(1))


def advice(
    told: Forecast, clarity: float, watched: int, budget: int | None, epochs: int
) -> list[str]:
    """What the prediction means, also for `discover`, if its last look is after epoch `budget`."""
    if clarity >= APART:
        seen = "." if budget is None else "; 'spare discover' will see it."
        return [
            f"SEPARATED: the classes have fallen apart already{seen}",
            "The theory promises it: a linear learner on these inputs separates them too."
            if told.promised
            else "The theory does not promise it: a linear learner on these inputs does not "
            f"separate them at any time (its clarity is at most {told.most_clarity:.2f}).",
        ]
    if not told.promised:
        return [
            "NOT PROMISED: a linear learner on these inputs does not separate the classes at any "
            f"time (its clarity is at most {told.most_clarity:.2f}), so the theory promises "
            "nothing: there may be no shortcut, one that is not a linear feature of the inputs, "
            "or one with very few exceptions."
        ]
    if told.epoch is None:
        return [
            f"PROMISED, but after {epochs_text(watched)} the network has not started (its outputs "
            f"do not agree with the linear learner's yet): watch more epochs, or raise early_lr."
        ]
    lines = [
        "PROMISED: a linear learner on these inputs separates the classes, at its time "
        f"{told.linear_time:.0f}. By the network's own speed that is after epoch "
        f"{told.epoch:.0f} or so; with networks unlike those it was tried on it may be several "
        "times sooner or later (docs/theory.md)."
    ]
    if budget is not None and told.epoch > budget:
        share = math.ceil(100 * math.ceil(told.epoch) / epochs) / 100
        change = f"--set early_budget={share:g}"
        if share > 1:
            change = "more epochs, or a larger early_lr"
        lines.append(
            f"'spare discover' stops looking after epoch {budget} of {epochs}: if it finds "
            f"nothing, try {change}."
        )
    return lines


def epochs_text(count: int) -> str:
    return f"{count} epoch{'s' if count > 1 else ''}"
