"""From the arguments of a verb to a finished run or discovery with its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spare.api.results import as_path, folder_for, progress_or_stderr
from spare.datasets import locate
from spare.errors import InputError
from spare.files.building import no_empty_folders
from spare.methods import Method
from spare.models import model_description
from spare.models.named import GIVEN
from spare.processes.world import joined
from spare.progress import Progress
from spare.records.layout import REPORT
from spare.report.write import write_report
from spare.runs.plan import make_plan
from spare.runs.run import Finished, run
from spare.runs.team import team
from spare.runs.worker import Job


def walked(
    task: Any,
    method: Method,
    folder_name: str,
    seed: int,
    out: Path | str | None,
    data: Path | str | None,
    model: Any,
    threads: int,
    processes: int,
    report: bool,
    progress: Progress | None,
    settings: Mapping[str, Any],
) -> Finished:
    """Do what a verb asks for, in this process or in several, and write the report."""
    overrides, given_model = overrides_of(settings, model)
    source = locate(task, as_path(data), overrides)
    plan = make_plan(source, method, overrides, given_model)
    folder = folder_for(out, folder_name.format(label=source.label))
    progress = progress_or_stderr(progress)
    job = Job(source, method.name, seed, folder, overrides)
    objects = (source.in_memory, given_model is not None, method.name.startswith(GIVEN))
    if processes != 1 and any(objects):
        raise InputError(
            "data, a model or a method that is a Python object is in this process alone: give "
            "their names or paths, or start your script with torchrun."
        )
    with (
        no_empty_folders(folder),
        team(processes, job, threads, progress) as seat,
        joined(seat) as world,
    ):
        finished = run(plan, seed, folder, threads=threads, progress=progress)
        if world.leads:
            _report_once(finished, report, progress)
    return finished


def overrides_of(settings: Mapping[str, Any], model: Any) -> tuple[dict[str, Any], Any]:
    """The settings with the model's name; and the model itself, where it is an object."""
    if model is None:
        return dict(settings), None
    if isinstance(model, str):
        return {**settings, "model": model}, None
    return {**settings, "model": model_description(model)}, model


def _report_once(finished: Finished, report: bool, progress: Progress) -> None:
    """The last step: the page, made from the finished record; not again where it is there."""
    if report and not (finished.folder / REPORT).exists():
        write_report(
            finished.folder,
            plan=finished.plan,
            task=finished.task,
            progress=progress,
        )
