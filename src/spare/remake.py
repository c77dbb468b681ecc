"""Make the report of a finished run or discovery again, with its pictures if the data is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spare.datasets import locate
from spare.errors import SpareError
from spare.methods import method_named
from spare.presets import plan
from spare.report import read_record, write_report
from spare.stages import Report
from spare.task import Task


def remake_report(
    folder: Path,
    *,
    data: Path | None = None,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """report.html of this folder; without pictures, and saying so, where the data is not there or
    is not what it was."""
    record = read_record(folder)
    task: Task | None = None
    try:
        task = _task(record, data, report)
    except SpareError as error:
        say(f"warning: the report has no pictures: {error}")
    return write_report(folder, task)


def _task(record: dict[str, Any], data: Path | None, report: Report) -> Task:
    asked = record["settings"] | record["options"]
    source = locate(record["task"], data, asked)
    if source.fingerprint != record["data"]:
        raise SpareError(f"{record['task']} has changed since.")
    planned = plan(source, method_named(record["method"]), asked)
    return planned.load_task(record["seed"], report)
