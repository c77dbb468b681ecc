"""Worker processes that are kept busy with the runs of a bench."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from typing import Any

from spare.errors import Interrupted
from spare.progress import Progress
from spare.records.bench_table import FailedRun
from spare.runs.signals import PARENT
from spare.runs.worker import Job

#: Ctrl-C, which a terminal tells every process, is not for a worker: the imports take seconds.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from spare.runs.worker import main; main()"
)
#: Seconds that a worker has to end in when it is not needed any more.
PATIENCE = 30.0
#: Lines of a worker's last words that are kept.
LAST_LINES = 20


def run_jobs(todo: deque[Job], workers: int, progress: Progress) -> list[FailedRun]:
    """Do every job in `workers` processes at a time; returns those that failed, and why.

    workers     0 for as many as there are cores
    """
    failures: list[FailedRun] = []
    events: queue.Queue[tuple[_Worker, dict[str, Any]]] = queue.Queue()
    limit = workers or os.cpu_count() or 1
    pool: list[_Worker] = []
    try:
        while todo or any(worker.job for worker in pool):
            if progress.should_stop():
                todo.clear()
                for worker in pool:
                    worker.stop()
            else:
                _hand_out(todo, pool, limit, events)
            try:
                worker, event = events.get(timeout=0.5)
            except queue.Empty:
                continue
            job = worker.job
            if "report" in event and job is not None:
                what, done, total = event["report"]
                progress.report(f"{job.name}/{what}", done, total)
            elif "say" in event and job is not None:
                progress.say(f"{job.name}: {event['say']}")
            elif "end" in event:
                worker.job = None
                if event.get("gone"):
                    pool.remove(worker)
                    worker.close()
                # Asked anew: a signal may have come to this worker first.
                if job is None or (event["end"] and progress.should_stop()):
                    continue
                if event["end"]:
                    failures.append(job.failed(event["end"]))
                    progress.say(f"{job.name} failed: {failures[-1]['why']}")
                else:
                    progress.report(f"{job.name}/done", 1, 1)
                    progress.say(f"{job.name} is done")
    finally:
        for worker in pool:
            if worker.job is not None:  # something went wrong here: it ends at its next step
                worker.stop()
            worker.close()
    if progress.should_stop():
        raise Interrupted("stopped; give the same command again to continue from the checkpoints.")
    return failures


def _hand_out(
    todo: deque[Job],
    pool: list[_Worker],
    limit: int,
    events: queue.Queue[tuple[_Worker, dict[str, Any]]],
) -> None:
    """Give every worker without a job the next one, and start workers while there is room."""
    for worker in pool:
        if todo and worker.job is None:
            worker.give(todo.popleft())
    while todo and len(pool) < limit:
        pool.append(_Worker(events))
        pool[-1].give(todo.popleft())


class _Worker:
    """A process that does one job at a time, and the thread that reads what it says."""

    def __init__(self, events: queue.Queue[tuple[_Worker, dict[str, Any]]]):
        # One thread each, also in libraries that start their own; it stops with its parent; and the
        # current folder, which -m would put first on the path, shadows nothing.
        alone = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.job: Job | None = None
        self._told = False
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=os.environ | alone | {PARENT: str(os.getpid())},
        )
        self._events = events
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Tell it, once, to end after its next step: who is told again ends at once."""
        if not self._told:
            self._told = True
            self.process.terminate()

    def give(self, job: Job) -> None:
        self.job = job
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone, which its reader tells
            self.process.stdin.write(job.to_json() + "\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        last: deque[str] = deque(maxlen=LAST_LINES)
        errors = threading.Thread(target=lambda: last.extend(self.process.stderr or ()))
        errors.start()
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # half a line, of a worker that was killed
                self._events.put((self, json.loads(line)))
        errors.join()
        code = self.process.wait()
        lines = [line.strip() for line in last if line.strip()]
        if code < 0:  # what it said before that is not why
            reason = f"its process was ended by {signal.Signals(-code).name}"
        else:
            reason = lines[-1] if code and lines else f"its process ended with code {code}"
        self._events.put((self, {"end": reason, "gone": True}))

    def close(self) -> None:
        """Tell it that there are no more jobs, and wait until it is gone, but not forever."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self._reader.join(PATIENCE)
        if self._reader.is_alive():
            self.process.kill()
            self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
