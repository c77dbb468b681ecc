"""Verbs that show what was found: report, compare, figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from spare.cli.app import Data, Json, Layer, Out, Set, Trust, app, settings_of
from spare.cli.console import Bars, write, write_json


@app.command
def report(
    run: Path, *, data: Data = None, layer: Layer = "", trust: Trust = False, json: Json = False
) -> None:
    """Make the report of a run, a discovery or a bench again: one HTML file that works offline."""
    with Bars() as bars:
        from spare.report.write import write_report

        path = write_report(run, data=data, layer=layer, trust=trust, progress=bars.progress())
    _print_path("Report", path, json)


@app.command
def compare(
    *runs: Path,
    out: Out = None,
    data: Data = None,
    layer: Layer = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Several runs of one task side by side, as one HTML file: accuracy by group, cost, and where
    each looks."""
    with Bars() as bars:
        from spare import api

        path = api.compare(
            *runs, out=out, data=data, layer=layer, trust=trust, progress=bars.progress()
        )
    _print_path("Comparison", path, json)


@app.command
def figure(
    what: Literal["samples", "outputs", "recovery", "attributes", "saliency", "clusters"],
    *of: Annotated[
        str, Parameter(help="A task or the path of your own data, or folders that spare wrote.")
    ],
    out: Annotated[
        Path | None, Parameter(help="File to write, .png or .svg; else runs/WHAT.png.")
    ] = None,
    of_class: Annotated[str, Parameter(name="--class", help="The class of 'outputs'.")] = "",
    data: Data = None,
    set: Set = None,
    layer: Layer = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Plot one of the paper's figures: samples of a task; outputs or clusters of a folder;
    attributes of one or more; recovery of one or more benches; saliency of runs, or of one run
    early and late."""
    with Bars() as bars:
        from spare import api

        path = api.figure(
            what,
            *of,
            out=out,
            of_class=of_class,
            data=data,
            layer=layer,
            trust=trust,
            progress=bars.progress(),
            **settings_of(set),
        )
    _print_path("Figure", path, json)


def _print_path(what: str, path: Path, json: bool) -> None:
    if json:
        write_json({"figure" if what == "Figure" else "report": str(path)})
    else:
        write(f"{what}: {path}")
