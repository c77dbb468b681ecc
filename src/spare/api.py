"""Python for everything the command line does: one function per verb, with the same arguments.

    run = spare.train("photos", method="spare", epochs=5)
    print(run)                                  # the tables that `spare train` prints

Data is the name of a task, a path, or an object: arrays, a table, a torch Dataset. What comes back
knows its folder, prints as the command line does, and shows itself in a notebook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from spare.datasets import locate
from spare.errors import InputError
from spare.methods import discovery_with, method_named, with_given_groups
from spare.models import model_description
from spare.progress import Progress
from spare.records.groups_file import GroupTable, read_recorded_groups
from spare.records.layout import REPORT, TABLE, find_runs, run_name, sheet_name
from spare.records.record import (
    BenchTable,
    DiscoveryRecord,
    RunRecord,
    Scores,
    Verdict,
    is_run,
    read_record,
    read_run,
    read_table,
)
from spare.records.weights_file import read_weights
from spare.report.figures import plot_figure
from spare.report.html import bench_html, record_html
from spare.report.text import bench_text, record_text
from spare.report.write import write_comparison_of, write_report
from spare.runs import grid
from spare.runs.plan import make_plan
from spare.runs.restore import network_with, plan_of
from spare.runs.run import Finished
from spare.runs.run import run as walk

RUNS = Path("runs")


@dataclass(frozen=True)
class Discovery:
    """What `spare.discover` found, as it lies in its folder.

    Attributes
    ----------
    folder : Path
        Where everything is: record, groups, report.
    record : dict
        What discovery.json holds.

    Examples
    --------
    >>> import tempfile
    >>> found = discover("digits", out=tempfile.mkdtemp(), separate_at=1)
    >>> sorted(found.record["discovery"])
    ['0-4', '5-9']
    """

    folder: Path
    record: DiscoveryRecord
    _finished: Finished | None = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> Verdict | None:
        """Whether there is a shortcut, for each class and for all."""
        return self.record.get("verdict")

    @cached_property
    def groups(self) -> GroupTable | None:
        """One row per training example: its group, and what the early model said of it."""
        return read_recorded_groups(self.folder, self.record["discovery"])

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / REPORT

    def sheets(self) -> dict[str, Path]:
        """Pictures of each class, one row per cluster; none for data without pictures."""
        classes = enumerate(self.record["discovery"] or {})
        paths = {name: self.folder / sheet_name(number) for number, name in classes}
        return {name: path for name, path in paths.items() if path.is_file()}

    def weights(self, which: str) -> dict[str, Tensor]:
        """Stored weights: `selected`, `last` or `early`."""
        states = read_weights(self.folder)
        if which not in states:
            raise InputError(f"{self.folder} has no {which} weights; it has {', '.join(states)}.")
        return states[which]

    def model(
        self, which: str = "selected", *, data: Path | str | None = None, trust: bool = False
    ) -> nn.Module:
        """The network with the weights of the `selected`, the `last` or the `early` epoch.

        The data is needed for the shape of its inputs; `trust` allows code of your own that the
        record names to be imported.
        """
        progress = Progress()
        if self._finished is not None and self._finished.task is not None:
            plan, task = self._finished.plan, self._finished.task
        else:
            plan = (
                plan_of(self.record, _path(data), trust)
                if self._finished is None
                else self._finished.plan
            )
            task = plan.load_task(self.record["seed"], progress)
        return network_with(self.weights(which), plan, task, progress).eval()

    def write_report(
        self, *, data: Path | str | None = None, layer: str = "", trust: bool = False
    ) -> Path:
        """Make the page again."""
        return write_report(
            self.folder,
            finished=self._finished,
            data=_path(data),
            layer=layer,
            trust=trust,
            progress=_speaking(None),
        )

    def __str__(self) -> str:
        return record_text(self.record)

    def _repr_html_(self) -> str:
        return record_html(self.record)


@dataclass(frozen=True)
class Run(Discovery):
    """A finished training, as it lies in its folder.

    Examples
    --------
    >>> import tempfile
    >>> run = train("digits", method="erm", epochs=1, out=tempfile.mkdtemp(), report=False)
    >>> 0 <= run.scores["test"]["selected"]["worst_group"] <= 1
    True
    """

    record: RunRecord

    @property
    def scores(self) -> dict[str, dict[str, Scores]]:
        """By split, then by epoch (`selected`, `last`, ...): accuracy by group."""
        return self.record["scores"]


@dataclass(frozen=True)
class Bench:
    """Several methods with several seeds, as they lie in their folder.

    Examples
    --------
    >>> import tempfile
    >>> done = bench("digits", methods="erm", seeds=[0], epochs=1, out=tempfile.mkdtemp())
    >>> [row["method"] for row in done.table["rows"]], [run.record["seed"] for run in done.runs]
    (['erm'], [0])
    """

    folder: Path
    table: BenchTable

    @cached_property
    def runs(self) -> list[Run]:
        return [Run(folder, read_run(folder)) for folder in find_runs(self.folder)]

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / REPORT

    def __str__(self) -> str:
        return bench_text(self.table)

    def _repr_html_(self) -> str:
        return bench_html(self.table)


def discover(
    task: Any,
    *,
    inference: str = "spare",
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    model: Any = None,
    threads: int = 1,
    report: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> Discovery:
    """Train a little, and find the groups in which each class falls apart.

    Parameters
    ----------
    task : str, Path, arrays, table or Dataset
        A named task, the path of your own data, `(features, labels)`, a mapping of arrays, a pandas
        or pyarrow table, a torch Dataset of `(input, label)` pairs, or a mapping of split names to
        such Datasets.
    inference : str
        What names the groups; `spare list halves` lists them.
    seed : int
    out : Path, optional
        Folder to write to; by default one below `runs`.
    data : Path, optional
        Folder of data sets, for named tasks.
    model : str, nn.Module or callable, optional
        A name, a network (training starts from its weights), or a function that makes one.
    threads : int
        Threads to compute with; 0 for all.
    report : bool
        Whether to write the HTML page.
    progress : Progress, optional
        Who is told how far it is.
    **settings
        Whatever `--set` takes: `epochs=5`, `label="y"`, `k=4`, ...

    Returns
    -------
    Discovery

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 2
    >>> features = rng.normal(size=(300, 4)) + labels[:, None]
    >>> found = discover((features, labels), out=tempfile.mkdtemp(), report=False)
    >>> len(found.groups.clusters)
    210
    """
    method = discovery_with(inference)
    finished = _walk(
        task, method, f"discover-{{label}}-seed{seed}", seed, out, data, model, threads, progress,
        settings,
    )  # fmt: skip
    _report_once(finished, report, data, progress)
    return Discovery(finished.folder, finished.record, finished)


def train(
    task: Any,
    *,
    method: str = "spare",
    groups: Path | str | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    model: Any = None,
    threads: int = 1,
    report: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> Run:
    """Train one method on a task or on your own data, and score it.

    Interrupted, the same call continues where it was; a finished run is not done again.

    Parameters
    ----------
    task, seed, out, data, model, threads, report, progress, **settings
        As in `discover`.
    method : str
        A name, a pair INFERENCE+TRAINER, or `package.module:METHOD`; `spare list methods`.
    groups : Path, optional
        A file of groups to train with, such as the groups.parquet that `discover` writes.

    Returns
    -------
    Run

    Examples
    --------
    >>> import tempfile
    >>> run = train("digits", method="erm", epochs=1, out=tempfile.mkdtemp(), report=False)
    >>> print(str(run).splitlines()[0])
    erm on digits, seed 0
    """
    if groups is not None:
        method = with_given_groups(method)
        settings["groups"] = str(groups)
    finished = _walk(
        task, method_named(method), f"{{label}}-{run_name(method, seed)}", seed, out, data, model,
        threads, progress, settings,
    )  # fmt: skip
    _report_once(finished, report, data, progress)
    return Run(finished.folder, cast(RunRecord, finished.record), finished)


def bench(
    task: Any,
    *,
    methods: str | Iterable[str] = ("erm", "spare"),
    seeds: Iterable[int] = (0, 1, 2),
    out: Path | str | None = None,
    data: Path | str | None = None,
    model: Any = None,
    jobs: int = 0,
    report: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> Bench:
    """Run several methods with several seeds, each in one thread, and make the table of them.

    Interrupted, the same call continues; finished runs are not done again.

    Parameters
    ----------
    task, out, data, model, report, progress, **settings
        As in `discover`.
    methods : str or list of str
        Names, pairs or import paths as in `train`; "all" for every method that has a name.
    seeds : list of int
    jobs : int
        Runs at a time; 0 for all cores. Data or a model that is an object is run here, one run
        after the other.

    Returns
    -------
    Bench

    Raises
    ------
    RunsFailed
        If some runs failed; the others are in its `table`, and in the folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> done = bench("digits", methods=["erm"], seeds=[0], epochs=1, out=folder, report=False)
    >>> done.table["rows"][0]["seeds"]
    [0]
    """
    overrides, given_model = _overrides(settings, model)
    source = locate(task, _path(data), overrides)
    folder = Path(out) if out is not None else RUNS / f"bench-{source.label}"
    names = methods.split(",") if isinstance(methods, str) else list(methods)
    speaking = _speaking(progress)
    try:
        table = grid.bench(
            source,
            [name.strip() for name in names if name.strip()],
            list(seeds),
            folder,
            overrides=overrides,
            given_model=given_model,
            jobs=jobs or None,
            progress=speaking,
        )
    except grid.RunsFailed as failed:
        if report and failed.table["rows"]:
            write_report(folder, data=_path(data), trust=True, progress=speaking)
        raise
    if report:
        write_report(folder, data=_path(data), trust=True, progress=speaking)
    return Bench(folder, table)


def load_run(folder: Path | str) -> Run | Discovery | Bench:
    """What `train`, `discover` or `bench` left in a folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = train("digits", method="erm", epochs=1, out=folder, report=False)
    >>> load_run(folder).record["method"]
    'erm'
    """
    folder = Path(folder)
    if (folder / TABLE).is_file():
        return Bench(folder, read_table(folder))
    record = read_record(folder)
    return Run(folder, cast(RunRecord, record)) if is_run(record) else Discovery(folder, record)


def compare(
    *runs: Path | str | Run,
    out: Path | str | None = None,
    data: Path | str | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Show several runs of one task side by side, as one HTML file.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> run = train("digits", method="erm", epochs=1, out=f"{out}/run", report=False)
    >>> compare(run, run, out=out).name
    'comparison.html'
    """
    folders = [run.folder if isinstance(run, Run) else Path(run) for run in runs]
    return write_comparison_of(
        folders,
        Path(out) if out is not None else RUNS,
        data=_path(data),
        layer=layer,
        trust=trust,
        progress=_speaking(progress),
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
        [str(one) for one in of],
        Path(out) if out is not None else RUNS / f"{what}.png",
        class_name=of_class,
        data=_path(data),
        layer=layer,
        trust=trust,
        overrides=settings,
        progress=_speaking(progress),
    )


