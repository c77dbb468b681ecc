"""Damaged and malicious run folders: one sentence each, nothing imported, nothing read outside.

    python -m campaign.folders --cases 500 --seed 0 --out counts.json

Real folders are made once: a run, a discovery of pictures, a bench, an unfinished run. Each case
damages a copy of one of them at random and runs verbs on it in a forked child, which has everything
imported already. Looked at are the exit code, what is printed, canary modules that leave a file if
they are imported, every file outside of the case that is opened (by the kernel's word) or changed,
the time, and the memory. A few cases start real processes, for what only those can show.

It has more than 300 lines because the damages are many, and each is short.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: A case that takes longer hangs.
SECONDS = 60.0
#: A case may take so much memory beyond what the imported libraries have.
MEMORY = 3 * 2**30
SHOWN_FAILURES = 20
ESCAPES = "\x1b[2J\x07<script>alert(1)</script>\u202e"
SMALL = {"model": "small_cnn", "resize": "16", "crop": "16", "epochs": "2"}
EARLY = {"separate_at": "2"}
RUN_FILES = ("run.json", "settings.json", "groups.parquet", "held_out_groups.parquet",
             "weights.safetensors")  # fmt: skip


@dataclass
class Place:
    """Where everything of the campaign lies."""

    base: Path
    #: By kind: the folder that is copied for each case.
    made: dict[str, Path] = field(default_factory=dict)

    @property
    def outside(self) -> Path:
        """What no folder may lead to: pictures, a run, files of weights and groups."""
        return self.base / "outside"

    @property
    def ran(self) -> Path:
        """Written by a canary module that is imported."""
        return self.base / "ran"


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


# --- what is damaged -----------------------------------------------------------------------------


def make_place(base: Path) -> Place:
    """The real folders, and what lies outside of them."""
    import numpy as np
    from PIL import Image

    from spare import api
    from spare.errors import Interrupted
    from spare.files.writing import write_json
    from spare.progress import SILENT, Progress
    from spare.runs.table import table

    place = Place(base)
    os.environ["SPARE_CACHE"] = str(base / "cache")
    os.environ["HOME"] = str(place.outside)
    os.environ["XDG_CACHE_HOME"] = os.environ["MPLCONFIGDIR"] = str(base / "cache")
    os.environ["XDG_CONFIG_HOME"] = str(base / "cache")
    rng = np.random.default_rng(0)
    for home in (base / "pets", place.outside / "pets"):
        for name, color in (("cat", (200, 40, 40)), ("dog", (40, 40, 200))):
            (home / name).mkdir(parents=True)
            for i in range(24):
                noise = rng.integers(-30, 30, (16, 16, 3))
                pixels = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(home / name / f"{i}.bmp")
    made = base / "made"
    quiet: dict[str, Any] = {"progress": SILENT, "report": False}
    api.discover(str(base / "pets"), out=made / "found", **SMALL, **EARLY, **quiet)
    records = [
        api.train("digits", method=m, epochs=1, out=made / "bench" / f"{m}-seed0", **quiet).record
        for m in ("erm", "spare")
    ]
    write_json(made / "bench" / "table.json", table(records) | {"command": "spare bench digits"})
    shutil.copytree(made / "bench" / "spare-seed0", made / "run")
    shutil.copytree(made / "run", place.outside / "run")
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps > 40

    with contextlib.suppress(Interrupted):
        stopped = Progress(should_stop=stop)
        api.train("digits", method="erm", epochs=2, out=made / "new", progress=stopped)
    (made / "new.partial").rename(made / "partial")
    (place.outside / "secret.json").write_text('{"cat": ["cat"], "dog": ["dog"]}')
    (place.outside / "report.html").write_text("the page of someone else")
    place.made = {kind: made / kind for kind in ("run", "found", "bench", "partial")}
    return place


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


def verbs_of(kind: str, case: Path, place: Place, rng: random.Random) -> list[list[str]]:
    """What a person might do with such a folder: all of it in some order, cut short."""
    of, out = str(case), str(case.parent / "out")
    other = str(place.made["bench"] / "erm-seed0")
    figure = ["--out", f"{out}/figure.png"]
    everything = {
        "run": [
            ["report", of],
            ["compare", of, other, "--out", out],
            ["figure", rng.choice(("saliency", "saliency")), of, other, *figure],
            ["figure", rng.choice(("outputs", "clusters", "attributes")), of, *figure],
            ["train", "digits", "--method", "spare", "--set", "epochs=1", "--out", of],
            ["python", of],
        ],
        "found": [
            ["report", of],
            ["figure", rng.choice(("outputs", "clusters", "attributes")), of, *figure],
            ["discover", str(place.base / "pets"), *_settings(SMALL | EARLY), "--out", of],
            ["train", str(place.base / "pets"), "--groups", f"{of}/groups.parquet",
             *_settings(SMALL), "--out", f"{out}/trained"],
            ["python", of],
        ],
        "bench": [
            ["report", of],
            ["figure", "recovery", of, *figure],
            ["bench", "digits", "--seeds", "0", "--set", "epochs=1", "--out", of],
            ["python", of],
        ],
        "partial": [
            ["train", "digits", "--method", "erm", "--set", "epochs=2", "--out",
             of.removesuffix(".partial")],
            ["report", of],
        ],
    }[kind]  # fmt: skip
    rng.shuffle(everything)
    if rng.random() < 0.4:  # what people do most with a folder that they were sent
        everything.sort(key=lambda words: words[0] != "report")
    return everything


def _settings(values: dict[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


# --- damages: each takes the folder, and says what it did ----------------------------------------

Damage = Callable[[Path, Place, random.Random], str]


def json_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, part in items:
        yield from places_in(part, (*path, key))


def mutate_json(folder: Path, place: Place, rng: random.Random) -> str:
    path = rng.choice(json_files(folder))
    record = json.loads(path.read_text())
    done = []
    for _ in range(rng.choice((1, 1, 1, 3))):
        spots = [spot for spot in places_in(record) if spot]
        # Half of the time near the root: those are the names that code reads.
        near = [spot for spot in spots if len(spot) <= 2]
        spot = rng.choice(near if rng.random() < 0.5 else spots)
        parent = record
        for key in spot[:-1]:
            parent = parent[key]
        new = rng.choice((
            None, True, False, "text", "", -1, 0, 1.5, -0.5, 1e300, 2**62, 2**31, 10**18, [], {},
            [None], [[1]], {"a": 1}, ESCAPES, "x" * 5000, "\ud800", [1, 2, 3], ["a"] * 50, "nan",
        ))  # fmt: skip
        how = rng.choice(("drop", "other", "other", "rename"))
        if how == "drop":
            del parent[spot[-1]]
        elif how == "rename" and isinstance(parent, dict):
            name = rng.choice((ESCAPES, "", "../x", "a\x00b", "x" * 300))
            parent[name] = parent.pop(spot[-1])
        else:
            parent[spot[-1]] = new
        done.append(f"{how} {'.'.join(map(str, spot))} {str(new)[:20]!r}")
    path.write_text(json.dumps(record))
    return f"{path.name}: {'; '.join(done)}"


def break_json(folder: Path, place: Place, rng: random.Random) -> str:
    path = rng.choice(json_files(folder))
    text = path.read_text()
    number = rng.choice(("NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 5000, "1" + "0" * 30))
    changes = {
        "a number that is none": text.replace(": 0", f": {number}", 1),
        "deep": "[" * 100_000,
        "deep within": text.replace('"command": ', '"command": ' + '{"a":' * 5000, 1),
        "twice": text.replace("{", '{"format": 2, "format": 2, ', 1),
        "not UTF-8": None,
        "with a mark": "\ufeff" + text,
        "huge": text.rstrip().removesuffix("}") + ', "x": "' + "y" * 70_000_000 + '"}',
        "empty": "",
        "null": "null",
        "a list": f"[{text}]",
        "UTF-16": None,
    }
    how = rng.choice(list(changes))
    content = changes[how]
    if how == "not UTF-8":
        path.write_bytes(text.encode().replace(b"digits", b"dig\xff\xfets", 1) + b"\xff")
    elif how == "UTF-16":
        path.write_bytes(text.encode("utf-16"))
    else:
        assert content is not None
        path.write_text(content)
    return f"{path.name}: {how} {number[:12]}"


def foreign_record(folder: Path, place: Place, rng: random.Random) -> str:
    """Another folder's record where this one's is, or where there is none."""
    source = rng.choice([
        place.made["bench"] / "erm-seed0" / "run.json",
        place.made["found"] / "discovery.json",
        place.made["bench"] / "table.json",
        place.made["run"] / "settings.json",
    ])  # fmt: skip
    target = folder / rng.choice(("run.json", "discovery.json", "table.json", "settings.json"))
    shutil.copy(source, target)
    return f"{source.parent.name}/{source.name} as {target.name}"


def damage_bytes(folder: Path, place: Place, rng: random.Random) -> str:
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"))
    content = bytearray(path.read_bytes())
    how = rng.choice(("flip", "flip", "truncate", "empty", "append", "zero", "header"))
    if how == "flip" and content:
        for _ in range(rng.choice((1, 3, 100))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == "header" and content:
        for i in range(min(64, len(content))):
            content[i] = rng.randrange(256)
    elif how == "truncate":
        content = content[: rng.randrange(len(content) + 1)]
    elif how == "empty":
        content = bytearray()
    elif how == "append":
        content += rng.randbytes(100)
    else:
        content = bytearray(len(content))
    path.write_bytes(bytes(content))
    return f"{path.name}: {how}"


def other_groups(folder: Path, place: Place, rng: random.Random) -> str:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = sorted(folder.rglob("*groups.parquet"))
    if not paths:
        return damage_bytes(folder, place, rng)
    path = rng.choice(paths)
    table = pq.read_table(path)
    rows, name = table.num_rows, rng.choice(table.column_names)
    at = table.column_names.index(name)
    values: dict[str, Callable[[], Any]] = {
        "text": lambda: pa.array([ESCAPES] * rows),
        "nulls": lambda: pa.array([None] * rows, table[name].type),
        "a null": lambda: pa.array([None, *table[name].to_pylist()[1:]], table[name].type),
        "lists": lambda: pa.array([[1]] * rows),
        "structs": lambda: pa.array([{"a": 1}] * rows),
        "bytes": lambda: pa.array([b"\xff"] * rows),
        "no text": lambda: pa.StringArray.from_buffers(
            rows, pa.py_buffer(np.arange(rows + 1, dtype=np.int32).tobytes()),
            pa.py_buffer(b"\xff" * rows)),
        "big": lambda: pa.array(np.full(rows, 2**64 - 1, dtype=np.uint64)),
        "negative": lambda: pa.array(np.full(rows, -(2**63), dtype=np.int64)),
        "nan": lambda: pa.array(np.full(rows, np.nan)),
        "inf": lambda: pa.array(np.full(rows, np.inf)),
        "1e300": lambda: pa.array(np.full(rows, 1e300)),
        "booleans": lambda: pa.array([True] * rows),
        "dates": lambda: pa.array(np.arange(rows), pa.date64()),
        "decimals": lambda: pa.array([1] * rows, pa.decimal128(10)),
        "dictionary": lambda: table[name].dictionary_encode(),
    }  # fmt: skip
    how = rng.choice([*values, "drop", "no rows", "half", "double", "many", "twice", "metadata"])
    if how == "drop":
        table = table.drop_columns([name])
    elif how == "no rows":
        table = table.slice(0, 0)
    elif how == "half":
        table = table.slice(0, rows // 2)
    elif how == "double":
        table = pa.concat_tables([table, table])
    elif how == "many":
        many = pa.array(np.zeros(21_000_000, dtype=np.int8))
        table = pa.table(dict.fromkeys(("id", "cluster", "label"), many))
    elif how == "twice":
        table = table.append_column(name, table[name])
    elif how == "metadata":
        about = rng.choice((
            b"{", b"[]", b"null", b'{"powers": 3}', b'{"powers": {"a": NaN}}', b"\xff",
            b'{"powers": {"cat": 1e308}, "weight_seed": 0}', b'{"weight_seed": -1}',
            b'{"weight_seed": "x"}', b'{"weight_seed": 1e10}', b'{"powers": {"cat": -5}}',
            b"[" * 100_000,
        ))  # fmt: skip
        table = table.replace_schema_metadata({b"spare": about})
    else:
        table = table.set_column(at, name, values[how]())
    pq.write_table(table, path)
    return f"{path.name}: {how} {name}"


def other_tensors(folder: Path, place: Place, rng: random.Random) -> str:
    import torch

    from spare.files.reading import read_tensors
    from spare.files.writing import write_tensors

    paths = sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.checkpoint")])
    if not paths:
        return damage_bytes(folder, place, rng)
    path = rng.choice(paths)
    tensors, about = read_tensors(path)
    name = rng.choice(sorted(tensors))
    how = rng.choice(("shape", "dtype", "drop", "rename", "nan", "scalar", "prefix", "position",
                      "position", "no position", "none"))  # fmt: skip
    if how == "shape":
        tensors[name] = torch.zeros((3, *tensors[name].shape))
    elif how == "scalar":
        tensors[name] = torch.tensor(1.0)
    elif how == "dtype":
        other = rng.choice((torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.uint8,
                            torch.complex64))  # fmt: skip
        tensors[name] = tensors[name].to(other)
    elif how == "drop":
        del tensors[name]
    elif how == "rename":
        tensors[rng.choice((ESCAPES, "x", "selected", "/", "selected/"))] = tensors.pop(name)
    elif how == "nan" and tensors[name].is_floating_point():
        tensors[name] = tensors[name] * float("nan")
    elif how == "prefix":
        kept = name.partition("/")[0]
        tensors = {key: value for key, value in tensors.items() if not key.startswith(kept)}
    elif how == "none":
        tensors = {"x": torch.zeros(1)}
    elif how == "no position":
        about = {}
    elif how == "position" and "position" in about:
        position = json.loads(about["position"])
        key = rng.choice(list(position))
        position[key] = rng.choice((-5, 10**9, "x", None, [], {}, 1.5, 2**70, {"last": [1, 99]},
                                    {"last": 1}, [{"epoch": 1}], [1]))  # fmt: skip
        if rng.random() < 0.2:
            del position[key]
        about["position"] = json.dumps(position)
    write_tensors(path, tensors, about)
    return f"{path.name}: {how} {name[:30]}"


def import_path(folder: Path, place: Place, rng: random.Random) -> str:
    """Code that the folder names, with canaries of that name in every place that is near."""
    value = rng.choice((
        "canary:METHOD", "timm:METHOD", "canary:INFERENCE+spare", "spare+canary:TRAINER",
        "canary.sub:METHOD", "given:canary", "canary\uff1aMETHOD", "os:system", "canary",
        "canary:METHOD+canary:TRAINER", "torch:load", "spare.cli:main", "timm:hf_hub:a/b", "hf:a/b",
        "./canary.py:METHOD", ":canary", "canary:",
    ))  # fmt: skip
    key = rng.choice(("method", "task", "selection", "clusterer", "model", "label", "augment",
                      "weights", "kind", "sees", "inference", "device"))  # fmt: skip
    for path in json_files(folder):
        record = json.loads(path.read_text())
        for part in record.get("rows", [record]):
            home = next((part[h] for h in ("settings", "options") if key in part[h]), part)
            home[key] = value
        path.write_text(json.dumps(record))
    return f"{key} is {value!r}"


def path_outside(folder: Path, place: Place, rng: random.Random) -> str:
    """Files of the reader's own that the folder names, some with the right fingerprint."""
    from spare.datasets import locate

    outside = place.outside
    near = rng.choice((outside / "pets", outside / "run" / "groups.parquet", outside))
    spelled = rng.choice((
        str(near), os.path.relpath(near, folder), os.path.relpath(near, folder.parent),
        f"~/{near.relative_to(outside)}", f"/./{near}", "/dev/zero", "/", "..", "/proc/self/mem",
    ))  # fmt: skip
    key, value = rng.choice((
        ("task", spelled), ("task", spelled), ("task", spelled),
        ("classes", str(outside / "secret.json")), ("root", str(outside / "pets")),
        ("weights", str(outside / "run" / "weights.safetensors")), ("weights", "~/run/w.pt"),
        ("groups", str(outside / "run" / "groups.parquet")), ("label", str(outside / "y.npy")),
        ("label", "../outside/y.npy"), ("backgrounds", str(outside / "secret.json")),
        ("allow_outside", True), ("root", "../../outside"),
    ))  # fmt: skip
    fingerprint = ""
    if rng.random() < 0.4:  # pictures of which the author even knows the names and sizes
        near, key = outside / "pets", "task"
        value = rng.choice((str(near), "~/pets", os.path.relpath(near, folder.parent)))
    if near == outside / "pets":
        fingerprint = locate(str(near)).fingerprint
    for path in json_files(folder):
        record = json.loads(path.read_text())
        for part in record.get("rows", [record]):
            home = part if key == "task" else part[rng.choice(("settings", "settings", "options"))]
            home[key] = value
            if "data" in part and rng.random() < 0.7:
                part["data"] = fingerprint
        path.write_text(json.dumps(record))
    return f"{key} is {value!r}"


