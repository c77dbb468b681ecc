"""Disks that are full or read-only, and data that goes away while it is used.

    python -m campaign.disks --cases 60 --seed 0

A case is one command that something happens to:

    full       its folder is on a real file system with too little room (root), or
    write      the n-th file that it opens for writing, renames or makes cannot be had
    read-only  its folder cannot be written at all, from the start or when it is continued
    data       its pictures are removed or changed while it trains
    cache      the cache of decoded images is full or read-only

It must end with one sentence, or as if nothing had happened; earlier results must be as they were,
byte for byte; and when the disk and the data are mended, the same command must end with the numbers
of an undisturbed run, and nothing beside them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from campaign.common import (
    Ended,
    Tally,
    arguments_of,
    difference,
    import_everything,
    in_child,
    numbers_of,
    scratch,
    spare_in_child,
    strays,
)
from campaign.kills import Target, filled, make_given, targets

#: Commands of the other script that are used here.
NAMES = ("train erm", "train spare", "discover", "discover images", "report", "data draw")
IMAGES = "discover images"
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)
PATIENCE = 300.0


class Case(NamedTuple):
    kind: str
    target: Target
    rng: random.Random


class Bench(NamedTuple):
    """What the cases share."""

    folder: Path
    references: dict[str, dict[str, Any]]
    #: Whether file systems can be mounted here.
    mounts: bool


def main(words: list[str] | None = None) -> int:
    options = arguments_of(
        __doc__,
        cases=60,
        words=words,
        kinds="full,write,read-only,data,cache",
        only=",".join(NAMES),
    )
    names = options.only.split(",")
    tally = Tally("disks", {"by kind": {}, "how it ended": {}})
    import_everything()
    with scratch("disks") as folder:
        mounts = can_mount(folder)
        tally.details["file systems"] = "mounted" if mounts else "injected: mounting needs root"
        print(f"file systems are {tally.details['file systems']}")
        print("making what the commands read")
        make_given(folder / "given", [*names, "report"], spare_in_child)
        chosen = {t.name: t for t in targets(folder / "given")}
        bench = Bench(folder, {}, mounts)
        kinds = options.kinds.split(",")
        for number in range(options.cases):
            rng = random.Random(f"{options.seed}/{number}")
            kind = kinds[number % len(kinds)]
            if kind == "full" and not mounts:
                kind = "write"
            name = IMAGES if kind in ("data", "cache") else rng.choice(names)
            again = f"python -m campaign.disks --cases {options.cases} --seed {options.seed}"
            try_case(Case(kind, chosen[name], rng), bench, tally, again)
    return tally.finish(options.out)


def try_case(case: Case, bench: Bench, tally: Tally, again: str) -> None:
    """Hurt one command, mend it, give it again; count what was wrong."""
    if case.target.name not in bench.references:
        bench.references[case.target.name] = undisturbed(case.target, bench)
    place = bench.folder / "disk"
    place.mkdir()
    earlier = place / "earlier"
    started = time.monotonic()
    hurt = {"full": full, "write": write, "read-only": read_only, "data": data, "cache": cache}
    try:
        with hurt[case.kind](case, bench, place) as (story, ended):
            problem = "" if ended.code == 0 else ended.sentence()
            if not problem and numbers_of(earlier) != numbers_of(bench.folder / "given" / "run"):
                problem = "an earlier result is not what it was"
        after = in_child(command(case.target, place, bench), seconds=PATIENCE)
        if after.code != 0:
            problem = problem or f"mended, it ended with code {after.code}: {after.err[-400:]!r}"
        wanted, out = bench.references[case.target.name], place / "out"
        problem = problem or difference(wanted, numbers_in(out, case))
        left = [path for path in strays(out) if not path.startswith(f"{out}-cache")]
        problem = problem or (f"left behind: {', '.join(left)}" if left else "")
    finally:
        unmount(place)
        shutil.rmtree(place)
    ending = "finished all the same" if ended.code == 0 else "one sentence"
    for kind, key in (("by kind", case.kind), ("how it ended", ending)):
        tally.details[kind][key] = tally.details[kind].get(key, 0) + 1
    tally.add(
        f"{case.kind}: {story} ({case.target.name}; {ending})",
        problem,
        again=again,
        seconds=time.monotonic() - started,
        memory_mb=max(ended.memory_mb, after.memory_mb),
    )


def undisturbed(target: Target, bench: Bench) -> dict[str, Any]:
    """What a target leaves, in a folder of the name that it will have in every case."""
    place = bench.folder / "disk"
    place.mkdir()
    try:
        prepare(target, place, bench)
        ended = in_child(command(target, place, bench), seconds=PATIENCE)
        if ended.code != 0:
            raise RuntimeError(f"{target.name} does not work undisturbed: {ended.err}")
        return target.result(place / "out")
    finally:
        shutil.rmtree(place)


def prepare(target: Target, place: Path, bench: Bench) -> None:
    """An earlier result beside what will be made, and pictures of this case's own."""
    shutil.copytree(bench.folder / "given" / "run", place / "earlier")
    if target.prepare is not None:
        target.prepare(place / "out", bench.folder / "given")
    mend_data(bench)


