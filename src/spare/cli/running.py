"""Verbs that train: demo, discover, train, bench."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from spare.cli.app import Common, Device, Json, Out, Task, Threads, app
from spare.cli.console import Bars, complain, write, write_json, write_text
from spare.errors import InputError
from spare.processes.environment import follows, started_together

INTRODUCTION = (
    "Colored digits: in training 95 % of the digits 0-4 are orange and of 5-9 blue;",
    "in the test set the color is a coin toss. Who learned digits, and who colors?",
    "",
)


@app.command
def demo(*, out: Out = None, device: Device = None, json: Json = False) -> None:
    """Colored digits, nothing to download: plain training against SPARE, in under a minute."""
    _refuse_several("demo")
    folder = out or Path("runs/demo")
    for line in INTRODUCTION:
        complain(line) if json else write(line)
    with Bars() as bars:
        from spare import api
        from spare.report.text import demo_text

        settings: dict[str, Any] = {"device": device} if device else {}
        # The last epoch, so that no group label is used anywhere, as with people's own data.
        bench = api.bench(
            "digits",
            methods=["erm", "spare"],
            seeds=[0],
            out=folder,
            progress=bars.progress(),
            selection="last",
            **settings,
        )
        runs = {run.record["method"]: run for run in bench.runs}
        page = runs["spare"].write_report()
    if json:
        records = {method: run.record for method, run in runs.items()}
        write_json({"table": bench.table, "runs": records, "report": str(page)})
        return
    write_text(demo_text(runs["erm"].record, runs["spare"].record))
    write()
    write(f"Open in a browser to see them: {page}")
    write("Run folders:")
    for run in bench.runs:
        write(f"  {run.folder}")


@app.command
def discover(
    task: Task,
    *,
    inference: Annotated[
        str, Parameter(help="What names the groups; see 'spare list halves'.")
    ] = "spare",
    engine: Annotated[
        str, Parameter(help="Of a file of outputs: auto, local, streaming (from disk) or spark.")
    ] = "auto",
    master: Annotated[
        str, Parameter(help="Spark's master URL; by default this machine's cores.")
    ] = "",
    seed: int = 0,
    threads: Threads = 1,
    common: Common | None = None,
    json: Json = False,
) -> None:
    """Train a little on a task or on your own data, and show the groups that fall apart."""
    common = common or Common()
    with Bars() as bars:
        from spare import api
        from spare.records.layout import GROUPS

        arguments = common.arguments()
        if master and engine != "spark":
            raise InputError("--master is for --engine spark: use both, or leave it out.")
        if not api.fits_in_memory(task, engine):
            _refuse_several("discover --engine")
            arguments["inference"] = None if inference == "spare" else inference
            if master:
                arguments["master"] = master
            clustered = api.cluster_file(
                task, engine=engine, seed=seed, progress=bars.progress(), **arguments
            )
            if json:
                write_json(clustered.as_json())
                return
            write_text(f"{clustered}\n")
            write(f"One row per example: {clustered.groups}")
            return
        found = api.discover(
            task,
            inference=inference,
            seed=seed,
            threads=threads,
            progress=bars.progress(),
            **arguments,
        )
    if follows():
        return
    if json:
        write_json(found.record | {"folder": str(found.folder)})
        return
    write_text(f"{found}\n")
    write(f"Report, to be opened in a browser: {found.report}")
    write(f"One row per example: {found.folder / GROUPS}")
    for name, sheet in found.sheets().items():
        write(f"Pictures of {name}, one row per cluster: {sheet}")
    command = found.training_command()
    if command:
        data = "" if common.data is None else f" --data {shlex.quote(str(common.data))}"
        write(f"Next: {command}{data}")


@app.command
def train(
    task: Task,
    *,
    method: str = "spare",
    groups: Annotated[
        Path | None, Parameter(help="Groups from a file, such as discover's groups.parquet.")
    ] = None,
    seed: int = 0,
    threads: Threads = 1,
    processes: Annotated[
        int, Parameter(help="Processes on this machine that train one model together.")
    ] = 1,
    common: Common | None = None,
    json: Json = False,
) -> None:
    """Train one method on a task or your own data and score it. Interrupted, it can be resumed."""
    with Bars() as bars:
        from spare import api

        arguments = (common or Common()).arguments()
        run = api.train(
            task,
            method=method,
            groups=groups,
            seed=seed,
            threads=threads,
            processes=processes,
            progress=bars.progress(),
            **arguments,
        )
    if follows():
        return
    if json:
        write_json(run.record | {"folder": str(run.folder)})
        return
    write_text(f"{run}\n")
    write(f"Run folder: {run.folder}")
    write(f"Report, to be opened in a browser: {run.report}")


@app.command
def bench(
    task: Task,
    *,
    methods: Annotated[
        str, Parameter(help="Names, or pairs such as eiil+spare, separated by commas; or all.")
    ] = "erm,spare",
    seeds: Annotated[str, Parameter(help="Numbers separated by commas.")] = "0,1,2",
    jobs: Annotated[int, Parameter(help="Runs at a time, one thread each; 0 for all cores.")] = 0,
    common: Common | None = None,
    json: Json = False,
) -> None:
    """Run several methods with several seeds and print the table. Resumable."""
    _refuse_several("bench")
    with Bars() as bars:
        from spare import api
        from spare.records.layout import TABLE
        from spare.report.text import bench_text
        from spare.runs.grid import RunsFailed

        arguments = (common or Common()).arguments()
        try:
            done = api.bench(
                task, methods=methods, seeds=seeds, jobs=jobs, progress=bars.progress(), **arguments
            )
        except RunsFailed as failed:  # the others are shown first
            table = failed.bench.table
            if table["rows"]:
                write_json(table) if json else write_text(bench_text(table))
            raise
    if json:
        write_json(done.table | {"report": str(done.report)})
        return
    write_text(f"{done}\n")
    write(f"Report, to be opened in a browser: {done.report}")
    write(f"Run folders and {TABLE}: {done.folder}")


def _refuse_several(verb: str) -> None:
    """Refuse processes that would all do the same in one folder."""
    if started_together():
        raise InputError(
            f"spare {verb} is for one process, which uses the machine by itself: start it without "
            f"torchrun, which is for spare train and spare discover."
        )
