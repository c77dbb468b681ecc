"""The figure of `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from spare.groups.arrays import rows_by_class
from spare.report.figures.canvas import COLORS, canvas, plain_text
from spare.theory.axes import label
from spare.theory.forecast import Forecast, margins, matched
from spare.theory.linear_clock import APART, LinearClock

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    clock: LinearClock,
    told: Forecast,
    epochs: Sequence[float],
    looks: Sequence[np.ndarray],
    labels: np.ndarray,
    names: Sequence[str],
) -> Figure:
    """The linear learner's clarity over time, and the margins of each class so far."""
    figure = canvas(8.4, 3.2)
    left, right = figure.subplots(1, 2)
    left.semilogx(clock.times, clock.clarity, color=COLORS[0], label="linear learner")
    left.axhline(APART, color="#9ca3af", lw=0.8, ls="--", label="counts as separated")
    if told.linear_time is not None:
        left.axvline(told.linear_time, color="k", lw=0.8, ls=":", label="first separated")
    label(left, "time of the linear learner (steps × step size)", "clarity, mean of the classes")
    by_look = [margins(matched(each, labels), labels) for each in looks]
    for number, (name, rows) in enumerate(rows_by_class(labels).items()):
        color = COLORS[number % len(COLORS)]
        for share, style in ((0.05, ":"), (0.5, "-"), (0.95, "--")):
            values = [np.quantile(each[rows], share) for each in by_look]
            words = plain_text(names[int(name)]) if share == 0.5 else None
            right.plot(epochs, values, style, color=color, lw=1, label=words)
    label(right, "epoch", "margin: logit of the label less the largest other")
    right.legend(fontsize=6, frameon=False, title="line: median; dots: 5 %; dashes: 95 %",
                 title_fontsize=6)  # fmt: skip
    return figure
