"""Several processes on this machine for one run: this one, which leads, and others that it starts.

With torchrun, which starts all processes alike, nothing of this is needed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated

from spare.errors import InputError, RunError, SpareError
from spare.limits import Range
from spare.methods import method_named
from spare.processes.losses import Lost
from spare.processes.world import Seat, invited, joined
from spare.progress import Progress
from spare.runs.plan import make_plan
from spare.runs.run import run
from spare.runs.signals import PARENT, stop_on_signal
from spare.runs.values import convert
from spare.runs.worker import Job
from spare.text import printable

Processes = Annotated[int, Range(1, 1024)]
#: Ctrl-C, which a terminal tells every process, is for the one that leads: it tells the others.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from spare.runs.team import main; main()"
)
#: Seconds that the others have to end in.
PATIENCE = 40.0


@contextmanager
def team(count: int, job: Job, threads: int, progress: Progress) -> Iterator[Seat | None]:
    """Within it, so many processes do the job; the seat of this one, or None if it is alone."""
    count = convert("processes", count, Processes)
    if count == 1:
        yield None
        return
    if invited():
        raise InputError(
            "this process is one of several already, so it cannot start others: leave out "
            "--processes, or start it without torchrun."
        )
    with tempfile.TemporaryDirectory(prefix="spare-") as place:
        seats = [Seat(rank, count, f"{place}/store") for rank in range(count)]
        others = [_Member(seat, job, threads, Path(place)) for seat in seats[1:]]
        try:
            yield seats[0]
        except Lost as error:
            raise _told(others, progress) or error from error
        finally:
            for member in others:
                member.end()


def _told(others: list[_Member], progress: Progress) -> RunError | None:
    """What the processes said that ended; as an error, what the one said that ended first."""
    first = None
    for member in others:
        said, of_another = member.last_words()
        progress.say(f"process {member.rank}: {said}")
        if not of_another:
            first = first or (member.rank, said)
    if first is None:
        return None
    return RunError(
        f"process {first[0]} of the job has ended ({first[1]}): the same command continues from "
        f"the last checkpoint, with as many processes or another number."
    )


class _Member:
    """A process that was started here."""

    def __init__(self, seat: Seat, job: Job, threads: int, place: Path):
        self.rank = seat.rank
        self._said = place / f"said-{seat.rank}"
        told = {"seat": asdict(seat), "job": job.to_json(), "threads": threads}
        with open(self._said, "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=os.environ | {PARENT: str(os.getpid())},
            )
        assert self._process.stdin is not None
        self._give(self._process.stdin, json.dumps(told))

    @staticmethod
    def _give(pipe: IO[bytes], line: str) -> None:
        try:
            pipe.write(f"{line}\n".encode())
            pipe.close()
        except OSError:  # it is gone, which is noticed when it is waited for
            pass

    def last_words(self) -> tuple[str, bool]:
        """How it ended, and whether that was because of another; waits until it has."""
        code = self.end()
        if code < 0:
            return f"ended by {signal.Signals(-code).name}", False
        lines = self._said.read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), f"ended with code {code}")
        return printable(said.strip()), Lost.SAID in said

    def end(self) -> int:
        """Its code; after some seconds it is ended."""
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def main() -> None:
    """What such a process does."""
    told = json.loads(sys.stdin.readline())
    code = 1
    with stop_on_signal((signal.SIGTERM,)) as should_stop:
        try:
            job = Job.from_json(told["job"])
            plan = make_plan(job.source, method_named(job.method), job.overrides)
            with joined(Seat(**told["seat"])):
                progress = Progress(should_stop=should_stop)
                run(plan, job.seed, job.folder, threads=told["threads"], progress=progress)
            code = 0
        except (SpareError, KeyboardInterrupt) as error:
            print(error, file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)
