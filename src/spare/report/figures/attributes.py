"""What the clusters go with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spare.errors import InputError
from spare.records.record import Association, read_record
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: CelebA has 40, and pictures have measures of their own.
MOST_ATTRIBUTES = 50


def plot_attributes(request: FigureRequest) -> Figure:
    """Cramér's V of each attribute, the strongest first, one panel per folder: over all examples,
    as in the paper, and with the clusters within classes."""
    panels = [(folder, *_associations(Path(folder))) for folder in request.of]
    rows = max(len(shown) for _, _, shown in panels)
    figure = canvas(6 * len(panels) if len(panels) == 1 else 4.5 * len(panels), 0.8 + 0.26 * rows)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (_, name, shown) in zip(grid, panels, strict=True):
        _plot(axes, shown)
        if len(panels) > 1:
            axes.set_title(plain_text(name), fontsize=9)
    grid[0].legend(fontsize=7, frameon=False, loc="lower right")
    return figure


def _associations(folder: Path) -> tuple[str, list[Association]]:
    """A folder's method, and what its groups go with, the strongest first."""
    record = read_record(folder)
    associations = record.get("associations")
    if not associations:
        raise InputError(
            f"{folder} knows no attributes: name a discovery of pictures, or of data with "
            f"--attributes."
        )
    ordered = sorted(associations, key=lambda each: -each.get("over_all", each["v"]))
    return record["method"], ordered[:MOST_ATTRIBUTES]


def _plot(axes: Axes, shown: list[Association]) -> None:
    places = np.arange(len(shown))
    values = np.array([association["v"] for association in shown])
    low, high = np.array([association["interval"] for association in shown]).T
    known = all("over_all" in association for association in shown)
    if known:
        over_all = [association.get("over_all", 0.0) for association in shown]
        axes.barh(places - 0.2, over_all, 0.4, color=COLORS[1], label="over all examples")
    axes.barh(
        places + 0.2 if known else places, values, 0.4 if known else 0.8, color=COLORS[0],
        xerr=[np.maximum(values - low, 0), np.maximum(high - values, 0)],
        error_kw={"elinewidth": 1}, label="within classes (95 % interval)",
    )  # fmt: skip
    axes.set_yticks(places, [plain_text(association["attribute"]) for association in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("Cramér's V with the inferred groups", fontsize=8)
    axes.tick_params(labelsize=7)
