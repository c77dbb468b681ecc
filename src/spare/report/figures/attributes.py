"""What the clusters go with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spare.errors import InputError
from spare.records.record import read_record
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ATTRIBUTES = 40


def plot_attributes(request: FigureRequest) -> Figure:
    """Cramér's V of each attribute with the clusters, the strongest first."""
    associations = read_record(request.folder).get("associations")
    if not associations:
        raise InputError(
            f"{request.folder} knows no attributes: name a discovery of pictures, or of data with "
            f"--attributes."
        )
    shown = associations[:MOST_ATTRIBUTES]
    figure = canvas(6, 0.6 + 0.24 * len(shown))
    axes = figure.subplots()
    values = np.array([association["v"] for association in shown])
    low, high = np.array([association["interval"] for association in shown]).T
    axes.barh(
        [plain_text(association["attribute"]) for association in shown], values, color=COLORS[0],
        xerr=[np.maximum(values - low, 0), np.maximum(high - values, 0)],
        error_kw={"elinewidth": 1},
    )  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("Cramér's V with the clusters, within classes (95 % interval)", fontsize=8)
    axes.tick_params(labelsize=8)
    return figure
