"""What the functions return: folders that print as the command line does and show themselves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torch import Tensor, nn

from spare.errors import InputError
from spare.files.paths import path_given
from spare.progress import SILENT, Progress
from spare.records.bench_table import BenchTable, runs_by_method
from spare.records.groups_file import GroupTable, read_recorded_groups
from spare.records.layout import GROUPS, REPORT, sheet_name
from spare.records.record import DiscoveryRecord, RunRecord, Scores, Verdict
from spare.records.weights_file import read_weights
from spare.report.html import bench_html, record_html
from spare.report.text import bench_text, record_text
from spare.report.write import write_bench_report, write_report
from spare.runs.plan import Plan
from spare.runs.restore import network_with, plan_of
from spare.text import printable_lines

#: Where folders go that are given no name.
RUNS = Path("runs")


def as_path(path: Path | str | None, what: str = "data") -> Path | None:
    return None if path is None else path_given(what, path)


def folder_for(out: Path | str | None, name: str) -> Path:
    """The folder to write to, by default one below `runs`."""
    return RUNS / name if out is None else path_given("out", out)


def progress_or_stderr(progress: Progress | None) -> Progress:
    """Whoever calls from Python reads at least the warnings."""
    if progress is not None:
        return progress
    return Progress(say=_say)


def _say(line: str) -> None:
    # An encoding that lacks a character, or a stream that is closed, costs no training.
    with contextlib.suppress(OSError, ValueError):
        print(printable_lines(line), file=sys.stderr, flush=True)


@dataclass(frozen=True, repr=False)
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
    >>> import spare, tempfile
    >>> found = spare.discover("digits", out=tempfile.mkdtemp(), separate_at=1)
    >>> sorted(found.record["discovery"])
    ['0-4', '5-9']
    """

    folder: Path
    record: DiscoveryRecord
    #: How it was made, where that is known.
    plan: Plan | None = field(default=None, compare=False)

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

    def training_command(self) -> str:
        """The command that trains with these groups; empty for objects, and for outputs alone."""
        only_outputs = self.record["notes"].get("separated_at", 0) is None
        if self.plan is None or self.plan.source.in_memory or only_outputs:
            return ""
        return self.plan.training_command(self.folder / GROUPS)

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

        The data is needed for the shape of its inputs. Of a folder that someone else made, name it
        with `data`; `trust` allows whatever code and files the record names.
        """
        plan = self.plan or plan_of(self.folder, self.record, as_path(data), trust)
        task = plan.load_task(self.record["seed"], SILENT)
        return network_with(self.weights(which), plan, task, SILENT).eval()

    def write_report(
        self, *, data: Path | str | None = None, layer: str = "", trust: bool = False
    ) -> Path:
        """Make the page again."""
        return write_report(
            self.folder,
            plan=self.plan,
            data=as_path(data),
            layer=layer,
            trust=trust,
            progress=progress_or_stderr(None),
        )

    def __str__(self) -> str:
        return record_text(self.record)

    def __repr__(self) -> str:
        record = self.record
        what = f"{record['method']} on {record['task']}, seed {record['seed']}"
        return f"<{type(self).__name__}: {what}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return record_html(self.record)


@dataclass(frozen=True, repr=False)
class Run(Discovery):
    """A finished training, as it lies in its folder.

    Attributes
    ----------
    folder : Path
        Where everything is: record, weights, groups, report.
    record : dict
        What run.json holds.

    Examples
    --------
    >>> import spare, tempfile
    >>> run = spare.train("digits", method="erm", epochs=1, out=tempfile.mkdtemp(), report=False)
    >>> 0 <= run.scores["test"]["selected"]["worst_group"] <= 1
    True
    """

    record: RunRecord

    @property
    def scores(self) -> dict[str, dict[str, Scores]]:
        """By split, then by epoch (`selected`, `last`, ...): accuracy by group."""
        return self.record["scores"]


@dataclass(frozen=True, repr=False)
class Bench:
    """Several methods with several seeds, as they lie in their folder.

    Attributes
    ----------
    folder : Path
        One folder per run, the table and the report.
    table : dict
        What table.json holds: every method over its seeds.

    Examples
    --------
    >>> import numpy as np, spare, tempfile
    >>> labels = np.arange(100) % 2
    >>> data = (labels[:, None] + np.zeros((100, 3)), labels)
    >>> done = spare.bench(data, methods="erm", seeds=[0, 1], epochs=1, out=tempfile.mkdtemp())
    >>> len(done.table["rows"]), [run.record["seed"] for run in done.runs]
    (1, [0, 1])
    """

    folder: Path
    table: BenchTable
    #: How the runs were made, by method, where that is known.
    plans: Mapping[str, Plan] | None = field(default=None, compare=False)

    @cached_property
    def runs(self) -> list[Run]:
        """Every run of the table."""
        return [
            Run(stored.folder, stored.record, (self.plans or {}).get(method))
            for method, stored_runs in runs_by_method(self.folder, self.table).items()
            for stored in stored_runs
        ]

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / REPORT

    def write_report(
        self, *, data: Path | str | None = None, layer: str = "", trust: bool = False
    ) -> Path:
        """Make the page again."""
        return write_bench_report(
            self.folder,
            plans=self.plans,
            data=as_path(data),
            layer=layer,
            trust=trust,
            progress=progress_or_stderr(None),
        )

    def __str__(self) -> str:
        return bench_text(self.table)

    def __repr__(self) -> str:
        methods = ", ".join(row["method"] for row in self.table["rows"])
        return f"<Bench: {methods}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return bench_html(self.table)
