"""A grid of runs, each a one-thread process of its own; and the table that sums them up.

A bench folder holds one run folder per (method, seed) and `table.json`. A run that is complete is
skipped, one that was broken off goes on, so the same command can be given again at any time.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.datasets import Source, locate
from spare.errors import InputError, Interrupted, RunError, unknown
from spare.files import read_json, write_json
from spare.methods import METHODS, method_named
from spare.records.folder import finished
from spare.runs.plan import known_settings, plan
from spare.runs.run import run_name

#: (run's name, what it is doing, steps done, steps in all)
BenchReport = Callable[[str, str, int, int], None]


#: What a table has of every run, where the run has it.
SCORES = ("worst_group", "average", "adjusted_average", "id_accuracy", "worst_pattern")


class RunsFailed(RunError):
    """Some runs of a grid failed; `summary` is the table of the others."""

    def __init__(self, failures: Sequence[str], summary: dict[str, Any]):
        super().__init__(f"{len(failures)} of the runs failed: {'; '.join(failures)}")
        self.summary = summary


@dataclass(frozen=True)
class Job:
    method: str
    seed: int
    folder: Path
    overrides: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.folder.name


def bench(
    task: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    data: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    jobs: int | None = None,
    report: BenchReport = lambda run, what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run every method with every seed; returns the table, which is also written to the folder."""
    overrides = dict(overrides or {})
    methods = _named(methods)
    _check_grid(methods, seeds)
    source = locate(task, data, overrides)
    for key in overrides:  # an option of one method may be unknown to the others, not to all
        if not any(key in _known(source, method) for method in methods):
            everything = {name for method in methods for name in _known(source, method)}
            raise unknown(f"setting for {', '.join(methods)} on {task}", key, everything)
    jobs_in_all, todo = [], deque[Job]()
    for seed in seeds:  # seeds outermost: after a third of the time every method has a number
        for method in methods:
            own = {k: v for k, v in overrides.items() if k in _known(source, method)}
            job = Job(method, seed, out / run_name(method, seed), own)
            jobs_in_all.append(job)
            if finished(job.folder, plan(source, method_named(method), own).request(seed)) is None:
                todo.append(job)
            else:
                say(f"{job.name} is complete")
    failures = _run_all(task, todo, data, jobs, report, say, should_stop)
    records = [job.folder / "run.json" for job in jobs_in_all]
    summary = table(read_json(record) for record in records if record.exists())
    summary["command"] = _command(task, methods, seeds, overrides)
    write_json(out / "table.json", summary)
    if failures:
        raise RunsFailed(failures, summary)
    return summary


def _named(methods: Sequence[str]) -> list[str]:
    """The methods to run; "all" stands for every one that has a name of its own."""
    return [name for word in methods for name in (METHODS if word == "all" else [word])]


def _check_grid(methods: Sequence[str], seeds: Sequence[int]) -> None:
    if not methods or not seeds:
        raise InputError("a bench needs at least one method and one seed.")
    for name, values in (("method", methods), ("seed", seeds)):
        twice = [value for value in values if list(values).count(value) > 1]
        if twice:
            raise InputError(f"{name} {twice[0]!r} is named twice.")


def _known(source: Source, method: str) -> set[str]:
    kinds = known_settings(source, method_named(method))
    return {key for keys in kinds.values() for key in keys}


def _run_all(
    task: str,
    todo: deque[Job],
    data: Path | None,
    jobs: int | None,
    report: BenchReport,
    say: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> list[str]:
    """Keep `jobs` processes busy; returns a sentence for each run that failed."""
    events: queue.Queue[tuple[Job, dict[str, Any]]] = queue.Queue()
    running: dict[str, subprocess.Popen[str]] = {}
    failures: list[str] = []
    limit = jobs or os.cpu_count() or 1
    while todo or running:
        while todo and len(running) < limit and not should_stop():
            job = todo.popleft()
            running[job.name] = _start(task, job, data, events)
        if not running:
            break
        if should_stop():  # a terminal tells the whole group; another process told only this one
            for process in running.values():
                process.terminate()
        try:
            job, event = events.get(timeout=0.5)
        except queue.Empty:
            continue
        if "what" in event:
            report(job.name, event["what"], event["done"], event["total"])
        elif "say" in event:
            say(f"{job.name}: {event['say']}")
        else:
            running.pop(job.name)
            if event.get("error") and not should_stop():
                failures.append(f"{job.name}: {event['error']}")
                say(f"{job.name} failed: {event['error']}")
            elif not event.get("error"):
                report(job.name, "done", 1, 1)
    if should_stop():
        raise Interrupted("stopped; give the same command again to go on from the checkpoints.")
    return failures


def _start(
    task: str,
    job: Job,
    data: Path | None,
    events: queue.Queue[tuple[Job, dict[str, Any]]],
) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "spare", "train", task, "--method", job.method]
    words += ["--seed", str(job.seed), "--out", str(job.folder), "--lines"]
    words += [] if data is None else ["--data", str(data)]
    for key, value in job.overrides.items():
        words += ["--set", f"{key}={value}"]
    # One thread each, also in libraries that start their own; and the child stops with its parent.
    alone = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | alone | {"SPARE_PARENT": str(os.getpid())}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )

    def follow() -> None:
        with process:  # closes the pipes at the end
            assert process.stdout is not None
            errors: deque[str] = deque(maxlen=20)
            reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
            reader.start()
            ending: dict[str, Any] = {}
            for line in process.stdout:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a library's own print
                if "end" in event:
                    ending = event
                else:
                    events.put((job, event))
            reader.join()
        if process.returncode and not ending.get("error"):
            last = [line.strip() for line in errors if line.strip()]
            ending["error"] = (
                last[-1] if last else f"its process ended with code {process.returncode}"
            )
        events.put((job, ending))

    threading.Thread(target=follow, daemon=True).start()
    return process


