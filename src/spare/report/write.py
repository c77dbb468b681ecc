"""Pages of finished folders, with their pictures if the data is there: a run's, or of several.

A folder may come from anyone: what it names is looked up, but nothing of it is run. Only with
`trust` is a model or a method imported that is a user's own function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from spare.data.inputs import ConcatInputs, SubsetInputs, shape_of
from spare.data.task import Split, Task
from spare.datasets import locate
from spare.errors import InputError, SpareError
from spare.findings.describe import read_examples
from spare.methods import method_named
from spare.records.weights_file import network_with, read_states
from spare.report import Pictured, read_record, write_comparison, write_report
from spare.report.comparison import names, read_runs
from spare.report.table import TABLE, runs_of, write_table_page
from spare.runs.plan import Plan, plan
from spare.training.stages import Report

Say = Callable[[str], None]


def remake_report(
    folder: Path,
    *,
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    report: Report = lambda what, done, total: None,
    say: Say = lambda line: None,
) -> Path:
    """report.html of a run, a discovery or a bench; without pictures, and saying so, where the data
    is not there or is not what it was."""
    if (folder / TABLE).is_file():
        return _bench_report(folder, data, layer, trust, report, say)
    record = read_record(folder)
    pictured = None
    try:
        planned = planned_again(record, data, trust)
        try:
            _check_unchanged(planned, record)
            task = planned.load_task(record["seed"], report)
        except SpareError as error:
            task = _found_by_name(folder, record, planned, report)
            say(f"warning: pictures are looked up by their names: {error}")
        pictured = shown(folder, record, planned, task, layer=layer, report=report, say=say)
    except SpareError as error:
        say(f"warning: the report has no pictures: {error}")
    return write_report(folder, pictured)


def _found_by_name(folder: Path, record: Mapping[str, Any], planned: Plan, report: Report) -> Task:
    """The examples of groups.parquet with the pictures that are still there under their names, for
    data of which files are gone; the true groups of such data are not looked for."""
    known = read_examples(folder, record["discovery"])
    if known is None or known.names is None or "skip_bad" not in planned.choices:
        raise SpareError(f"{record['task']} has changed since.")
    left = replace(planned, choices=planned.choices | {"skip_bad": True})
    task = left.load_task(record["seed"], report)
    splits = task.splits()
    place = {
        name: i for i, name in enumerate(name for split in splits for name in task.names[split])
    }
    rows = np.array([place.get(name, -1) for name in known.names])
    if (rows < 0).all():
        raise SpareError(f"none of the pictures of {record['task']} are there any more.")
    classes = list(record["discovery"])
    inputs = SubsetInputs(ConcatInputs(*(split.inputs for split in splits.values())), rows)
    return Task(
        name=task.name,
        train=Split(inputs, np.array([classes.index(label) for label in known.labels])),
        val=None,
        test=None,
        class_names=tuple(classes),
        attribute_values={},
    )


def compare(
    folders: Sequence[Path],
    out: Path,
    *,
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    report: Report = lambda what, done, total: None,
    say: Say = lambda line: None,
) -> Path:
    """One page of several runs of one task, with where each looks if the data is there."""
    records = read_runs(folders)
    runs = list(zip(names(records), folders, records, strict=True))
    return write_comparison(records, out, side_by_side(runs, data, layer, trust, report, say))


def _bench_report(
    folder: Path, data: Path | None, layer: str, trust: bool, report: Report, say: Say
) -> Path:
    """Where plain training and SPARE look, or the first two methods, each with its first seed."""
    firsts = {method: records[0] for method, records in runs_of(folder).items() if records}
    wanted = ["erm", "spare"] if {"erm", "spare"} <= firsts.keys() else list(firsts)[:2]
    runs = [(name, folder / firsts[name]["folder"], firsts[name]) for name in wanted]
    return write_table_page(folder, side_by_side(runs, data, layer, trust, report, say))


def side_by_side(
    runs: Sequence[tuple[str, Path, Mapping[str, Any]]],
    data: Path | None,
    layer: str,
    trust: bool,
    report: Report,
    say: Say,
) -> Pictured | None:
    """The pictures of the first run's data, and the selected network of each run."""
    networks: dict[str, nn.Module] = {}
    task: Task | None = None
    for name, folder, record in runs:
        try:
            planned = planned_again(record, data, trust)
            _check_unchanged(planned, record)
            task = task or planned.load_task(record["seed"], report)
            networks |= _networks(folder, {"selected": name}, planned, task, report)
        except SpareError as error:
            say(f"warning: the page does not show where {name} looks: {error}")
    return None if task is None or not networks else Pictured(task, networks, layer)


def shown(
    folder: Path,
    record: Mapping[str, Any],
    planned: Plan,
    task: Task,
    *,
    layer: str = "",
    report: Report,
    say: Say,
) -> Pictured:
    """The pictures of this folder's page, and its networks: that of the first epochs, from which
    the groups come, beside the one that was trained."""
    epoch = record["notes"].get("separated_at")
    early = "reference model" if epoch is None else f"plain, after epoch {epoch}"
    trained = f"{record['method']}, epoch {record.get('selected_epoch')}"
    networks: dict[str, nn.Module] = {}
    try:
        wanted = {"early": early, "selected": trained}
        networks = _networks(folder, wanted, planned, task, report)
    except SpareError as error:
        say(f"warning: the report does not show where the model looks: {error}")
    return Pictured(task, networks, layer)


def planned_again(record: Mapping[str, Any], data: Path | None, trust: bool) -> Plan:
    """The plan of a folder's run, for the data as it is now."""
    asked = record["settings"] | record["options"]
    model = asked.get("model", "")
    named = {"method": record["method"], "model": "" if model.startswith("timm:") else model}
    for what, name in named.items():
        if ":" in name and not trust:
            raise InputError(
                f"its {what} is {name!r}, a function that would be imported: use --trust if it is "
                f"yours."
            )
    return plan(locate(record["task"], data, asked), method_named(record["method"]), asked)


def _check_unchanged(planned: Plan, record: Mapping[str, Any]) -> None:
    if planned.source.fingerprint != record["data"]:
        raise SpareError(f"{record['task']} has changed since.")


def _networks(
    folder: Path, wanted: Mapping[str, str], planned: Plan, task: Task, report: Report
) -> dict[str, nn.Module]:
    """The stored networks by the names that the page has for them; {} for data without pictures."""
    if len(shape_of(task.train.inputs)) != 3:
        return {}
    states = read_states(folder)
    return {
        name: network_with(states[state], planned, task, report)
        for state, name in wanted.items()
        if state in states
    }
