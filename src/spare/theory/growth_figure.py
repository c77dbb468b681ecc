"""The figure of `growth`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spare.report.figures.canvas import COLORS, canvas
from spare.theory.axes import label, logarithmic
from spare.theory.study import Row
from spare.theory.sweeps import SWEEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def by_line(curves: Sequence[Row]) -> list[list[Row]]:
    """The rows of each activation and feature, by step."""
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in curves:
        lines.setdefault((row["activation"], row["feature"]), []).append(row)
    return list(lines.values())


def plot(
    curves: Sequence[Row],
    swept: Sequence[Row],
    errors: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    window: float,
) -> Figure:
    """Above, outputs against the theorem's lines; below, the sweeps."""
    figure = canvas(3.2 * max(len(names), 3), 6.4 if swept else 3.2)
    above, *below = figure.subfigures(2 if swept else 1, 1, squeeze=False)[:, 0]
    for axes, activation in zip(
        above.subplots(1, len(names), squeeze=False)[0], names, strict=True
    ):
        _plot_curves(axes, [row for row in curves if row["activation"] == activation])
        axes.axvline(window, color="#9ca3af", lw=0.8, ls="--")
        axes.set_title(activation, fontsize=9)
    if below:
        first, second, third = below[0].subplots(1, 3)
        for axes, what in ((first, "correlation"), (second, "spurious")):
            _plot_sweep(axes, [row for row in swept if row["sweep"] == what], names)
            label(axes, SWEEPS[what], "slope along the spurious feature")
        sizes = set()
        for number, name in enumerate(n for n in errors if errors[n]["exponent"] is not None):
            each = errors[name]
            sizes |= set(each["sizes"])
            third.plot(each["sizes"], each["errors"], "o-", ms=3, lw=1, color=COLORS[number],
                       label=f"{SWEEPS[name]}: exponent {each['exponent']:.2f}")  # fmt: skip
        logarithmic(third, sizes)
        label(third, "size", "relative error of the slope")
    return figure


def _plot_curves(axes: Axes, curves: Sequence[Row]) -> None:
    for number, rows in enumerate(by_line(curves)):
        color = COLORS[number % len(COLORS)]
        steps = [row["step"] for row in rows]
        axes.plot([0, *steps], [0, *[row["predicted"] for row in rows]], color=color, lw=1)
        axes.plot(steps, [row["measured"] for row in rows], "o", color=color, ms=3,
                  label=rows[0]["feature"])  # fmt: skip
        axes.plot(steps, [row["alone"] for row in rows], ":", color=color, lw=1)
    axes.legend(
        fontsize=5, frameon=False, loc="upper left", title_fontsize=5,
        title="line: theorem; dots: inside\ntypical inputs; dotted: v alone",
    )  # fmt: skip
    label(axes, "step", "f along the feature")


def _plot_sweep(axes: Axes, swept: Sequence[Row], names: Sequence[str]) -> None:
    rows = [row for row in swept if row["feature"] == "spurious of class +1"]
    values = sorted({row["value"] for row in rows})
    for number, activation in enumerate(names):
        for column, style in (("predicted", "-"), ("measured", "o")):
            means = [
                np.mean([row[column] for row in rows
                         if row["value"] == value and row["activation"] == activation])
                for value in values
            ]  # fmt: skip
            axes.plot(values, means, style, color=COLORS[number % len(COLORS)], ms=3, lw=1,
                      label=activation if style == "o" else None)  # fmt: skip
