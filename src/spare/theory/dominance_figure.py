"""The figure of `dominance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spare.report.figures.canvas import COLORS, canvas
from spare.theory.axes import label, logarithmic
from spare.theory.study import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(by_ratio: Sequence[Row], by_share: Sequence[Row]) -> Figure:
    figure = canvas(9.6 if by_share else 5, 3.4)
    panels = figure.subplots(1, 2 if by_share else 1, squeeze=False)[0]
    axes = panels[0]
    names = list(dict.fromkeys(row["activation"] for row in by_ratio))
    first = [row for row in by_ratio if row["activation"] == names[0]]
    ratios = [row["ratio"] for row in first]
    axes.plot(ratios, [row["bound"] for row in first], "k--", lw=1,
              label="bound for the core feature")  # fmt: skip
    axes.plot(ratios, [row["optimum core"] for row in first], "k:", lw=1,
              label="best linear model")  # fmt: skip
    axes.plot(ratios, [row["optimum spurious"] for row in first], "k:", lw=1)
    for number, activation in enumerate(names):
        rows = [row for row in by_ratio if row["activation"] == activation]
        color = COLORS[number % len(COLORS)]
        axes.plot([r["ratio"] for r in rows], [r["core"] for r in rows], "o", color=color, ms=4,
                  label=f"core, {activation}")  # fmt: skip
        axes.plot([r["ratio"] for r in rows], [r["spurious"] for r in rows], "^", color=color,
                  ms=4, mfc="none", label=f"spurious, {activation}")  # fmt: skip
    logarithmic(axes, ratios)
    label(axes, "R_s / R_c", "|output| along the feature (the label is 1)")
    if by_share:
        axes = panels[1]
        shares = [round(100 * (1 - row["correlation"]), 6) for row in by_share]
        axes.axhline(by_share[0]["bound"], color="k", ls="--", lw=1, label="bound")
        axes.plot(shares, [row["optimum core"] for row in by_share], "k:", lw=1,
                  label="best linear model")  # fmt: skip
        axes.plot(shares, [row["core"] for row in by_share], "o", ms=4, color=COLORS[0],
                  label=f"core, {by_share[0]['activation']}")  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.set_xticks([], minor=True)
        label(axes, "minority, % of a class", "|output| along the core feature")
        axes.set_title(f"R_s / R_c = {by_share[0]['ratio']:g}", fontsize=9)
    return figure