def mend_data(bench: Bench) -> None:
    """The pictures as they were."""
    given = bench.folder / "given"
    if not (given / "celeba").exists():
        return
    kept = bench.folder / "photos-kept"
    if not kept.exists():
        shutil.copytree(given / "photos", kept)
    if (given / "photos").exists():
        shutil.rmtree(given / "photos")
    shutil.copytree(kept, given / "photos")


def command(
    target: Target, place: Path, bench: Bench, before: Callable[[], Any] = lambda: None
) -> Callable[[], None]:
    """What a child does: change what `before` changes, then run the command line."""
    words, variables = filled(target, place / "out", bench.folder / "given")

    def work() -> None:
        from spare.cli import main as spare

        os.environ.update(variables)
        os.chdir(place)
        before()
        spare(words)

    return work


# What happens to a command; each yields what it was, and how the command ended

Hurt = Iterator[tuple[str, Ended]]


@contextlib.contextmanager
def full(case: Case, bench: Bench, place: Path) -> Hurt:
    """A file system of its own, with less room than the command needs; then there is more."""
    mount(place, 200 << 20)
    prepare(case.target, place, bench)
    used = shutil.disk_usage(place).used
    size = sum(len(str(part)) for part in bench.references[case.target.name].values())
    room = int(size * case.rng.random() ** 2 * 1.2)
    mount(place, used + room, "remount")
    ended = in_child(command(case.target, place, bench), seconds=PATIENCE)
    mount(place, 200 << 20, "remount")
    yield f"{room // 1024} KB of room", ended


