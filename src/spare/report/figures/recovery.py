"""How well each method of a bench found the true minorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spare.errors import InputError
from spare.records.bench_table import read_table, runs_by_method
from spare.records.layout import is_bench
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text
from spare.report.table import recovery

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_recovery(request: FigureRequest) -> Figure:
    """By method: minorities taken for majority, and majorities taken for minority."""
    if not is_bench(request.folder):
        raise InputError(f"{request.folder} is no bench: name a folder that 'spare bench' wrote.")
    by_seed = {
        method: [row for run in runs for row in recovery({method: [run.record]})]
        for method, runs in runs_by_method(request.folder, read_table(request.folder)).items()
    }
    by_seed = {method: rows for method, rows in by_seed.items() if rows}
    if not by_seed:
        raise InputError(
            f"no run in {request.folder} inferred groups of data whose true groups are known: "
            f"bench a method such as spare on data with attributes."
        )
    figure = canvas(8, 0.6 + 0.35 * len(by_seed))
    left, right = figure.subplots(1, 2, sharey=True)
    counts = {method: [(row.missed, row.wrong) for row in rows] for method, rows in by_seed.items()}
    for kind, (axes, label) in enumerate(
        (
            (left, "minority examples taken for majority"),
            (right, "majority examples taken for minority"),
        )
    ):
        values = [[pair[kind] for pair in pairs] for pairs in counts.values()]
        means = [np.mean(of_method) for of_method in values]
        axes.barh(list(map(plain_text, by_seed)), means, color=COLORS[0], alpha=0.8)
        for number, of_method in enumerate(values):
            axes.plot(of_method, [number] * len(of_method), "k.", markersize=4)
        axes.set_xlabel(f"{label} (one dot per seed)", fontsize=8)
        axes.tick_params(labelsize=8)
    left.invert_yaxis()
    return figure
