"""The figure of `separability`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from spare.report.figures.canvas import COLORS, canvas
from spare.theory.axes import label, logarithmic
from spare.theory.corollary import ALPHA, GROUPS, Measured
from spare.theory.study import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    measured: Measured, over_time: Sequence[Row], threshold: Sequence[Row], slack: Sequence[Row]
) -> Figure:
    """Outputs by group, over time and at the end; the threshold; the slack."""
    figure = canvas(9.6, 5.6 if threshold else 3)
    panels = figure.subplots(2 if threshold else 1, 2, squeeze=False)
    colors = dict(zip(GROUPS, COLORS, strict=False))
    axes = panels[0, 0]
    for group in GROUPS:
        rows = [row for row in over_time if row["group"] == group]
        if rows:
            steps = np.array([row["step"] for row in rows])
            mean = np.array([row["mean"] for row in rows]) * steps
            spread = np.array([row["deviation"] for row in rows]) * steps
            axes.plot(steps, mean, color=colors[group], label=GROUPS[group])
            axes.fill_between(steps, mean - spread, mean + spread, color=colors[group], alpha=0.2)
            axes.plot(steps, [row["predicted"] * row["step"] for row in rows], "k:", lw=1)
    label(axes, "step", "output around the class's middle,\nper 2 lr zeta² / d")
    axes.legend(fontsize=6, frameon=False, title="band: one deviation; dotted: predicted",
                title_fontsize=6)  # fmt: skip
    axes = panels[0, 1]
    final = max(measured.steps)
    around = measured.steps[final] - measured.middle
    edges = np.linspace(around.min(), around.max(), 61)
    for group in GROUPS:
        inside = measured.group == group
        if inside.any():
            axes.hist(around[inside], edges, density=True, color=colors[group], alpha=0.6)
    for place in (-measured.half_gap, 0, measured.half_gap):
        axes.axvline(place, color="k", lw=0.8, ls=":")
    label(axes, f"output around the class's middle at step {final}", "density")
    if threshold:
        axes = panels[1, 0]
        grid = np.linspace(0, max(row["half gap / deviation"] for row in threshold), 200)
        axes.plot(grid, [NormalDist().cdf(value) for value in grid], "k:", lw=1, label="predicted")
        axes.plot(
            [row["half gap / deviation"] for row in threshold],
            [row["on their side"] for row in threshold],
            "o", ms=4, color=COLORS[0], label="measured",
        )  # fmt: skip
        label(
            axes, "||v_s||² (K - k) / n, in deviations of the noise", "share on their group's side"
        )
        axes = panels[1, 1]
        sizes = [row["d"] for row in slack]
        needed = [row["slack needed / half gap"] for row in slack]
        axes.plot(sizes, needed, "o-", ms=4, color=COLORS[0], label="needed by 99 %")
        axes.plot(sizes, [d**-ALPHA for d in sizes], "k:", lw=1, label="d^-1/4")
        logarithmic(axes, sizes)
        label(axes, "d, with n = width = 2 d^(5/4)", "slack / half gap")
    return figure