@contextlib.contextmanager
def write(case: Case, bench: Bench, place: Path) -> Hurt:
    """The n-th time that a file is opened for writing, renamed or a folder is made, it fails."""
    prepare(case.target, place, bench)
    number, code = case.rng.randrange(1, 16), case.rng.choice(ERRORS)
    watched = str(place / "out")

    def before() -> None:
        done = 0

        def audit(event: str, about: tuple[Any, ...]) -> None:
            nonlocal done
            writes = event in ("os.rename", "os.mkdir") or (
                event == "open"
                and isinstance(about[2], int)
                and about[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if writes and str(about[0]).startswith(watched):
                done += 1
                if done == number:
                    raise OSError(code, os.strerror(code), str(about[0]))

        sys.addaudithook(audit)

    ended = in_child(command(case.target, place, bench, before), seconds=PATIENCE)
    yield f"{errno.errorcode[code]} at write {number}", ended


@contextlib.contextmanager
def read_only(case: Case, bench: Bench, place: Path) -> Hurt:
    """From the start, or after a first part was done and the command was interrupted."""
    if bench.mounts:
        mount(place, 200 << 20)
    prepare(case.target, place, bench)
    story = "read-only from the start"
    if case.target.name.startswith("train") and case.rng.random() < 0.5:
        story = "read-only when it is continued"
        in_child(
            command(case.target, place, bench, lambda: _kill_at_checkpoint(place)),
            seconds=PATIENCE,
        )
    if bench.mounts and case.rng.random() < 0.7:
        mount(place, 200 << 20, "remount,ro")
        ended = in_child(command(case.target, place, bench), seconds=PATIENCE)
        mount(place, 200 << 20, "remount,rw")
    else:
        story += ", by permission"
        modes = {path: path.stat().st_mode for path in [place, *place.rglob("*")] if path.is_dir()}
        for path in modes:
            path.chmod(0o555)
        ended = in_child(command(case.target, place, bench, _lose_privileges), seconds=PATIENCE)
        for path, mode in modes.items():
            path.chmod(mode)
    yield story, ended


def _kill_at_checkpoint(place: Path) -> None:
    """Have this process killed when a checkpoint is there."""

    def watch() -> None:
        while not list(place.glob("out.partial/*.checkpoint")):
            time.sleep(0.002)
        os.kill(os.getpid(), 9)

    threading.Thread(target=watch, daemon=True).start()


def _lose_privileges() -> None:
    """Root may write anywhere: from here on, permissions count for it as for anyone."""
    if os.getuid() == 0:
        version_3, about_files = 0x20080522, 0b1111  # the first four capabilities
        header = (ctypes.c_uint32 * 2)(version_3, 0)
        sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; and their upper halves
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.capget(header, sets)
        sets[0] &= ~about_files
        if failed or libc.capset(header, sets):
            raise OSError(ctypes.get_errno(), "capset")


@contextlib.contextmanager
def data(case: Case, bench: Bench, place: Path) -> Hurt:
    """Pictures are removed, emptied or replaced while the command runs."""
    prepare(case.target, place, bench)
    photos = bench.folder / "given" / "photos"
    files = sorted(photos.rglob("*.jpg"))
    deed = case.rng.choice(["all removed", "one removed", "one emptied", "one replaced"])
    late = case.rng.random() < 0.5
    wait = case.rng.uniform(0, 1.0)
    victim = case.rng.choice(files)

    def happen() -> None:
        for _ in range(3000):  # a minute at most
            if list(place.glob("out.partial/*.checkpoint" if late else "out.partial")):
                break
            time.sleep(0.02)
        time.sleep(wait)
        if deed == "all removed":
            shutil.rmtree(photos, ignore_errors=True)
        elif deed == "one removed":
            victim.unlink()
        elif deed == "one emptied":
            victim.write_bytes(b"")
        else:
            victim.write_bytes(files[0].read_bytes() if victim != files[0] else b"another")

    thread = threading.Thread(target=happen)
    thread.start()
    ended = in_child(command(case.target, place, bench), seconds=PATIENCE)
    thread.join()
    mend_data(bench)
    when = "while it trained" if late else "while it began"
    if ended.code == 0 and "warning" not in ended.err:
        found = difference(bench.references[case.target.name], case.target.result(place / "out"))
        if found:  # what it read before the change is what counts
            ended = Ended(-1, ended.out, f"it ended well, but {found}", ended.seconds)
    elif ended.code == 0:  # it said what is missing on its page: made again, it must be there
        shutil.rmtree(place / "out")
    yield f"{deed} {when}", ended


def numbers_in(folder: Path, case: Case) -> dict[str, Any]:
    """The numbers of a folder; that there was no cache is worth a warning, and no more."""
    numbers = case.target.result(folder)
    for record in numbers.values():
        if isinstance(record, dict) and "cache" in str(record.get("notes")):
            del record["notes"]["warnings"]
    return numbers


@contextlib.contextmanager
def cache(case: Case, bench: Bench, place: Path) -> Hurt:
    """The folder of decoded images is full, read-only, or filled with rubbish."""
    prepare(case.target, place, bench)
    folder = place / "out-cache"
    deed = case.rng.choice(["full", "read-only", "a file in its place", "damaged"])
    if deed in ("full", "read-only") and not bench.mounts:
        deed = "damaged"
    if deed == "a file in its place":
        folder.write_text("in the way")
    else:
        folder.mkdir()
    if deed == "full":
        mount(folder, case.rng.randrange(4096, 64 << 10))
    elif deed == "read-only":
        mount(folder, 1 << 20, "ro")
    elif deed == "damaged":
        in_child(command(case.target, place, bench), seconds=PATIENCE)
        shutil.rmtree(place / "out")
        for path in (folder / "images").iterdir():
            if case.rng.random() < 0.7:
                content = path.read_bytes()
                path.write_bytes(content[: case.rng.randrange(len(content) + 1)])
    ended = in_child(command(case.target, place, bench), seconds=PATIENCE)
    if deed in ("full", "read-only"):
        unmount(folder)
    elif deed == "a file in its place":
        folder.unlink()
    if ended.code == 0:
        found = difference(bench.references[case.target.name], numbers_in(place / "out", case))
        if found:
            ended = Ended(-1, ended.out, f"it ended well, but {found}", ended.seconds)
    yield f"the cache is {deed}", ended


# Mounting


def mount(folder: Path, size: int, options: str = "rw") -> None:
    """A file system in memory, of so many bytes, over a folder."""
    words = ["mount", "-t", "tmpfs", "-o", f"{options},size={max(size, 4096)}", "tmpfs"]
    subprocess.run([*words, str(folder)], check=True, capture_output=True)


def unmount(folder: Path) -> None:
    for path in (folder / "out-cache", folder):
        if os.path.ismount(path):
            subprocess.run(["umount", "--lazy", str(path)], check=True)


def can_mount(folder: Path) -> bool:
    trial = folder / "trial"
    trial.mkdir()
    try:
        mount(trial, 1 << 20)
    except (OSError, subprocess.CalledProcessError):
        return False
    unmount(trial)
    return True


if __name__ == "__main__":
    sys.exit(main())
