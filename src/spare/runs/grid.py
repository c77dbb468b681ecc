"""A grid of runs: every method with every seed, in worker processes; and the table over them.

A bench folder holds one run folder per method and seed, and `table.json`. A run that is complete is
skipped, one that was interrupted is continued, one that failed is tried again, so the same command
can be given again at any time.
"""

from __future__ import annotations

import itertools
import shlex
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from spare.datasets import Source
from spare.errors import InputError, Interrupted, RunError, SpareError, unknown
from spare.limits import SEED
from spare.methods import METHODS, method_named
from spare.progress import SILENT, Progress
from spare.records.bench_table import BenchTable, FailedRun, write_table
from spare.records.folder import finished
from spare.records.layout import RUN, TABLE, run_name
from spare.records.record import RunRecord, read_run
from spare.runs.environment import Threads
from spare.runs.plan import Plan, check_names, known_settings, make_plan
from spare.runs.pool import run_jobs
from spare.runs.run import run
from spare.runs.table import table
from spare.runs.values import convert, written
from spare.runs.worker import Job


@dataclass(frozen=True)
class FinishedBench:
    """A finished bench: its table, and the plan of every method."""

    folder: Path
    table: BenchTable
    plans: dict[str, Plan]


#: Failed runs that the error names; the table names all.
SAID = 3


class RunsFailed(RunError):
    """Some runs of a grid failed; `bench` has the others."""

    def __init__(self, failures: Sequence[FailedRun], bench: FinishedBench):
        said = [f"{run_name(run['method'], run['seed'])}: {run['why']}" for run in failures[:SAID]]
        if len(failures) > SAID:
            said.append(f"and {len(failures) - SAID} more, which {bench.folder / TABLE} names")
        super().__init__(
            f"{len(failures)} of the runs failed: {'; '.join(said)} (the same command tries them "
            f"again)"
        )
        self.bench = bench


@dataclass(frozen=True)
class Grid:
    """The runs of a bench, planned."""

    jobs: list[Job]
    plans: dict[str, Plan]
    command: str


def bench(
    source: Source,
    methods: str | Iterable[str],
    seeds: str | int | Iterable[int],
    out: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    given_model: Any = None,
    jobs: int = 0,
    progress: Progress = SILENT,
) -> FinishedBench:
    """Run every method with every seed, and write the table.

    jobs    runs at a time; 0 for all cores
    """
    jobs = convert("jobs", jobs, Threads)
    grid = plan_grid(source, methods, seeds, out, overrides or {}, given_model)
    for note in trained_unlike(list(grid.plans.values())):
        progress.say(note)
    records: dict[str, RunRecord] = {}
    todo = deque[Job]()
    for job in grid.jobs:
        record = finished(job.folder, grid.plans[job.method].request(job.seed))
        if record is None:
            todo.append(job)
        else:
            records[job.name] = cast(RunRecord, record)
            progress.say(f"{job.name} is complete")
    if source.in_memory or given_model is not None:  # what no other process can be told of
        failures = _run_here(todo, grid, progress)
    else:
        failures = run_jobs(todo, jobs, progress)
    for job in grid.jobs:
        if job.name not in records and (job.folder / RUN).exists():
            records[job.name] = read_run(job.folder)
    summary = table(records[job.name] for job in grid.jobs if job.name in records)
    if failures:
        summary["failures"] = failures
    summary["command"] = grid.command
    write_table(out, summary)
    bench = FinishedBench(out, summary, grid.plans)
    if failures:
        raise RunsFailed(failures, bench)
    return bench


def plan_grid(
    source: Source,
    methods: str | Iterable[str],
    seeds: str | int | Iterable[int],
    out: Path,
    overrides: Mapping[str, Any],
    given_model: Any = None,
) -> Grid:
    """Every run of a bench; mistakes in the request are found here, before anything runs."""
    # "all" stands for every method that has a name of its own.
    words = [word.strip() for word in convert("methods", _listed(methods), tuple[str, ...])]
    methods = [name for word in words for name in (METHODS if word == "all" else [word])]
    numbers: tuple[int, ...] = convert("seeds", _listed(seeds), tuple[Annotated[int, SEED], ...])
    _check(methods, numbers)
    known = {
        name: {key for keys in known_settings(source, method_named(name)).values() for key in keys}
        for name in methods
    }
    for key in overrides:  # an option of one method may be unknown to the others, not to all
        if not any(key in keys for keys in known.values()):
            everything = {name for keys in known.values() for name in keys}
            raise unknown(f"setting for {', '.join(methods)} on {source.name}", key, everything)
    overrides_of = {
        name: {key: value for key, value in overrides.items() if key in keys}
        for name, keys in known.items()
    }
    plans = {
        name: make_plan(source, method_named(name), overrides_of[name], given_model)
        for name in methods
    }
    for plan in plans.values():
        check_names(plan)
    return Grid(
        # Seeds outermost: after a third of the time every method has a number.
        jobs=[
            Job(
                source,
                name,
                seed,
                out / run_name(name, seed),
                plans[name].values_of(overrides_of[name]),
            )
            for seed in numbers
            for name in methods
        ],
        plans=plans,
        command=_command(source.name, methods, numbers, overrides),
    )


def trained_unlike(plans: Sequence[Plan]) -> list[str]:
    """A sentence for every pair of methods that share an inference but are trained by settings that
    differ: what is compared there is more than how they use the groups."""
    notes = []
    for first, second in itertools.combinations(plans, 2):
        halves = first.method.halves, second.method.halves
        if halves[0] is None or halves[1] is None or halves[0][0] is not halves[1][0]:
            continue
        one, other = vars(first.settings), vars(second.settings)
        differ = [f"{key} {one[key]} and {other[key]}" for key in one if one[key] != other[key]]
        if differ:
            notes.append(
                f"note: {first.method.name} and {second.method.name} use the same groups but are "
                f"trained by settings that differ ({', '.join(differ)}): --set trains both alike."
            )
    return notes


def _listed(values: Any) -> Any:
    """Something that can be gone through as what `convert` takes for several values."""
    if isinstance(values, str | int | float) or not isinstance(values, Iterable):
        return values
    return list(values)


def _check(methods: Sequence[str], seeds: Sequence[int]) -> None:
    if not methods or not seeds:
        raise InputError("a bench needs at least one method and one seed.")
    for what, values in (("method", methods), ("seed", seeds)):
        twice = [value for value in values if list(values).count(value) > 1]
        if twice:
            raise InputError(f"{what} {twice[0]!r} is named twice.")


def _run_here(todo: deque[Job], grid: Grid, progress: Progress) -> list[FailedRun]:
    """One run after the other in this process; returns those that failed, and why."""
    failures = []
    for job in todo:
        try:
            run(grid.plans[job.method], job.seed, job.folder, progress=progress)
            progress.say(f"{job.name} is done")
        except Interrupted:
            raise
        except Exception as error:  # whatever a model or data of the user's own raises
            message = str(error) if isinstance(error, SpareError) else repr(error)
            failures.append(job.failed(message))
            progress.say(f"{job.name} failed: {failures[-1]['why']}")
    return failures


def _command(
    task: str, methods: Sequence[str], seeds: Sequence[int], overrides: Mapping[str, Any]
) -> str:
    words = ["spare", "bench", task, "--methods", ",".join(methods)]
    words += ["--seeds", ",".join(map(str, seeds))]
    for key, value in overrides.items():
        words += ["--set", f"{key}={written(value)}"]
    return shlex.join(words)
