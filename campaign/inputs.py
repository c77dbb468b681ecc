"""Hostile inputs, made from a seed and given to the real command line.

    python -m campaign.inputs --cases 2000 --seed 0 --out counts.json
    python -m campaign.inputs --case 1234 --seed 0          one of them, with what it printed

Every case is one command on files that were made for it, in a process of its own, forked from one
that has imported everything. It must end in time, with exit code 0, or with 1 and exactly one
line that begins "spare: error:"; without a traceback, a signal, a control character in what it
prints, a leftover in the output folder after a refusal, or more memory than `MOST_MEMORY`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from campaign.hostile import KEYS, KINDS, Dice, setting_keys

#: Seconds that a case may take, and megabytes that it may take besides what was imported.
MOST_SECONDS = 60
MOST_MEMORY = 1_500
#: What is read at most: as on a machine with 2 GB.
ENVIRONMENT = {"SPARE_MAX_ARRAY": "500M", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


class Outcome(NamedTuple):
    kind: str
    arguments: list[str]
    problems: list[str]
    seconds: float
    memory: float
    code: int
    output: str


def run_case(seed: int, number: int, baseline: float) -> Outcome:
    """Make case `number` of a seed in a process of its own, run it, and judge how it ended."""
    rng = Dice(f"{seed} {number}")
    name = list(KINDS)[number % len(KINDS)]
    with tempfile.TemporaryDirectory(prefix="spare-campaign-", ignore_cleanup_errors=True) as top:
        folder = Path(top).resolve() / "case"
        folder.mkdir()
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _run_here(rng, name, folder)
        code, status, memory = _wait(child, started)
        seconds = time.monotonic() - started
        output = {n: (folder.parent / n).read_bytes() if (folder.parent / n).exists() else b""
                  for n in ("stdout", "stderr", "arguments")}  # fmt: skip
        left = sorted(p.name for p in folder.glob("out*"))
        for path in folder.rglob("*"):
            if not path.is_symlink() and path.is_dir():
                path.chmod(0o700)
    arguments = json.loads(output["arguments"] or b"[]")
    text = (output["stdout"] + output["stderr"]).decode(errors="replace")
    problems = _problems(code, status, text, left)
    growth = memory - baseline
    if seconds > MOST_SECONDS:
        problems.append(f"took {seconds:.0f} s")
    if growth > MOST_MEMORY:
        problems.append(f"took {growth:.0f} MB")
    return Outcome(name, arguments, problems, seconds, growth, code, text)


def _run_here(rng: Dice, name: str, folder: Path) -> None:
    """In the child: make the files, run the command, end."""
    code = 99
    try:
        os.setsid()
        os.environ.update(ENVIRONMENT, SPARE_CACHE=str(folder.parent / "cache"))
        os.environ["SPARE_DATA"] = str(folder.parent / "data")
        os.chdir(folder)
        arguments = KINDS[name](rng, folder)
        os.chdir(folder)
        runs = arguments[:1] and arguments[0] in ("train", "discover", "bench")
        if runs and "--out" not in arguments:
            arguments += ["--out", str(folder / "out")]
        (folder.parent / "arguments").write_text(json.dumps(arguments))
        for stream, number in (("stdout", 1), ("stderr", 2)):
            target = os.open(folder.parent / stream, os.O_WRONLY | os.O_CREAT)
            os.dup2(target, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        from spare.cli import main

        main(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # what a person would see as a traceback
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int, started: float) -> tuple[int, int, float]:
    """The exit code, the signal that ended it, and the most memory it had, in megabytes."""
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - started > MOST_SECONDS:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # processes that a bench left behind
    code = os.waitstatus_to_exitcode(status)
    return max(code, 0), max(-code, 0), usage.ru_maxrss / 1000


def _problems(code: int, ended_by: int, text: str, left: list[str]) -> list[str]:
    problems = []
    if ended_by:
        problems.append(f"ended by signal {ended_by}")
    elif code not in (0, 1):
        problems.append(f"exit code {code}")
    if "Traceback (most recent call last)" in text:
        problems.append("traceback")
    errors = sum(line.startswith("spare: error:") for line in text.splitlines())
    if code == 1 and not ended_by and errors != 1:
        problems.append(f"{errors} lines of error")
    # Line and paragraph separators, direction marks and lone surrogates too.
    control = {
        c
        for c in text
        if c not in "\n\t\u200c\u200d" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Cs")
    }
    if control:
        problems.append(f"control characters {sorted(control)!r}")
    # A bench that ran keeps its folder, whose table says which runs failed and why.
    if code == 1 and left and "of the runs failed" not in text:
        problems.append(f"left behind: {', '.join(left)}")
    return problems


def run(cases: int, seed: int, out: Path | None = None) -> dict[str, Any]:
    """Run cases one after the other, and count how they ended; `out` is written as they are run."""
    _import_everything()
    memory = _memory_of_nothing()
    started = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    worst, peak = 0.0, 0.0

    def summary(done: int) -> dict[str, Any]:
        return {
            "name": "inputs",
            "cases": done,
            "failures": len(failed),
            "failed": failed[:200],
            "seconds": round(time.monotonic() - started, 1),
            "slowest_seconds": round(worst, 1),
            "peak_memory_mb": round(peak),
            "memory_limit_mb": MOST_MEMORY,
            "details": dict(sorted(counts.items())),
        }

    for number in range(cases):
        outcome = run_case(seed, number, memory)
        counts[outcome.kind] += 1
        counts[f"{outcome.kind} accepted"] += outcome.code == 0
        worst, peak = max(worst, outcome.seconds), max(peak, outcome.memory)
        if outcome.problems:
            last = [line for line in outcome.output.strip().splitlines() if line.strip()][-1:]
            failed.append(
                {
                    "kind": outcome.kind,
                    "problems": outcome.problems,
                    "says": "".join(last)[:300],
                    "arguments": outcome.arguments,
                    "repeat": f"python -m campaign.inputs --case {number} --seed {seed}",
                }
            )
        if out is not None and (number + 1) % 100 == 0:
            out.write_text(json.dumps(summary(number + 1), indent=2) + "\n")
    return summary(cases)


def _memory_of_nothing() -> float:
    """What a forked process has that only loads a small array, in megabytes."""
    child = os.fork()
    if child == 0:
        import torch

        torch.ones(1000) @ torch.ones(1000)
        os._exit(0)
    return _wait(child, time.monotonic())[2]


def _import_everything() -> None:
    """Before the first fork; nothing here may start a thread."""

    from spare.methods import METHODS, method_named

    for name in METHODS:
        method_named(name)
    if not KEYS:
        KEYS.extend(setting_keys())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one alone, and show what it printed")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.case is not None:
        _import_everything()
        memory = _memory_of_nothing()
        outcome = run_case(given.seed, given.case, memory)
        print(outcome.output)
        print(json.dumps(outcome._replace(output="")._asdict(), indent=2))
        sys.exit(bool(outcome.problems))
    counts = run(given.cases, given.seed, given.out)
    text = json.dumps(counts, indent=2)
    if given.out:
        given.out.write_text(text + "\n")
    print(json.dumps({**counts, "failed": counts["failed"][:5]}, indent=2))
    sys.exit(bool(counts["failures"]))


if __name__ == "__main__":
    main()