def links(folder: Path, place: Place, rng: random.Random) -> str:
    names = [*RUN_FILES, "discovery.json", "table.json", "report.html", "class-0.png", ".lock",
             "train.checkpoint", "temporary"]  # fmt: skip
    name = rng.choice(names)
    if name == "temporary":  # names that the next processes would give
        for number in range(os.getpid(), os.getpid() + 400):
            (folder / f".report.html.{number}.tmp").symlink_to(place.outside / "report.html")
        return "links where temporary files go"
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    how = rng.choice(("link", "link", "pipe", "folder", "loop", "device", "nowhere", "itself"))
    target = {
        "link": place.outside / "run" / (name if name in RUN_FILES else "run.json"),
        "device": Path("/dev/zero"),
        "loop": path,
        "nowhere": place.outside / "new",
        "itself": folder,
    }
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif name in ("report.html", "class-0.png") and how == "link":
        path.symlink_to(place.outside / "report.html")
    else:
        path.symlink_to(target[how])
    return f"{name}: {how}"


def linked_folders(folder: Path, place: Place, rng: random.Random) -> str:
    """A bench whose runs are links, or an unfinished folder that is one."""
    runs = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    if runs:
        run = rng.choice(runs)
        shutil.rmtree(run)
        run.symlink_to(place.outside / "run")
        return f"{run.name} is a link"
    target = place.outside / "run"
    partial = folder.with_name(f"{folder.name.removesuffix('.partial')}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.symlink_to(target)
    return f"{partial.name} is a link"


def foreign_files(folder: Path, place: Place, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 5))):
        name = rng.choice((
            "thesis.txt", ".lock", ".run.json.1.tmp", ".settings.json.99.tmp", "x.tmp",
            "x.checkpoint", "sub/file", "-rf", "name\nwith lines", b"\xff\xfe".decode(
                errors="surrogateescape"), ESCAPES.replace("/", "-"), "erm-seed0.partial/x",
            "report.html",
        ))  # fmt: skip
        path = folder / name
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("do not touch")
    return "other files"


def missing_files(folder: Path, place: Place, rng: random.Random) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    gone = rng.sample(files, k=min(len(files), rng.choice((1, 1, 2, 99))))
    for path in gone:
        path.unlink()
    return f"without {', '.join(sorted({path.name for path in gone}))}"


DAMAGES: dict[str, tuple[Damage, int]] = {
    "json values": (mutate_json, 8),
    "json text": (break_json, 3),
    "foreign record": (foreign_record, 2),
    "bytes": (damage_bytes, 4),
    "groups": (other_groups, 5),
    "tensors": (other_tensors, 4),
    "import path": (import_path, 5),
    "path outside": (path_outside, 6),
    "links": (links, 4),
    "linked folders": (linked_folders, 1),
    "foreign files": (foreign_files, 1),
    "missing files": (missing_files, 2),
}


# --- running a case ------------------------------------------------------------------------------


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