def _walk(
    task: Any,
    method: Any,
    folder_name: str,
    seed: int,
    out: Path | str | None,
    data: Path | str | None,
    model: Any,
    threads: int,
    progress: Progress | None,
    settings: Mapping[str, Any],
) -> Finished:
    overrides, given_model = _overrides(settings, model)
    source = locate(task, _path(data), overrides)
    plan = make_plan(source, method, overrides, given_model)
    folder = Path(out) if out is not None else RUNS / folder_name.format(label=source.label)
    return walk(plan, seed, folder, threads=threads or None, progress=_speaking(progress))


def _overrides(settings: Mapping[str, Any], model: Any) -> tuple[dict[str, Any], Any]:
    """The settings with the model's name; and the model itself, where it is an object."""
    if model is None:
        return dict(settings), None
    if isinstance(model, str):
        return {**settings, "model": model}, None
    return {**settings, "model": model_description(model)}, model


def _report_once(
    finished: Finished, report: bool, data: Path | str | None, progress: Progress | None
) -> None:
    """The last step: the page, made from the finished record; not again where it is there."""
    if report and not (finished.folder / REPORT).exists():
        write_report(
            finished.folder,
            finished=finished,
            data=_path(data),
            trust=True,
            progress=_speaking(progress),
        )


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(os.fspath(path))


def _speaking(progress: Progress | None) -> Progress:
    """Someone who calls from Python reads at least the warnings."""
    if progress is not None:
        return progress
    return Progress(say=lambda line: print(line, file=sys.stderr, flush=True))
