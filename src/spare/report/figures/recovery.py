"""How well each method of a bench found the true minorities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spare.errors import InputError
from spare.records.bench_table import read_table, runs_by_method
from spare.records.layout import is_bench
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text
from spare.report.table import Recovery, recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_recovery(request: FigureRequest) -> Figure:
    """By method: how many of the minority are taken for majority, and which share of the majority
    for minority; one row of panels per bench."""
    benches = [_by_seed(Path(folder)) for folder in request.of]
    heights = [0.6 + 0.35 * len(by_seed) for _, by_seed in benches]
    figure = canvas(8, sum(heights))
    grid = figure.subplots(len(benches), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for (left, right), (task, by_seed) in zip(grid, benches, strict=True):
        missed = {method: [float(row.missed) for row in rows] for method, rows in by_seed.items()}
        wrong = {
            method: [100 * row.wrong / max(row.majority, 1) for row in rows]
            for method, rows in by_seed.items()
        }
        minority = np.mean([row.minority for rows in by_seed.values() for row in rows])
        _plot(left, missed, f"minority examples taken for majority, of {minority:,.0f}")
        _plot(right, wrong, "% of the majority taken for minority")
        right.set_yticklabels([])
        if len(benches) > 1:
            left.set_title(plain_text(task), fontsize=9, loc="left")
    return figure


def _by_seed(folder: Path) -> tuple[str, dict[str, list[Recovery]]]:
    """The task of a bench, and by method how well each run found the minorities."""
    if not is_bench(folder):
        raise InputError(f"{folder} is no bench: name a folder that 'spare bench' wrote.")
    runs_of = runs_by_method(folder, read_table(folder))
    by_seed = {
        method: [row for run in runs for row in recovery({method: [run.record]})]
        for method, runs in runs_of.items()
    }
    by_seed = {method: rows for method, rows in by_seed.items() if rows}
    if not by_seed:
        raise InputError(
            f"no run in {folder} inferred groups of data whose true groups are known: bench a "
            f"method such as spare on data with attributes."
        )
    tasks = [run.record["task"] for runs in runs_of.values() for run in runs]
    return tasks[0], by_seed


def _plot(axes: Axes, values: dict[str, list[float]], label: str) -> None:
    means = [float(np.mean(of_method)) for of_method in values.values()]
    axes.barh(list(map(plain_text, values)), means, color=COLORS[0], alpha=0.8)
    for number, of_method in enumerate(values.values()):
        axes.plot(of_method, [number] * len(of_method), "k.", markersize=4)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{label} (one dot per seed)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.invert_yaxis()
