"""The damages themselves: real folders that are made once, and what is done to a copy of one.

It has more than 300 lines because the damages are many, and each is short.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
