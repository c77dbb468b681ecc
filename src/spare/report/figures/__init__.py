"""The paper's figures, each from one command, as a PNG or SVG file.

samples     some pictures of every group of a data set: one row per class
outputs     the early model's outputs for a class, in two components, colored by true group
recovery    minorities taken for majority, and majorities taken for minority, by method, of one or
            more benches
attributes  Cramér's V of each attribute with the groups of one or more runs, over all examples and
            within classes
saliency    the same pictures as two or more runs look at them, or as one run did early and does now
clusters    size and accuracy of every cluster of every class

A figure is one module with one function from a `FigureRequest` to a Matplotlib figure, and one line
in FIGURES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spare.errors import InputError, unknown
from spare.progress import SILENT, Progress
from spare.report.figures.attributes import plot_attributes
from spare.report.figures.canvas import FigureRequest, check_format, save_figure
from spare.report.figures.clusters import plot_clusters
from spare.report.figures.outputs import plot_outputs
from spare.report.figures.recovery import plot_recovery
from spare.report.figures.saliency import plot_saliency
from spare.report.figures.samples import plot_samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[FigureRequest], Figure]] = {
    "samples": plot_samples,
    "outputs": plot_outputs,
    "recovery": plot_recovery,
    "attributes": plot_attributes,
    "saliency": plot_saliency,
    "clusters": plot_clusters,
}


def plot_figure(
    name: str,
    of: Sequence[str],
    out: Path,
    *,
    class_name: str = "",
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    overrides: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
) -> Path:
    """Plot one figure of a task, or of the folders of runs or discoveries, into the file `out`."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    check_format(out)
    if not of:
        raise InputError(f"name what {name!r} is to be plotted of: a task or a folder.")
    request = FigureRequest(tuple(of), class_name, data, layer, trust, overrides or {}, progress)
    figure = FIGURES[name](request)
    save_figure(figure, out)
    return out
