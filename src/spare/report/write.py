"""Write the pages of finished folders, with their pictures if the data is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import nn

from spare.data.task import Task
from spare.errors import SpareError
from spare.progress import SILENT, Progress
from spare.records.bench_table import read_table, runs_by_method
from spare.records.groups_file import read_recorded_groups
from spare.records.layout import is_bench
from spare.records.record import DiscoveryRecord, RunRecord, is_run, read_record
from spare.report.comparison import read_runs, run_names, write_comparison
from spare.report.page import write_page
from spare.report.saliency_panels import Pictured
from spare.report.sheets import write_sheets
from spare.report.table import write_table_page
from spare.runs.plan import Plan
from spare.runs.restore import check_fits, check_unchanged, networks_of, plan_of, task_by_name


def write_report(
    folder: Path,
    *,
    plan: Plan | None = None,
    task: Task | None = None,
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write report.html of a run, a discovery or a bench.

    Without pictures, and saying so, where the data is not there or is not what it was.

    Parameters
    ----------
    plan, task
        Of a run that just ended: nothing is restored from its record, and its data is not loaded
        again.
    layer
        The layer at which saliency is taken; the last one that keeps places if empty.
    trust
        Whether code that the record names may be imported, and files that it names be read.
    """
    if is_bench(folder):
        return write_bench_report(folder, data=data, layer=layer, trust=trust, progress=progress)
    progress.report("report", 0, 1)
    record = read_record(folder)
    groups = read_recorded_groups(folder, record["discovery"])
    pictured = None
    try:
        plan = plan or plan_of(folder, record, data, trust)
        task = task or _load_task(folder, record, plan, progress)
        check_fits(groups, record, task)
        pictured = early_and_selected(folder, record, plan, task, layer, progress)
        if not is_run(record):
            write_sheets(folder, task, record, groups)
    except SpareError as error:
        missing = "has no pictures" if pictured is None else "has no sheets of pictures beside it"
        progress.say(f"warning: the report {missing}: {error}")
    page = write_page(folder, record, groups, pictured)
    progress.report("report", 1, 1)
    return page


def _load_task(folder: Path, record: DiscoveryRecord, plan: Plan, progress: Progress) -> Task:
    """The data, if it is what it was; else what is still there of its pictures."""
    try:
        check_unchanged(plan, record)
        return plan.load_task(record["seed"], progress)
    except SpareError as error:
        task = task_by_name(folder, record, plan, progress)
        if task is None:
            raise
        progress.say(f"warning: pictures are looked up by their names: {error}")
        return task


def early_and_selected(
    folder: Path,
    record: DiscoveryRecord,
    plan: Plan,
    task: Task,
    layer: str,
    progress: Progress,
) -> Pictured:
    """The pictures of this folder's page, and its networks: the early one, from which the groups
    come, beside the one that was trained."""
    epoch = record["notes"].get("separated_at")
    wanted = {"early": "reference model" if epoch is None else f"plain, after epoch {epoch}"}
    if is_run(record):
        wanted["selected"] = f"{record['method']}, epoch {record['selected_epoch']}"
    networks: dict[str, nn.Module] = {}
    try:
        networks = networks_of(folder, wanted, plan, task, progress)
    except SpareError as error:
        progress.say(f"warning: the report does not show where the model looks: {error}")
    return Pictured(task, networks, layer)


def write_bench_report(
    folder: Path,
    *,
    plans: Mapping[str, Plan] | None = None,
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write report.html of a bench, with where plain training and SPARE look, or the first two
    methods, each with its first seed.

    Parameters
    ----------
    plans
        Of a bench that just ended, by method: nothing is restored from records, so that no code is
        imported that a record names.
    """
    progress.report("report", 0, 1)
    table = read_table(folder)
    runs = runs_by_method(folder, table)
    there = [method for method, stored in runs.items() if stored]
    wanted = ["erm", "spare"] if {"erm", "spare"} <= set(there) else there[:2]
    firsts = [(method, *runs[method][0]) for method in wanted]
    pictured = side_by_side(firsts, data, layer, trust, progress, plans or {})
    page = write_table_page(folder, table, runs, pictured)
    progress.report("report", 1, 1)
    return page


def write_comparison_of(
    folders: Sequence[Path],
    out: Path,
    *,
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write one page of several runs of one task, with where each looks if the data is there."""
    records = read_runs(folders)
    runs = list(zip(run_names(records), folders, records, strict=True))
    return write_comparison(records, out, side_by_side(runs, data, layer, trust, progress))


def side_by_side(
    runs: Sequence[tuple[str, Path, RunRecord]],
    data: Path | None,
    layer: str,
    trust: bool,
    progress: Progress,
    plans: Mapping[str, Plan] | None = None,
) -> Pictured | None:
    """The pictures of the first run's data, and the selected network of each run."""
    networks: dict[str, nn.Module] = {}
    task: Task | None = None
    for name, folder, record in runs:
        try:
            plan = (plans or {}).get(name) or plan_of(folder, record, data, trust)
            check_unchanged(plan, record)
            task = task or plan.load_task(record["seed"], progress)
            networks |= networks_of(folder, {"selected": name}, plan, task, progress)
        except SpareError as error:
            progress.say(f"warning: the page does not show where {name} looks: {error}")
    return None if task is None or not networks else Pictured(task, networks, layer)
