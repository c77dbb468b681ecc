"""What runs left behind, as pages and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spare.api.results import RUNS, Run, as_path, folder_for, progress_or_stderr
from spare.files.paths import path_given
from spare.progress import Progress
from spare.report.figures import plot_figure
from spare.report.write import write_comparison_of


def compare(
    *runs: Path | str | Run,
    out: Path | str | None = None,
    data: Path | str | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Show several runs of one task side by side, as one HTML file.

    Parameters
    ----------
    *runs : Path or Run
        At least two, of one task.
    out : Path, optional
        Folder to write to; by default `runs`.
    data : Path, optional
        Where the data is, for pictures: the folder of data sets, or the very file or folder.
    layer : str
        Layer at which saliency is taken; by default it is chosen.
    trust : bool
        Whether code that the records name may be imported, and files that they name be read.
    progress : Progress, optional
        Receives progress and messages.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import spare, tempfile
    >>> out = tempfile.mkdtemp()
    >>> run = spare.train("digits", method="erm", epochs=1, out=f"{out}/run", report=False)
    >>> compare(run, run, out=out).name
    'comparison.html'
    """
    folders = [run.folder if isinstance(run, Run) else Path(run) for run in runs]
    return write_comparison_of(
        folders,
        RUNS if out is None else path_given("out", out),
        data=as_path(data),
        layer=layer,
        trust=trust,
        progress=progress_or_stderr(progress),
    )


def figure(
    what: str,
    *of: Path | str,
    out: Path | str | None = None,
    of_class: str = "",
    data: Path | str | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Path:
    """Plot one of the paper's figures as a PNG or SVG file.

    Parameters
    ----------
    what : str
        samples, outputs, recovery, attributes, saliency or clusters.
    *of
        A task or the path of your own data (samples), or folders of runs.
    of_class : str
        The class of `outputs`.

    Examples
    --------
    >>> import tempfile
    >>> figure("samples", "digits", out=f"{tempfile.mkdtemp()}/samples.png").name
    'samples.png'
    """
    return plot_figure(
        what,
        [str(path) for path in of],
        folder_for(out, f"{what}.png"),
        class_name=of_class,
        data=as_path(data),
        layer=layer,
        trust=trust,
        overrides=settings,
        progress=progress_or_stderr(progress),
    )
