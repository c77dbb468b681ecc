"""Some pictures of every group of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spare.data.task import Split, Task
from spare.data.viewing import pictures
from spare.errors import InputError
from spare.report.figures.canvas import MOST_GROUPS, FigureRequest, canvas, plain_text
from spare.runs.restore import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES = 4


def plot_samples(request: FigureRequest) -> Figure:
    """One row per class, its largest group first."""
    if len(request.of) != 1:
        raise InputError("samples are plotted of one task, or of the path of your own data.")
    task = load_data(request.of[0], request.data, request.overrides, request.progress)
    split = task.train
    if pictures(split.inputs, np.arange(1)) is None:
        raise InputError(f"{task.name} has no pictures: samples need a data set of images.")
    rng = np.random.default_rng(0)
    cells = [_groups_of(task, split, label) for label in range(len(task.class_names))]
    figure = canvas(1.1 * SAMPLES * max(map(len, cells)), 1.25 * len(cells))
    grid = figure.subplots(len(cells), max(map(len, cells)), squeeze=False)
    for axes_row, groups in zip(grid, cells, strict=True):
        for axes in axes_row:
            axes.set_axis_off()
        for axes, (name, rows) in zip(axes_row, groups, strict=False):
            shown = pictures(split.inputs, np.sort(rng.permutation(rows)[:SAMPLES]))
            assert shown is not None
            axes.imshow(np.concatenate(list(shown.permute(0, 2, 3, 1).numpy()), axis=1))
            axes.set_title(f"{plain_text(name)} ({len(rows):,})", fontsize=7)
    return figure


def _groups_of(task: Task, split: Split, label: int) -> list[tuple[str, np.ndarray]]:
    """The groups of a class from the largest down, with their rows; without attributes, itself."""
    class_rows = np.flatnonzero(np.asarray(split.labels) == label)
    if not split.attributes:
        return [(task.class_names[label], class_rows)]
    ids = task.groups(split)[class_rows]
    groups = [(task.group_names[group], class_rows[ids == group]) for group in np.unique(ids)]
    return sorted(groups, key=lambda group: -len(group[1]))[:MOST_GROUPS]
