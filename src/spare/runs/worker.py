"""A process that does runs of a bench, one after the other; it talks in lines of JSON.

    in    {"source": ..., "method": ..., "seed": ..., "folder": ..., "overrides": ...}
    out   {"report": [what, done, total]}, {"say": line}, and at a run's end {"end": error or ""}

It ends when its input does, or with its parent. Starting Python and importing torch takes seconds,
so a worker lives on from job to job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from spare.datasets import Source
from spare.errors import SpareError
from spare.methods import method_named
from spare.progress import Progress
from spare.records.bench_table import FailedRun
from spare.runs.plan import make_plan
from spare.runs.run import run
from spare.runs.signals import stop_on_signal
from spare.text import printable

#: Seconds between two reports of progress.
BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class Job:
    """One run, as plain data."""

    source: Source
    method: str
    seed: int
    folder: Path
    overrides: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    def failed(self, why: str) -> FailedRun:
        return {"method": self.method, "seed": self.seed, "why": printable(why)}

    def to_json(self) -> str:
        plain = asdict(self) | {
            "source": self.source.to_json(),
            "folder": os.path.abspath(self.folder),
        }
        return json.dumps(plain)

    @classmethod
    def from_json(cls, line: str) -> Job:
        given = json.loads(line)
        given["source"] = Source.from_json(given["source"])
        given["folder"] = Path(given["folder"])
        return cls(**given)


def run_job(job: Job, progress: Progress) -> None:
    """Do one run of a bench, in one thread."""
    plan = make_plan(job.source, method_named(job.method), job.overrides)
    run(plan, job.seed, job.folder, threads=1, progress=progress)


def work(jobs: TextIO, events: TextIO) -> None:
    """Do every job that comes in until there are no more, or a signal says stop."""

    def send(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    # Ctrl-C is told to a whole terminal: it is the parent that decides, and says so.
    with stop_on_signal((signal.SIGTERM,)) as should_stop, contextlib.suppress(KeyboardInterrupt):
        for line in jobs:
            progress = Progress(
                report=_throttled(lambda *steps: send({"report": steps})),
                say=lambda text: send({"say": text}),
                should_stop=should_stop,
            )
            try:
                run_job(Job.from_json(line), progress)
            except SpareError as error:
                send({"end": str(error)})
            else:
                send({"end": ""})
            if should_stop():
                return


def _throttled(send: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
    """Pass on the last step of everything, and of the others a few per second."""
    last = 0.0

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done >= total or now - last > BETWEEN_REPORTS:
            last = now
            send(what, done, total)

    return report


def main() -> None:
    # What libraries print must not get among the events: they have the standard output alone.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    work(sys.stdin, events)


if __name__ == "__main__":
    main()
