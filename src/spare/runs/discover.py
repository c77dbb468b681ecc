"""Find the groups in someone's data without training a robust model: the first half of SPARE.

A discovery is a folder: discovery.json (what was found in each class), groups.parquet (one row an
example), report.html and, for images, a sheet of pictures a class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.data.viewing import pictures
from spare.datasets import locate
from spare.errors import check_seed
from spare.findings.associations import associations, parted
from spare.findings.describe import Look, describe, judged, write_groups
from spare.groups.clusters import infer_groups
from spare.groups.weights import importance_weights
from spare.images.statistics import image_statistics, size_statistics
from spare.methods import method_named
from spare.methods.method import Inferred
from spare.methods.spare import SeparationOptions, class_powers, infer
from spare.records.folder import once
from spare.records.weights_file import write_states
from spare.report import write_report
from spare.report.sheets import write_sheets
from spare.report.write import shown
from spare.runs.plan import Plan, plan
from spare.runs.run import collected_warnings, command, limited_threads, versions, with_model
from spare.training.outputs import as_clustered
from spare.training.stages import Report, Stages

RECORD = "discovery.json"
PICTURES_AT_ONCE = 250


def discover(
    task: str,
    seed: int,
    folder: Path,
    *,
    data: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    threads: int | None = 1,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train a little (or take given outputs), cluster each class, and write what was found."""
    check_seed(seed)
    planned = plan(locate(task, data, overrides), method_named("spare"), overrides or {})

    def work(partial: Path) -> dict[str, Any]:
        with limited_threads(threads):
            return _work(planned, seed, partial, report, say, should_stop)

    return once(folder, planned.request(seed), RECORD, work, say)


def _work(
    planned: Plan,
    seed: int,
    partial: Path,
    report: Report,
    say: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    started = time.perf_counter()
    options: Any = planned.options
    stages = Stages(
        seed=seed,
        settings=planned.settings,
        folder=partial,
        judge=lambda epoch, correct, inferred: ({}, {}),
        report=report,
        should_stop=should_stop,
    )
    with collected_warnings(say) as notes:
        report("data", 0, 1)
        pictured = planned.load_task(seed, report)
        report("data", 1, 1)
        task = with_model(pictured, planned, report)
        seen = task.as_seen_by("none")
        if task.holds_outputs:
            found = _of_outputs(seen, options, seed)
        else:
            found = infer(seen, stages, options)
    groups = found.groups
    inferred = time.perf_counter()
    drawn = importance_weights(groups, task.train.labels, class_mass=options.class_mass)
    write_groups(partial, task, groups, found.held_out, drawn, found.looks, found.initial)
    if found.early is not None:
        write_states(partial, {"early": found.early})
    found_there: dict[str, Any] = {
        "kind": planned.source.kind,
        "verdict": judged(task, found.looks),
        "discovery": describe(task, groups, drawn, found.looks),
    }
    described = time.perf_counter()
    report("pictures", 0, 1)
    sheets = write_sheets(partial, pictured, groups, seed)
    found_there |= {
        "associations": _associations(pictured, groups.ids, seed),
        "splits": {name: len(split) for name, split in task.splits().items()},
        "sheets": sheets,
        "notes": {"separated_at": found.looks[-1].epoch, "warnings": notes},
        "versions": versions(),
        "command": command(planned, seed, verb="discover"),
    }
    record = {**planned.request(seed), **found_there}
    page = time.perf_counter()
    write_report(partial, shown(partial, record, planned, pictured, report=report, say=say), record)
    report("pictures", 1, 1)
    now = time.perf_counter()
    seconds = stages.seconds | {
        "description": described - inferred,
        "associations": page - described,
        "report": now - page,
        "total": now - started,
    }
    return found_there | {"seconds": {name: round(value, 3) for name, value in seconds.items()}}


def _associations(task: Task, ids: np.ndarray, seed: int) -> list[dict[str, Any]]:
    """What the clusters go with, of the attributes that are known and of what pictures show."""
    codes = {name: np.asarray(of) for name, of in (task.train.attributes or {}).items()}
    values = dict(task.attribute_values)
    for name, numbers in _statistics(task).items():
        shown = f"image: {name}"
        codes[shown], values[shown] = parted(numbers)
    return associations(
        ids, np.asarray(task.train.labels), codes, values, class_names=task.class_names, seed=seed
    )


def _statistics(task: Task) -> dict[str, np.ndarray]:
    """The statistics of every training picture; {} for data without pictures."""
    inputs, rows = task.train.inputs, np.arange(len(task.train))
    if task.holds_outputs or pictures(inputs, rows[:1]) is None:
        return {}
    parts = []
    for start in range(0, len(rows), PICTURES_AT_ONCE):
        shown = pictures(inputs, rows[start : start + PICTURES_AT_ONCE])
        assert shown is not None
        parts.append(image_statistics(shown))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return found | ({} if task.sizes is None else size_statistics(task.sizes))


def _of_outputs(task: Task, options: SeparationOptions, seed: int) -> Inferred:
    """Given outputs are clustered as they are; logits become probabilities if that is asked for."""
    points = {
        name: as_clustered(split.inputs.take(np.arange(len(split))), options.output)
        for name, split in task.splits().items()
    }
    groups = infer_groups(
        points["train"],
        task.train.labels,
        k=options.k or None,
        k_max=options.k_max,
        power=class_powers(options.power, task),
        seed=seed,
    )
    held_out = {
        name: groups.assign(points[name], split.labels)
        for name, split in task.splits().items()
        if name != "train"
    }
    said = as_clustered(points["train"], "softmax").numpy()
    return Inferred(groups, held_out, looks=(Look(None, said, groups),))
