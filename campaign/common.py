"""What the parts of the campaign share: counting, processes with limits, comparing run folders."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing.connection
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Failed cases that a result keeps in full; the others are counted.
KEPT = 10
#: What of a record may differ between two runs of the same numbers.
MAY_DIFFER = ("seconds", "peak_memory_mb", "command", "code", "seal")
#: How files and folders are named that must not be left when a command has ended well.
STRAYS = (".lock", "*.lock", "*.tmp", "*.checkpoint", "*.partial")


# Counting


@dataclass
class Tally:
    """The cases of one part, those that failed, and what the slowest and the largest took."""

    name: str
    details: dict[str, Any] = field(default_factory=dict)
    cases: int = 0
    failures: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest: str = ""
    peak_memory_mb: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def add(
        self,
        case: str,
        problem: str = "",
        *,
        again: str = "",
        seconds: float = 0.0,
        memory_mb: float = 0.0,
    ) -> None:
        """Count one case; `problem` says what was wrong with it, `again` how to repeat it."""
        self.cases += 1
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = seconds, case
        self.peak_memory_mb = max(self.peak_memory_mb, memory_mb)
        if problem:
            self.failures += 1
            if len(self.failed) < KEPT:
                self.failed.append({"case": case, "problem": problem, "again": again})
        print(f"{self.cases:5d}  {case}: {problem or 'ok'}", flush=True)

    def result(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "cases": self.cases,
            "failures": self.failures,
            "failed": self.failed,
            "seconds": round(time.monotonic() - self.started, 1),
            "slowest_seconds": round(self.slowest_seconds, 1),
            "slowest": self.slowest,
            "peak_memory_mb": round(self.peak_memory_mb),
            "details": self.details,
        }

    def finish(self, out: Path | None) -> int:
        """Write the counts, say them, and return the exit code."""
        result = self.result()
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(result, indent=2, ensure_ascii=False)
            out.write_text(text + "\n", encoding="utf-8")
        print(f"{self.name}: {self.cases} cases, {self.failures} failures")
        return 1 if self.failures else 0


def arguments_of(
    about: str | None, *, cases: int, words: Sequence[str] | None = None, **more: Any
) -> argparse.Namespace:
    """--cases, --seed and --out, and what a part has besides (name=default)."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args(words)


# Processes


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int | None  # None: it was not done in time and was killed
    out: str
    err: str
    seconds: float
    memory_mb: float = 0.0

    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.out + self.err

    def sentence(self) -> str:
        """Why this is not how the command line refuses: one sentence, code 1 or 2; "" if it is."""
        lines = [line for line in self.err.splitlines() if line.startswith("spare: ")]
        if self.code is None:
            return "it was not done in time"
        if self.traceback():
            return f"a traceback: {self.err.strip().splitlines()[-1]}"
        if self.code not in (1, 2):
            return f"it ended with code {self.code}: {self.err[-200:]!r}"
        if len(lines) != 1:
            return f"it did not end with one sentence: {self.err[-300:]!r}"
        return ""


def spare_command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "spare", *words]


def environment(**more: str) -> dict[str, str]:
    """One thread per library, and this checkout's code."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path} | more


def call_spare(
    words: Sequence[str], *, cwd: Path, seconds: float = 120.0, **variables: str
) -> Ended:
    """The command line as a process of its own."""
    started = time.monotonic()
    process = subprocess.Popen(
        spare_command(words),
        cwd=cwd,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        end_group(process.pid)
        out, err = process.communicate()
        code = None
    return Ended(code, out, err, time.monotonic() - started)


def end_group(pid: int) -> None:
    """Kill a process that leads a group of its own, and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def import_everything() -> None:
    """So that a forked child need not: a case takes 0.3 s instead of 4."""
    for module in (
        "matplotlib.figure", "pyarrow.csv", "pyarrow.parquet", "sklearn.cluster", "torchvision",
        "spare.api", "spare.cli", "spare.methods", "spare.report.write",
    ):  # fmt: skip
        importlib.import_module(module)
    import torch

    torch.set_num_threads(1)


