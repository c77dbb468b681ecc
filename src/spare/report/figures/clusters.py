"""Size and accuracy of every cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spare.errors import InputError
from spare.records.record import read_record
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_clusters(request: FigureRequest) -> Figure:
    """One block per class: the first cluster of a class is its largest."""
    described = read_record(request.folder)["discovery"] or {}
    rows = [
        (f"{name}, cluster {number}", cluster, number)
        for name, groups in described.items()
        for number, cluster in enumerate(groups.get("clusters", []), start=1)
        if cluster["size"]
    ]
    if not rows:
        raise InputError(
            f"{request.folder} has no clusters of an early model's outputs: name a discovery, or "
            f"a run of a method that clusters."
        )
    figure = canvas(8, 0.7 + 0.24 * len(rows))
    left, right = figure.subplots(1, 2, sharey=True)
    labels = [plain_text(label) for label, _, _ in rows]
    colors = [COLORS[(number - 1) % len(COLORS)] for _, _, number in rows]
    accuracies = [100 * (cluster["accuracy"] or 0.0) for _, cluster, _ in rows]
    sizes = [cluster["size"] for _, cluster, _ in rows]
    for axes, values, texts, label in (
        (left, accuracies, [f"{value:.0f}" for value in accuracies], "right by the early model, %"),
        (right, sizes, [f"{size:,}" for size in sizes], "examples (logarithmic)"),
    ):
        bars = axes.barh(labels, values, color=colors)
        axes.bar_label(bars, texts, fontsize=7, padding=2)
        axes.set_xlabel(label, fontsize=8)
        axes.tick_params(labelsize=7)
    left.set_xlim(0, 112)
    right.set_xscale("log")
    right.set_xlim(0.7, 3 * max(sizes))
    left.invert_yaxis()
    return figure
