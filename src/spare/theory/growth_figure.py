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


#: What is swept, where there is little room.
SHORT = {"width": "width", "n": "examples n", "d": "d, and n = width = 2 d"}
PERCENTS = (0.5, 1, 2, 3, 5, 10, 20, 50)


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
    _explain(above.axes[0])
    if below:
        first, second, third = below[0].subplots(1, 3)
        for axes, what in ((first, "correlation"), (second, "spurious")):
            _plot_sweep(axes, [row for row in swept if row["sweep"] == what], names)
            label(axes, SWEEPS[what], "slope along the spurious feature\n(output per step)")
        sizes = set()
        for number, name in enumerate(n for n in errors if errors[n]["exponent"] is not None):
            each = errors[name]
            sizes |= set(each["sizes"])
            third.plot(each["sizes"], each["errors"], "o-", ms=3, lw=1, color=COLORS[number],
                       label=f"{SHORT[name]}: power {each['exponent']:.2f}")  # fmt: skip
        logarithmic(third, sizes)
        low, high = third.get_ylim()
        third.set_ylim(low, 2 * high)  # room for the legend
        ticks = [tick for tick in PERCENTS if low < tick / 100 < 2 * high]
        third.set_yticks([tick / 100 for tick in ticks], [f"{tick:g}" for tick in ticks])
        third.set_yticks([], minor=True)
        third.legend(fontsize=6, frameon=False, loc="upper right", title="what grows",
                     title_fontsize=6)  # fmt: skip
        label(third, "size", "error of the slope, %")
    return figure


def _plot_curves(axes: Axes, curves: Sequence[Row]) -> None:
    for number, rows in enumerate(by_line(curves)):
        color = COLORS[number % len(COLORS)]
        steps = [row["step"] for row in rows]
        axes.plot([0, *steps], [0, *[row["predicted"] for row in rows]], color=color, lw=1)
        axes.plot(steps, [row["measured"] for row in rows], "o", color=color, ms=3,
                  label=rows[0]["feature"])  # fmt: skip
        axes.plot(steps, [row["alone"] for row in rows], ":", color=color, lw=1)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylabel("output along the feature", fontsize=8)
    axes.tick_params(labelsize=7)


def _explain(axes: Axes) -> None:
    """Which color and which style is what, in the corners that the lines leave free."""
    axes.add_artist(axes.legend(fontsize=6, frameon=False, loc="upper left"))
    styles: dict[str, dict[str, Any]] = {
        "theorem": {"color": "k", "lw": 1},
        "measured inside typical inputs": {"color": "k", "marker": "o", "ms": 3, "ls": ""},
        "measured for the feature alone": {"color": "k", "lw": 1, "ls": ":"},
        "the theorem's window ends": {"color": "#9ca3af", "lw": 0.8, "ls": "--"},
    }
    lines = [axes.plot([], [], **style)[0] for style in styles.values()]
    axes.legend(lines, list(styles), fontsize=6, frameon=False, loc="lower left")


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
