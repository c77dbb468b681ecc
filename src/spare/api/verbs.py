"""Python for everything the command line does: one function per verb, with the same arguments.

    run = spare.train("photos", method="spare", epochs=5)
    print(run)                                  # the tables that `spare train` prints

Data is the name of a task, a path, or an object: arrays, a table, a torch Dataset. What comes back
knows its folder, prints as the command line does, and shows itself in a notebook.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from spare.api.results import Bench, Discovery, Run, as_path, folder_for, progress_or_stderr
from spare.api.walks import overrides_of, walked
from spare.datasets import locate
from spare.methods import Inference, Method, discovery_with, method_named, with_given_groups
from spare.models.named import GIVEN
from spare.progress import Progress
from spare.records.bench_table import read_table
from spare.records.layout import is_bench, run_name
from spare.records.record import RunRecord, is_run, read_record
from spare.report.write import write_bench_report
from spare.runs import grid


def discover(
    task: Any,
    *,
    inference: str | Inference = "spare",
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
    inference : str or Inference
        What names the groups: a name of `spare list halves`, `package.module:INFERENCE`, or an
        `Inference` itself.
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
        Receives progress and messages; by default messages go to standard error.
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
    >>> len(found.groups.clusters)  # 44 of each class are for validation and test
    212
    """
    if isinstance(inference, Inference):
        inference = replace(inference, name=f"{GIVEN}{inference.name}")
    method = discovery_with(inference)
    finished = walked(
        task, method, f"discover-{{label}}-seed{seed}", seed, out, data, model, threads, 1, report,
        progress, settings,
    )  # fmt: skip
    return Discovery(finished.folder, finished.record, finished.plan)


def train(
    task: Any,
    *,
    method: str | Method = "spare",
    groups: Path | str | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    model: Any = None,
    threads: int = 1,
    processes: int = 1,
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
    method : str or Method
        A name, a pair INFERENCE+TRAINER, `package.module:METHOD` (`spare list methods`), or a
        `Method` itself.
    groups : Path, optional
        A file of groups to train with, such as the groups.parquet that `discover` writes.
    processes : int
        So many processes on this machine train together, with the batches of one. In a job that
        torchrun started, all of its processes train together anyway.

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
    recipe = method_named(method)
    if isinstance(method, Method):  # which a record can only mention
        preset = method.preset_from or method.name
        recipe = replace(method, name=f"{GIVEN}{method.name}", preset_from=preset)
    finished = walked(
        task, recipe, f"{{label}}-{run_name(recipe.name, seed)}", seed, out, data, model, threads,
        processes, report, progress, settings,
    )  # fmt: skip
    return Run(finished.folder, cast(RunRecord, finished.record), finished.plan)


def bench(
    task: Any,
    *,
    methods: str | Iterable[str] = ("erm", "spare"),
    seeds: str | int | Iterable[int] = (0, 1, 2),
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
    seeds : list of int, or str
        Numbers, or text such as "0,1,2".
    jobs : int
        Runs at a time; 0 for all cores. Data or a model that is an object is run here, one run
        after the other.

    Returns
    -------
    Bench

    Raises
    ------
    RunsFailed
        If some runs failed; the others are in the folder, and in the `bench.table` of the error.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> labels = np.arange(100) % 2
    >>> data = (labels[:, None] + np.zeros((100, 3)), labels)
    >>> done = bench(data, methods="erm,cb", seeds=[0], epochs=1, out=tempfile.mkdtemp())
    >>> [row["method"] for row in done.table["rows"]]
    ['erm', 'cb']
    """
    overrides, given_model = overrides_of(settings, model)
    source = locate(task, as_path(data), overrides)
    folder = folder_for(out, f"bench-{source.label}")
    progress = progress_or_stderr(progress)
    try:
        finished = grid.bench(
            source,
            methods,
            seeds,
            folder,
            overrides=overrides,
            given_model=given_model,
            jobs=jobs,
            progress=progress,
        )
    except grid.RunsFailed as failed:
        if report and failed.bench.table["rows"]:
            write_bench_report(folder, plans=failed.bench.plans, progress=progress)
        raise
    if report:
        write_bench_report(folder, plans=finished.plans, progress=progress)
    return Bench(folder, finished.table, finished.plans)


def load_run(folder: Path | str) -> Run | Discovery | Bench:
    """What `train`, `discover` or `bench` left in a folder.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Run, Discovery or Bench

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = train("digits", method="erm", epochs=1, out=folder, report=False)
    >>> load_run(folder).record["method"]
    'erm'
    """
    folder = Path(folder)
    if is_bench(folder):
        return Bench(folder, read_table(folder))
    record = read_record(folder)
    return Run(folder, record) if is_run(record) else Discovery(folder, record)
