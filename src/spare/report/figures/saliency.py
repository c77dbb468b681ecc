"""Where runs look in the same pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spare.errors import InputError
from spare.report.comparison import read_runs, run_names
from spare.report.figures.canvas import MOST_GROUPS, FigureRequest, canvas, plain_text
from spare.report.saliency_panels import worst_group_panels
from spare.report.write import side_by_side

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_saliency(request: FigureRequest) -> Figure:
    """Pictures of the groups on which the runs are worst, and where each run looks in them."""
    folders = [Path(folder) for folder in request.of]
    records = read_runs(folders)
    pictured = side_by_side(
        list(zip(run_names(records), folders, records, strict=True)),
        request.data,
        request.layer,
        request.trust,
        request.progress,
    )
    shown = None if pictured is None else worst_group_panels(records, pictured)
    if shown is None or not shown.panels:
        why = "there are no pictures" if shown is None else shown.problem
        raise InputError(f"where these runs look cannot be shown: {why}")
    panels = [panel for panel in shown.panels if panel.examples][:MOST_GROUPS]
    columns = 1 + len(shown.names)
    figure = canvas(1.5 * columns, 1.75 * len(panels))
    grid = figure.subplots(len(panels), columns, squeeze=False)
    for axes_row, panel in zip(grid, panels, strict=True):
        for number, (axes, cell) in enumerate(zip(axes_row, panel.examples[0].cells, strict=True)):
            tile = shown.tiles[cell.tile]
            assert tile is not None
            axes.set_axis_off()
            axes.imshow(tile.permute(1, 2, 0).numpy())
            title = panel.title
            if number:
                name = shown.names[number - 1]
                title = f"{name}: {cell.predicted} {100 * cell.confidence:.0f} %"
            axes.set_title(plain_text(title), fontsize=7)
    return figure
