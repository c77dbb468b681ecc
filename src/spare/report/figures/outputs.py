"""The early model's outputs for one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spare.data.task import Task
from spare.errors import InputError, SpareError, unknown
from spare.records.groups_file import GroupTable, read_recorded_groups
from spare.records.record import DiscoveryRecord, read_record
from spare.report.figures.canvas import COLORS, FigureRequest, canvas, plain_text
from spare.runs.restore import check_fits, check_unchanged, plan_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 4000


def plot_outputs(request: FigureRequest) -> Figure:
    """Outputs in two components, colored by true group or, where those are unknown, by cluster."""
    record = read_record(request.folder)
    table = read_recorded_groups(request.folder, record["discovery"])
    if table is None or table.points is None or record["discovery"] is None:
        raise InputError(
            f"{request.folder} has no outputs of an early model to plot: name a folder of "
            f"'spare discover', or of a method that infers groups from early outputs."
        )
    classes = list(record["discovery"])
    class_name = request.class_name or classes[0]
    if class_name not in classes:
        raise unknown("class", class_name, classes)
    rows = np.flatnonzero(table.labels == class_name)
    codes = table.clusters[rows] - table.clusters[rows].min()
    names = [f"cluster {number + 1}" for number in range(int(codes.max()) + 1)]
    task = _true_groups(request, record, table)
    if task is not None and task.train.attributes:
        groups = task.groups(task.train)[rows]
        present = sorted(np.unique(groups), key=lambda group: -int((groups == group).sum()))
        codes = np.array([present.index(group) for group in groups])
        names = [task.group_names[group] for group in present]
    rng = np.random.default_rng(0)
    points, vertical = table.points.copy(), "second component"
    if np.ptp(points[rows, 1]) < 1e-6:  # two classes have one component
        points[rows, 1] = rng.random(len(rows))
        vertical = "(spread at random)"
    figure = canvas(6, 4.5)
    axes = figure.subplots()
    for number, name in enumerate(names):
        group_rows = rng.permutation(rows[codes == number])[:MOST_POINTS]
        axes.scatter(
            points[group_rows, 0],
            points[group_rows, 1],
            s=9,
            color=COLORS[number % len(COLORS)],
            alpha=0.7,
            linewidths=0,
            label=f"{plain_text(name)} ({int((codes == number).sum()):,})",
        )
    axes.set_xlabel("first component of the logits")
    axes.set_ylabel(vertical)
    silhouette = record["discovery"][class_name]["silhouette"]
    suffix = "" if silhouette is None else f", silhouette of the clusters {silhouette:.3f}"
    axes.set_title(f"class {plain_text(class_name)}{suffix}", fontsize=10)
    axes.legend(fontsize=7, frameon=False, markerscale=2)
    return figure


def _true_groups(request: FigureRequest, record: DiscoveryRecord, table: GroupTable) -> Task | None:
    """The data, for its true groups; None where it is not there or is not what it was."""
    try:
        plan = plan_of(request.folder, record, request.data, request.trust)
        check_unchanged(plan, record)
        task = plan.load_task(record["seed"], request.progress)
        check_fits(table, record, task)
        return task
    except SpareError as error:
        request.progress.say(f"warning: the figure is colored by cluster: {error}")
        return None
