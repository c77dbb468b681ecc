"""Where runs look in the same pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spare.errors import InputError
from spare.records.record import read_run
from spare.report.comparison import read_runs, run_names
from spare.report.figures.canvas import MOST_GROUPS, FigureRequest, canvas, plain_text
from spare.report.saliency_panels import Pictured, worst_group_panels
from spare.report.write import early_and_selected, side_by_side
from spare.runs.restore import check_unchanged, plan_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_saliency(request: FigureRequest) -> Figure:
    """Pictures of the groups on which the runs are worst, and where each run looks in them; of one
    run, where its early model looks and where it looks itself."""
    folders = [Path(folder) for folder in request.of]
    pictured: Pictured | None
    if len(folders) == 1:
        records = [read_run(folders[0])]
        plan = plan_of(folders[0], records[0], request.data, request.trust)
        check_unchanged(plan, records[0])
        task = plan.load_task(records[0]["seed"], request.progress)
        pictured = early_and_selected(
            folders[0], records[0], plan, task, request.layer, request.progress
        )
        if len(pictured.networks) < 2:
            raise InputError(
                f"{folders[0]} has no early model to compare with: name two runs, or one of a "
                f"method such as spare."
            )
    else:
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
