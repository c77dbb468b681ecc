"""The figure of `linear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spare.report.figures.canvas import COLORS, canvas
from spare.theory.axes import label, logarithmic
from spare.theory.colored_digits import PARTS
from spare.theory.study import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(rows: Sequence[Row], rates: Sequence[Row], names: Sequence[str]) -> Figure:
    count = len(names) + bool(rates)
    figure = canvas(3.1 * max(count, 2), 3)
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes, activation in zip(panels, names, strict=False):
        of = [row for row in rows if row["activation"] == activation]
        for number, (part, title) in enumerate(PARTS.items()):
            steps = [row["step"] for row in of]
            axes.plot(steps, [row[f"network loss {part}"] for row in of], color=COLORS[number],
                      lw=1.5, label=title)  # fmt: skip
            axes.plot(steps, [row[f"linear loss {part}"] for row in of], "k:", lw=1.2)
        axes.set_title(activation, fontsize=9)
        label(axes, "step", "loss")
    panels[0].legend(fontsize=6, frameon=False, title="solid: network; dotted: linear model",
                     title_fontsize=6)  # fmt: skip
    if rates:
        axes = panels[-1]
        sizes = sorted({row["d"] for row in rates})
        for number, activation in enumerate(names):
            of = [row for row in rates if row["activation"] == activation]
            axes.plot([row["d"] for row in of], [row["gap / (lr t)^2"] for row in of], "o-",
                        ms=3, color=COLORS[number], label=activation)  # fmt: skip
        axes.plot(sizes, [d**-2.0 for d in sizes], "k--", lw=1, label="1 / d²")
        label(axes, "d, with n = width = 2 d^(5/4)", "mean squared gap / (lr t)²")
        logarithmic(axes, sizes)
    return figure