def in_child(
    work: Callable[[], Any], *, seconds: float = 60.0, memory_mb: int | None = None
) -> Ended:
    """`work` in a forked child, with limits on its time and on its memory beyond what it has.

    Its code is that of SystemExit, 1 with a traceback in `err` for another exception, and minus the
    signal's number where one ended it.
    """
    read_out, out = os.pipe()
    read_err, err = os.pipe()
    started = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # the other threads do nothing that a child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.setsid()
        for pipe, number in ((out, 1), (err, 2)):
            os.dup2(pipe, number)
        for pipe in (read_out, out, read_err, err):
            os.close(pipe)
        os._exit(_child(work, memory_mb))
    os.close(out)
    os.close(err)
    try:
        texts, in_time = _read_all([read_out, read_err], started + seconds)
        if not in_time:
            end_group(pid)
        _, status, usage = os.wait4(pid, 0)
    finally:
        end_group(pid)
    code = os.waitstatus_to_exitcode(status) if in_time else None
    return Ended(code, *texts, time.monotonic() - started, usage.ru_maxrss / 1024)


def _child(work: Callable[[], Any], memory_mb: int | None) -> int:
    """Run the work with Python's streams on the pipes; returns the exit code."""
    sys.stdin = open(os.devnull)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if memory_mb is not None:
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = has + memory_mb * 1024**2
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    code = 0
    try:
        work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    return code


def _read_all(pipes: Sequence[int], deadline: float) -> tuple[list[str], bool]:
    """What comes through the pipes until they are closed; False if that was not in time."""
    parts: dict[int, list[bytes]] = {pipe: [] for pipe in pipes}
    open_pipes = list(pipes)
    while open_pipes and time.monotonic() < deadline:
        left = max(0.0, deadline - time.monotonic())
        for pipe in multiprocessing.connection.wait(open_pipes, timeout=left):
            assert isinstance(pipe, int)
            content = os.read(pipe, 1 << 16)
            if content:
                parts[pipe].append(content)
            else:
                open_pipes.remove(pipe)
    for pipe in pipes:
        os.close(pipe)
    texts = [b"".join(parts[pipe]).decode("utf-8", "replace") for pipe in pipes]
    return texts, not open_pipes


def spare_in_child(words: Sequence[str], *, cwd: Path | None = None, **limits: Any) -> Ended:
    """The command line in a forked child."""

    def work() -> None:
        from spare.cli import main

        if cwd is not None:
            os.chdir(cwd)
        main(list(words))

    return in_child(work, **limits)


# Folders


def numbers_of(folder: Path) -> dict[str, Any]:
    """What two runs of the same numbers have in common: records without times, other files whole.

    A page is text about the same numbers and times; only that it is there counts.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            continue
        if path.suffix == ".html":
            found[name] = "a page"
        elif path.name in ("run.json", "discovery.json", "settings.json", "table.json"):
            found[name] = _without_times(json.loads(path.read_text()))
        else:
            found[name] = path.read_bytes()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_times(part)
            for key, part in value.items()
            if key not in (*MAY_DIFFER, "cost")
        }
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """In which file two folders differ, as a sentence; "" where they do not."""
    for name in sorted({*wanted, *found}):
        if name not in found:
            return f"{name} is missing"
        if name not in wanted:
            return f"{name} is too much"
        if wanted[name] != found[name]:
            return f"{name} differs{_where(wanted[name], found[name])}"
    return ""


def _where(wanted: Any, found: Any) -> str:
    """The way to the first thing that differs in two values of JSON, and what it is in each."""
    if isinstance(wanted, bytes) or type(wanted) is not type(found):
        return ""
    if isinstance(wanted, list) and len(wanted) == len(found):
        wanted, found = dict(enumerate(wanted)), dict(enumerate(found))
    if not isinstance(wanted, dict):
        return f": {str(wanted)[:100]!r} became {str(found)[:100]!r}"
    for key in [*wanted, *found]:
        if key not in wanted or key not in found:
            return f" at {key}, which only one has"
        if wanted[key] != found[key]:
            return f" at {key}{_where(wanted[key], found[key])}"
    return ""


def strays(folder: Path) -> list[str]:
    """Files that must not be left behind in a folder or beside it."""
    beside = [*folder.parent.glob(f"{folder.name}.*"), *folder.parent.glob(f".{folder.name}*")]
    within = {path for pattern in STRAYS for path in folder.rglob(pattern)}
    return sorted(str(path) for path in {*within, *(path for path in beside if path != folder)})


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=f"spare-{prefix}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
