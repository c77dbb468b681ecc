"""Damaged and malicious run folders: one sentence each, nothing imported, nothing read outside.

    python -m campaign.folders --cases 500 --seed 0 --out counts.json

Real folders are made once: a run, a discovery of pictures, a bench, an unfinished run. Each case
damages a copy of one of them at random and runs verbs on it in a forked child, which has everything
imported already. Looked at are the exit code, what is printed, canary modules that leave a file if
they are imported, every file outside of the case that is opened (by the kernel's word) or changed,
the time, and the memory. A few cases start real processes, for what only those can show.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.damages import DAMAGES, Place, make_place, verbs_of

#: A case that takes longer hangs.
SECONDS = 60.0
#: A case may take so much memory beyond what the imported libraries have.
MEMORY = 3 * 2**30
SHOWN_FAILURES = 20


@dataclass
class Case:
    """One damaged folder, and the verbs to run on it."""

    number: int
    kind: str
    damage: str
    folder: Path
    #: Where the person stands.
    here: Path
    verbs: list[list[str]]


def import_everything(place: Place) -> None:
    """What verbs import when they first need it, so that no child has to."""
    import spare.cli  # noqa: F401
    from spare import api
    from spare.progress import SILENT

    scratch = place.base / "scratch"
    shutil.copytree(place.made["bench"], scratch / "bench")
    run = scratch / "bench" / "spare-seed0"
    with contextlib.redirect_stdout(io.StringIO()):
        run_python(str(run))
    api.load_run(scratch / "bench").write_report()
    api.figure("clusters", run, out=scratch / "figure.png", progress=SILENT)
    shutil.rmtree(scratch)


class Opened:
    """What the kernel says was opened or changed below a folder."""

    #: IN_ACCESS, IN_MODIFY, IN_OPEN, IN_CREATE, IN_DELETE, IN_MOVED_TO
    EVENTS = 0x1 | 0x2 | 0x20 | 0x100 | 0x200 | 0x80
    IS_FOLDER = 0x40000000

    def __init__(self, folder: Path):
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        self._watched = {}
        for path in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
            watch = libc.inotify_add_watch(self._descriptor, os.fsencode(path), self.EVENTS)
            self._watched[watch] = path

    def drain(self) -> list[str]:
        """The files that were touched since the last time."""
        seen = set()
        with contextlib.suppress(BlockingIOError):
            while content := os.read(self._descriptor, 1 << 16):
                at = 0
                while at < len(content):
                    watch, mask, _, length = struct.unpack_from("iIII", content, at)
                    name = content[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                    at += 16 + length
                    if not mask & self.IS_FOLDER:  # that a folder is looked at is no reading
                        seen.add(str(self._watched[watch] / name))
        return sorted(seen)


def plant_canaries(place: Place, *folders: Path) -> None:
    """Modules that tell when they are imported, under names that a folder may choose."""
    code = f"import pathlib\npathlib.Path({str(place.ran)!r}).write_text(__name__)\n"
    code += "METHOD = INFERENCE = TRAINER = None\n"
    names = ("canary", "timm", "torch", "numpy", "msgspec", "sitecustomize", "usercustomize",
             "safetensors", "sklearn", "captum")  # fmt: skip
    for folder in folders:
        for name in names:
            with contextlib.suppress(OSError):
                (folder / f"{name}.py").write_text(code)


def run_python(folder: str) -> None:
    """What a person does in Python with a folder."""
    import spare
    from spare.errors import SpareError

    loaded = spare.load_run(folder)
    print(str(loaded), repr(loaded), len(loaded._repr_html_()))  # type: ignore[operator]
    if isinstance(loaded, spare.Bench):
        print(len(loaded.runs))
    for use in (lambda: loaded.groups, lambda: loaded.model("early"), lambda: loaded.sheets()):
        if not isinstance(loaded, spare.Bench):
            try:
                use()
            except SpareError as error:
                print(error)
    loaded.write_report()


def in_child(words: list[str], here: Path, output: Path) -> None:
    """Run one verb in this forked process, and end it."""
    code = 99
    try:
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        devnull = os.open("/dev/null", os.O_RDONLY)
        os.dup2(devnull, 0)
        os.chdir(here)
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        from spare.cli import main
        from spare.errors import SpareError
        from spare.runs import grid
        from spare.runs.worker import run_job

        # A bench's workers would be new processes, which take seconds each to start.
        grid.run_jobs = lambda todo, jobs, progress: [  # type: ignore[assignment]
            message for job in todo if (message := _said_by(run_job, job, progress))
        ]
        try:
            if words[0] == "python":
                run_python(words[1])
                code = 0
            else:
                main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except SpareError as error:
            print(f"spare: error: {error}", file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _said_by(work: Callable[..., None], *arguments: Any) -> str:
    from spare.errors import SpareError

    try:
        work(*arguments)
        return ""
    except SpareError as error:
        return str(error)


@dataclass
class Ended:
    code: int
    output: str
    seconds: float
    memory_mb: float


def run_verb(words: list[str], here: Path, output: Path) -> Ended:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        in_child(words, here, output)
    code, usage = None, None
    while time.monotonic() - started < SECONDS:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.005)
    if code is None:
        os.kill(child, signal.SIGKILL)
        _, _, usage = os.wait4(child, 0)
        code = -1000
    assert usage is not None
    text = output.read_bytes().decode(errors="replace") if output.exists() else ""
    return Ended(code, text, time.monotonic() - started, usage.ru_maxrss / 1024)


def wrong_with(ended: Ended) -> str:
    """What a person should not have seen."""
    lines = ended.output.splitlines()
    errors = [line for line in lines if line.startswith("spare: error:")]
    if ended.code == -1000:
        return f"not done after {SECONDS:.0f} s"
    if ended.code not in (0, 1):
        return f"exit code {ended.code}"
    if "Traceback (most recent call last)" in ended.output:
        return "a traceback"
    if len(errors) != ended.code:
        return f"{len(errors)} lines of error, exit code {ended.code}"
    if ended.code and not lines[-1].startswith("spare: error:"):
        return "lines after the error"
    if "Warning:" in ended.output:
        return "a warning of a library"
    if "\x1b" in ended.output or "\x07" in ended.output:
        return "terminal escapes"
    return ""


def listing(place: Place, case: Path) -> dict[str, tuple[int, int]]:
    """Everything outside of the case: names, sizes and times."""
    seen = {}
    for folder, folders, names in os.walk(place.base):
        folders[:] = [
            name for name in folders if Path(folder, name) not in (case, place.base / "cache")
        ]
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            seen[os.path.join(folder, name)] = (status.st_size, status.st_mtime_ns)
    return seen


def make_case(number: int, place: Place, rng: random.Random) -> Case:
    kind = rng.choice(("run", "run", "found", "found", "bench", "partial"))
    top = place.base / "case"
    folder = top / ("folder.partial" if kind == "partial" else "folder")
    shutil.copytree(place.made[kind], folder)
    if rng.random() < 0.3:  # as someone who never had the key would send it
        for path in folder.rglob("settings.json"):
            path.unlink() if rng.random() < 0.3 else path.write_text(
                json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "seal"})
            )
    names = list(DAMAGES)
    name = rng.choices(names, [weight for _, weight in DAMAGES.values()])[0]
    verbs = verbs_of(kind, folder, place, rng)
    try:
        what = DAMAGES[name][0](folder, place, rng)
    except (json.JSONDecodeError, KeyError, IndexError, AttributeError, TypeError) as error:
        what = f"(not done: {error!r})"  # an earlier damage left nothing for this one
    if folder.is_symlink():  # whoever names a link means what it leads to
        verbs = [words for words in verbs if words[0] == "train"]
    if (folder / "groups.parquet").is_symlink():
        verbs = [words for words in verbs if "--groups" not in words]
    here = rng.choice((top, folder)) if folder.is_dir() and kind != "partial" else top
    plant_canaries(place, top, folder)
    return Case(number, kind, f"{name}: {what}", folder, here, verbs)


def process_case(number: int, place: Place) -> tuple[str, str]:
    """Real processes in a folder full of modules: what was started, and what is wrong."""
    folder = place.base / "case" / "folder"
    shutil.copytree(place.made["run"], folder)
    record = json.loads((folder / "run.json").read_text())
    record["method"] = ("timm:METHOD", "spare", "canary:METHOD")[number % 3]
    (folder / "run.json").write_text(json.dumps(record))
    plant_canaries(place, folder)
    for name in ("json", "pathlib", "random", "spare_ml"):
        shutil.copy(folder / "canary.py", folder / f"{name}.py")
    script = Path(sys.executable).with_name("spare")
    words = [[str(script)], [sys.executable, "-m", "spare"]][number % 2]
    if not script.exists():
        words = [sys.executable, "-P", "-m", "spare"]
    if number % 2 and number % 4 == 1:  # python -m itself puts the current folder first
        for name in ("json", "pathlib", "random"):
            (folder / f"{name}.py").unlink()
    verb = [
        "bench",
        "digits",
        "--methods",
        "erm",
        "--seeds",
        "0",
        "--set",
        "epochs=1",
        "--out",
        "b",
    ]
    if number % 4 < 2:
        verb = ["report", "."]
    if number % 4 == 3:
        words = [sys.executable, "-P", "-m", "spare"]
    done = subprocess.run([*words, *verb], cwd=folder, capture_output=True, text=True, timeout=120)
    ended = Ended(done.returncode, done.stdout + done.stderr, 0, 0)
    return f"{' '.join(Path(word).name for word in words)} {verb[0]}", wrong_with(ended)


def run_cases(
    numbers: Sequence[int], seed: int, processes: int, verbs: int, base: Path
) -> dict[str, Any]:
    """Every one of these cases; the first few start processes."""
    place = make_place(base)
    import_everything(place)
    opened = Opened(place.outside)
    counts: Counter[str] = Counter()
    failed: list[dict[str, str]] = []
    failures, slowest, peak, codes = 0, (0.0, ""), 0.0, Counter[int]()
    started = time.monotonic()
    top, output = place.base / "case", place.base / "output"

    def check(number: int, damage: str, verb: str, problem: str, said: str, before: Any) -> bool:
        problems = [problem] if problem else []
        if place.ran.exists():
            problems.append(f"{place.ran.read_text()} was imported")
            place.ran.unlink()
        if read := opened.drain():
            problems.append(f"opened outside: {read[:3]}")
        after = listing(place, top)
        output_name = str(output)
        changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        if changed - {output_name}:
            problems.append(f"changed outside: {sorted(changed - {output_name})[:3]}")
        if problems and len(failed) < SHOWN_FAILURES:
            failed.append(
                {
                    "case": f"{number}: {verb} of a {damage}",
                    "problem": "; ".join(problems),
                    "again": f"python -m campaign.folders --seed {seed} --only {number}",
                    "said": said[-1500:],
                }
            )
        return bool(problems)

    for number in numbers:
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        is_process = number < processes
        case_rng = random.Random(f"{seed}/{number}")
        if is_process:
            before = listing(place, top)
            opened.drain()
            damage, problem = process_case(number, place)
            counts["process"] += 1
            failures += check(number, damage, "", problem, "", before)
            continue
        case = make_case(number, place, case_rng)
        counts[case.damage.partition(":")[0]] += 1
        bad = False
        for verb in case.verbs[:verbs]:
            opened.drain()
            before = listing(place, top)
            ended = run_verb(verb, case.here, output)
            what = f"{case.kind}, {case.damage}"
            slowest = max(slowest, (ended.seconds, f"{verb[0]} of a {what}"))
            peak = max(peak, ended.memory_mb)
            codes[ended.code] += 1
            bad |= check(number, what, " ".join(verb), wrong_with(ended), ended.output, before)
        failures += bad
        print(
            f"{number:5d}  {case.kind}, {case.damage[:100]!a}: {'WRONG' if bad else 'ok'}",
            flush=True,
        )
    return {
        "name": "folders",
        "cases": len(numbers),
        "failures": failures,
        "failed": failed,
        "seconds": round(time.monotonic() - started, 1),
        "slowest_seconds": round(slowest[0], 2),
        "slowest": slowest[1],
        "peak_memory_mb": round(peak),
        "details": {"damages": dict(counts), "exit_codes": {str(k): v for k, v in codes.items()}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=8, help="cases that start real processes")
    parser.add_argument("--verbs", type=int, default=2, help="verbs that are run on each folder")
    parser.add_argument("--only", type=int, help="one case, by its number")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked child cannot use threads of its parent
    with tempfile.TemporaryDirectory() as base:
        numbers = range(given.cases) if given.only is None else [given.only]
        counts = run_cases(numbers, given.seed, given.processes, given.verbs, Path(base))
    text = json.dumps(counts, indent=2)
    if given.out is not None:
        given.out.write_text(text + "\n")
    print(text)
    sys.exit(counts["failures"] > 0)


if __name__ == "__main__":
    main()
