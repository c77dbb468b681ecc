"""What the figures of the studies share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def label(axes: Axes, across: str, up: str = "") -> None:
    """Small labels, and a legend where something has a name."""
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.tick_params(labelsize=7)
    if axes.get_legend() is None and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=6, frameon=False)


def logarithmic(axes: Axes, ticks: Iterable[float]) -> None:
    """Both axes logarithmic; the horizontal one with these ticks, written out."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="y", which="minor", labelsize=6)