def find_runs(folder: Path) -> list[Path]:
    """Every complete run's record below `folder`."""
    found = sorted(folder.rglob("run.json"))
    return [p for p in found if not p.parent.name.endswith(".partial")]


def table(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows per task, method and selection rule: mean and spread over seeds, selected and last."""
    rows: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for record in runs:
        settings = json.dumps(record["settings"], sort_keys=True)
        options = json.dumps(record["options"], sort_keys=True)
        key = (record["task"], record["method"], record["selection"], settings, options)
        rows.setdefault(key, []).append(record)
    found = [_row(records) for records in rows.values()]
    for row in found:
        _add_cost(row, found)
        _add_difference(row, found)
    return {"rows": found}


def _row(records: list[Mapping[str, Any]]) -> dict[str, Any]:
    records = sorted(records, key=lambda r: r["seed"])
    first = records[0]
    split = "test" if "test" in first["scores"] else "val"
    row: dict[str, Any] = {
        "task": first["task"],
        "method": first["method"],
        "selection": first["selection"],
        "sees": first["sees"],
        "split": split,
        "seeds": [r["seed"] for r in records],
        "settings": first["settings"],
        "options": first["options"],
        "seconds": float(np.mean([r["seconds"]["total"] for r in records])),
        "examples_seen": int(np.mean([r["examples_seen"] for r in records])),
        "peak_memory_mb": float(np.mean([r["peak_memory_mb"] for r in records])),
    }
    own = [r.get("own_rule") for r in records]
    if all(own):
        row["own_rule_name"] = own[0]
    for when in ("selected", "last", *(["own_rule"] if all(own) else [])):
        scores = [r["scores"][split][when] for r in records]
        row[when] = {
            name: mean_and_spread([score[name] for score in scores])
            for name in SCORES
            if all(name in score for score in scores)
        }
        for kind in ("gaps", "inferred"):
            if all(kind in score for score in scores):
                row[when][kind] = _spreads([score[kind] for score in scores], kind)
    return row


def _spreads(scores: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    names = scores[0] if kind == "gaps" else ("worst_group", "average")
    return {name: mean_and_spread([score[name] for score in scores]) for name in names}


def _add_cost(row: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Examples passed through a model, and time, relative to plain training in the same table."""
    plain = [one for one in rows if one["method"] == "erm" and one["task"] == row["task"]]
    if len(plain) == 1:
        row["cost"] = {
            "examples": row["examples_seen"] / plain[0]["examples_seen"],
            "seconds": row["seconds"] / plain[0]["seconds"],
        }


def _add_difference(row: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Points that SPARE is above this row, seed by seed: the seed's data and weights are shared."""
    ours = [one for one in rows if one["method"] == "spare" and one["task"] == row["task"]]
    if len(ours) != 1 or row["method"] == "spare":
        return
    common = sorted({*row["seeds"]} & {*ours[0]["seeds"]})
    if not common:
        return

    def values(one: Mapping[str, Any], when: str, name: str) -> np.ndarray:
        places = [one["seeds"].index(seed) for seed in common]
        return np.array(one[when][name]["values"])[places]

    row["spare_minus_this"] = {"seeds": common} | {
        when: {
            name: mean_and_spread(values(ours[0], when, name) - values(row, when, name))
            for name in ("worst_group", "average")
        }
        for when in ("selected", "last")
    }


def mean_and_spread(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Mean, sample standard deviation, a 95 % interval of the mean (Student's t; none for a single
    seed), and the values themselves."""
    count = len(values)
    mean = float(np.mean(values))
    found: dict[str, Any] = {"mean": mean, "sd": 0.0, "interval": None}
    if count > 1:
        from scipy.stats import t

        found["sd"] = float(np.std(values, ddof=1))
        half = float(t.ppf(0.975, count - 1)) * found["sd"] / count**0.5
        found["interval"] = [mean - half, mean + half]
    return found | {"values": [float(value) for value in values]}


def _command(
    task: str, methods: Sequence[str], seeds: Sequence[int], overrides: Mapping[str, str]
) -> str:
    words = ["spare", "bench", task, "--methods", ",".join(methods)]
    words += ["--seeds", ",".join(map(str, seeds))]
    for key, value in overrides.items():
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)
