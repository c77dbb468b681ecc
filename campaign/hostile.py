# ruff: noqa: E501 - lists of hostile values are easier to read in long lines
"""The hostile inputs themselves: each kind makes files in a folder, and says what to type there.

It has more than 300 lines because the kinds are many, and each is short.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import socket
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Dice(random.Random):
    """Chance, and how often it does harm: half of the cases are calm, so that many are right."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.calm = self.random() < 0.5

    def hit(self, share: float) -> bool:
        """Whether something is done that is done in that share of the cases that are not calm."""
        return self.random() < (share / 10 if self.calm else share)

    def pick(self, good: Sequence[Any], odd: Sequence[Any], share: float = 0.5) -> Any:
        """One of the odd in that share of the cases that are not calm, else one of the good."""
        return self.choice(odd if self.hit(share) else good)


Make = Callable[[Dice, Path], list[str]]
KINDS: dict[str, Make] = {}

WORDS = [
    "", " ", "nan", "NaN", "inf", "-inf", "0", "-1", "00", "1e308", "1e-320", "1" * 30, "None", "null", "true",
    "a/b", "../..", "/", ".", "..", "~", "~nobody", "-", "--out", "=", ",", ",,", "a,b", "'", '"', "a\nb", "a\rb",
    "\x1b[2J\x1b]0;x\x07", "\x00", "a\x00b", "\u202eabc", "\ufeff", "\ud800", "\udcff", "é" * 50, "x" * 300,
    "x" * 5000, "😀", "<script>alert(1)</script>", "%s%n", "{0}", "$(id)", "timm:x", "os:system", "mine:X",
    "[1, 2", "[]", "{}", "1,2,3", "nan,inf", "0x10", "1_000", "١٢", "1.5", "-0.0", "10" * 15,
]  # fmt: skip


def kind(make: Make) -> Make:
    KINDS[make.__name__.lstrip("_")] = make
    return make


def quick(*more: str) -> list[str]:
    return ["--set", "epochs=1", *more]


# --- tables --------------------------------------------------------------------------------------


def _labels(rng: Dice, n: int) -> list[str]:
    known: list[str] = rng.pick(
        [["a", "b"], ["1000001", "1000002"]],
        [
            ["nan", "inf", "x"],
            ["0.1", "0.2"],
            ["-0.0", "0", "1"],
            ["01", "1"],
            ["1e400", "2"],
            [str(2**63), str(2**63 + 1)],
            ["true", "False"],
            ["2024-01-01", "2024-13-45"],
            rng.sample(WORDS, 3),
            [str(i) for i in range(2000)],
            ["only"],
        ],
    )
    return [known[i % len(known)] for i in range(n)]


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"' if any(c in word for c in ',"\n\r') else word


@kind
def csv(rng: Dice, folder: Path) -> list[str]:
    n = rng.pick([60, 60, 3000], [0, 1, 2, 7], 0.2)
    labels = _labels(rng, n)
    header = ["f0", "f1", "f2", "label"]
    if rng.hit(0.3):
        header[rng.randrange(4)] = rng.choice(["label", "f0", "", "split", "id", "path", *WORDS])
    rows = [[f"{rng.gauss(0, 1):.4f}" for _ in range(3)] + [label] for label in labels]
    for _ in range(rng.pick([0], [1, 5])):
        if rows:
            rng.choice(rows)[rng.randrange(4)] = rng.choice(WORDS)
    suffix, comma = rng.choice([(".csv", ","), (".csv", ","), (".tsv", "\t")])
    comma = rng.pick([comma], [",", ";"], 0.2)
    text = "\n".join(comma.join(map(_quoted, row)) for row in [header, *rows])
    text = rng.pick([text, text.replace("\n", "\r\n")], [text.replace("\n", "\r", 5)], 0.25)
    content = text.encode(rng.pick(["utf-8", "utf-8-sig"], ["utf-16", "latin-1"], 0.3), "replace")
    content = _damaged(rng, content, 0.2)
    if rng.hit(0.02):
        content = b"label,f0\n" + b"x" * 20_000_000
    (folder / f"d{suffix}").write_bytes(content)
    more = ["--set", f"encoding={rng.choice(['latin-1', 'utf-16', 'zip', *WORDS])}"]
    return [
        rng.choice(["train", "discover"]), f"d{suffix}", *quick(),
        *(more if rng.hit(0.1) else []),
        *(["--label", rng.choice(["label", "f0", *WORDS])] if rng.hit(0.2) else []),
        *(["--attributes", rng.choice(["f0", "label", "f0,f1", *WORDS])] if rng.hit(0.2) else []),
        *(["--split", rng.choice(["f0", "label", *WORDS])] if rng.hit(0.1) else []),
    ]  # fmt: skip


def _damaged(rng: Dice, content: bytes, share: float) -> bytes:
    """The same bytes, with that probability cut off, flipped, doubled, or something else."""
    if not rng.hit(share) or not content:
        return content
    data = bytearray(content)
    what = rng.randrange(6)
    if what == 0:
        return bytes(data[: rng.randrange(len(data))])
    if what == 1:
        return rng.randbytes(rng.randrange(500))
    if what == 2:
        return bytes(data + data)
    for _ in range(1 if what == 3 else 20):
        data[rng.randrange(len(data) if what < 5 else min(len(data), 128))] = rng.randrange(256)
    return bytes(data)


@kind
def parquet(rng: Dice, folder: Path) -> list[str]:
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    n = rng.pick([40], [0, 1], 0.4)
    i = range(n)
    columns: dict[str, Any] = {
        "number": pa.array(np.arange(n) * 0.5, pa.float64()),
        "ints": pa.array([k % 3 for k in i], pa.int64()),
        "big": pa.array([2**63 + k % 2 for k in i], pa.uint64()),
        "half": pa.array(np.arange(n, dtype=np.float16) % 3),
        "single": pa.array(np.float32(0.1) * (np.arange(n) % 3), pa.float32()),
        "nan": pa.array([float("nan") if k % 5 == 0 else k % 2 for k in i], pa.float64()),
        "words": pa.array([str(k % 3) for k in i], pa.string()),
        "nulls": pa.nulls(n),
        "null_words": pa.array([None if k % 2 else "x" for k in i], pa.string()),
        "bytes": pa.array([b"a" if k % 2 else b"\xff" for k in i], pa.binary()),
        "text_bytes": pa.array([b"a" if k % 2 else b"b" for k in i], pa.binary()),
        "bools": pa.array([k % 2 == 0 for k in i], pa.bool_()),
        "dates": pa.array([k % 2 * 2_000_000 for k in i], pa.date32()),
        "times": pa.array([k % 2 + 1 for k in i], pa.time64("ns")),
        "stamps": pa.array([k % 2 + 1 for k in i], pa.timestamp("ns", "UTC")),
        "far": pa.array([(k % 2 + 1) * 10**15 for k in i], pa.timestamp("s")),
        "durations": pa.array([k % 2 * 10**15 for k in i], pa.duration("s")),
        "decimals": pa.array([decimal.Decimal(k % 2) / 4 for k in i], pa.decimal128(20, 4)),
        "lists": pa.array([[1.0, 2.0] for _ in i], pa.list_(pa.float32())),
        "ragged": pa.array([[1.0] * (k % 3) for k in i], pa.list_(pa.float64())),
        "structs": pa.array([{"a": k} for k in i], pa.struct([("a", pa.int64())])),
        "maps": pa.array([[("a", k)] for k in i], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array([str(k % 2) for k in i], pa.string()).dictionary_encode(),
        "latin": pa.Array.from_buffers(
            pa.string(), n, [None, pa.py_buffer(np.arange(n + 1, dtype=np.int32).tobytes()),
                             pa.py_buffer(b"\xff\xfe" * n)]),
    }  # fmt: skip
    chosen = rng.sample(list(columns), rng.randint(1, 6))
    if rng.random() < 0.8:
        chosen.append("number")
    names = [rng.choice(["label", "split", "id", "path", "", *chosen, *WORDS[:6]]) if rng.hit(0.2)
             else name for name in chosen]  # fmt: skip
    with contextlib.suppress(pa.ArrowException):
        table = pa.Table.from_arrays([columns[name] for name in chosen], names)
        pq.write_table(table, folder / "d.parquet", store_schema=rng.random() < 0.7)
    path = folder / "d.parquet"
    if rng.hit(0.02):
        rows = pa.array(np.zeros(25_000_000, dtype=np.int8))
        pq.write_table(pa.table({"label": rows, "f": rows}), path)
    path.write_bytes(_damaged(rng, path.read_bytes() if path.exists() else b"", 0.3))
    return ["discover", "d.parquet", *quick(), "--label", rng.pick(names, ["label"], 0.3),
            *(["--attributes", rng.choice(names)] if rng.hit(0.4) else [])]  # fmt: skip


# --- arrays --------------------------------------------------------------------------------------


def _some_array(rng: Dice, n: int) -> np.ndarray:
    numbers = np.random.default_rng(rng.randrange(2**32))
    dtype = rng.choice(
        ["<f4", ">f4", ">f8", "<f2", ">i4", "<u8", "|u1", "|b1", "<c8", "<c16", "<M8[s]", "<m8[h]",
         "<M8[Y]", "|S3", "<U3", "|V4", "i4,f8", "<f8", "<i8"]
    )  # fmt: skip
    shape = rng.choice(
        [
            (n,),
            (n, 1),
            (n, 4),
            (n, 2),
            (n, 3, 8, 8),
            (),
            (n, 0),
            (0, 4),
            (n + 1, 4),
            (1,),
            (n, 1, 1),
        ]
    )
    raw = numbers.normal(0, 3, shape)
    if dtype in ("|S3", "<U3"):
        return np.where(raw > 0, "a", "b").astype(dtype)
    if dtype in ("|V4", "i4,f8"):
        return np.zeros(shape, dtype)
    if dtype[1] in "Mm":
        return (raw > 0).astype(np.int64).astype(dtype)
    values = raw.astype(dtype) if dtype[1] in "fc" else np.abs(raw).astype(dtype)
    if values.dtype.kind == "f" and values.size and rng.hit(0.2):
        values.reshape(-1)[rng.randrange(values.size)] = rng.choice([np.nan, np.inf, -np.inf])
    return np.asarray(values)


def _arrays(rng: Dice) -> dict[str, np.ndarray]:
    n = rng.pick([60], [1, 2], 0.4)
    good = np.random.default_rng(0).normal(0, 1, (n, 4)).astype(np.float32)
    arrays = {"features": good, "label": np.arange(n) % 2}
    for name in rng.sample(
        ["features", "label", "split", "place", "id", "extra"], rng.pick([0], [1, 2, 3], 0.75)
    ):
        arrays[name] = _some_array(rng, n)
    if rng.hit(0.1):
        del arrays[rng.choice(list(arrays))]
    return arrays


def _header(shape: str, descr: str = "'<f4'", more: str = "") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {more}}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _evil_npy(rng: Dice) -> bytes:
    shape = rng.choice(
        ["(1000000000000, 1000000000000)", "(-1, 4)", "(60,)", "(60, -4)", "()", "(0,)", "60", "'x'",
         "(60, 4", "(" * 500, "(2**40,)", "(100000000,)", "(50000000, 10)", "(True, 4)", "(1.5,)"]
    )  # fmt: skip
    descr = rng.choice(
        ["'<f4'", "'|O'", "'<U2000000000'", "'|V0'", "'<U0'", "[('a', '<f4')]", "'x'", "'<M8[2Y]'",
         "None", "('<f4', (1000000, 1000000))", "'>f16'", "'<f4,<f4'"]
    )  # fmt: skip
    return _header(shape, descr) + rng.randbytes(rng.choice([0, 960, 5000]))


@kind
def npz(rng: Dice, folder: Path) -> list[str]:
    path = folder / "d.npz"
    np.savez(path, **_arrays(rng))  # type: ignore[arg-type]
    if rng.hit(0.3):
        members = {"features.npy": _evil_npy(rng), "label.npy": _npy(np.arange(60) % 2)}
        if rng.random() < 0.5:
            members |= {
                rng.choice(["../x.npy", "/etc/x.npy", "x", "d/", "é.npy", "x" * 300]): b"abc"
            }
        with zipfile.ZipFile(path, "w", rng.choice([0, 8, 12, 14])) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    elif rng.hit(0.06):
        _bomb(path, rng.choice(["features", "unused"]))
    content = path.read_bytes()
    if rng.hit(0.1):  # encrypted, or so it says
        content = content.replace(
            b"PK\x01\x02\x14\x00\x14\x00\x00", b"PK\x01\x02\x14\x00\x14\x00\x01"
        )
    path.write_bytes(_damaged(rng, content, 0.1))
    return _with_columns(rng, "d.npz")


def _with_columns(rng: Dice, name: str) -> list[str]:
    names = ["features", "label", "split", "place", "id", "extra"]
    return [
        rng.choice(["train", "discover"]), name, *quick(),
        *(["--label", rng.choice(["label", *names])] if rng.hit(0.15) else []),
        *(["--attributes", rng.choice(["label", *names])] if rng.hit(0.15) else []),
        *(["--split", rng.choice(names)] if rng.hit(0.05) else []),
        *(["--set", f"features={rng.choice(['features', *names])}"] if rng.hit(0.15) else []),
    ]  # fmt: skip


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _bomb(path: Path, name: str) -> None:
    """Two megabytes that become two gigabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("label.npy", _npy(np.arange(60) % 2))
        if name == "unused":
            archive.writestr("features.npy", _npy(np.random.default_rng(0).normal(size=(60, 4))))
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            member.write(_header("(60, 8333334)"))
            for _ in range(2000):
                member.write(bytes(1_000_000))


@kind
def npy(rng: Dice, folder: Path) -> list[str]:
    good = np.random.default_rng(0).normal(0, 1, (60, 4))
    features = rng.pick([_npy(good)], [_npy(_some_array(rng, 60)), _evil_npy(rng)])
    labels = _npy(rng.pick([np.arange(60) % 2], [_some_array(rng, 60)], 0.3))
    (folder / "x.npy").write_bytes(_damaged(rng, features, 0.1))
    (folder / "y.npy").write_bytes(_damaged(rng, labels, 0.1))
    label = rng.choice(["y.npy"] * 300 + ["x.npy", ".", "/dev/zero", *WORDS])
    return ["discover", "x.npy", *quick(), "--label", label]


@kind
def safetensors(rng: Dice, folder: Path) -> list[str]:
    import torch
    from safetensors.torch import save

    n = 60
    kinds = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8,
             torch.bool, torch.complex64, torch.float64, torch.uint16, torch.uint64]  # fmt: skip
    tensors = {
        "features": torch.rand(n, 4).to(
            rng.pick([torch.float32, torch.float16, torch.bfloat16], kinds)
        ),
        "label": (torch.arange(n) % 2).to(rng.pick([torch.int64], kinds)),
    }
    content = save(tensors)
    if rng.hit(0.3):
        about = {"features": {"dtype": rng.choice(["F32", "X", "F4"]), "shape": rng.choice([[60, 4], [-1, 4],
                 [10**12, 10**12], [], [2**62]]), "data_offsets": rng.choice([[0, 960], [0, 10**15], [5, 2]])}}  # fmt: skip
        header = json.dumps(about).encode()
        content = struct.pack("<Q", rng.choice([len(header), 2**63, 5])) + header + bytes(960)
    (folder / "d.safetensors").write_bytes(_damaged(rng, content, 0.3))
    return _with_columns(rng, "d.safetensors")


# --- images --------------------------------------------------------------------------------------


def _png(width: int, height: int, raw: bytes) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    start = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + start + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def _picture(rng: Dice) -> bytes:
    from PIL import Image

    mode = rng.choice(["RGB", "RGB", "L", "RGBA", "P", "CMYK", "I;16", "1", "LA", "F", "I"])
    size = rng.choice([(8, 8), (8, 8), (1, 1), (1, 300), (300, 1), (40, 30)])
    form = rng.choice(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
    buffer = io.BytesIO()
    with contextlib.suppress(OSError, ValueError, KeyError):
        Image.new(mode, size, rng.randrange(200) if mode not in ("RGB", "RGBA") else "red").save(
            buffer, form
        )
    return buffer.getvalue() or _png(8, 8, bytes(8 * 25))


def _plant(rng: Dice, path: Path) -> None:
    """Something among the images that is none."""
    what = rng.randrange(14)
    if what == 0:
        os.mkfifo(path)
    elif what == 1:
        path.mkdir()
    elif what == 2:
        path.symlink_to(path.name)
    elif what == 3:
        path.symlink_to(
            rng.choice(["/dev/zero", "/etc/passwd", "/", "nowhere", "..", "/dev/stdin"])
        )
    elif what == 4:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    elif what == 5:
        with path.open("wb") as file:
            file.truncate(10_000_000_000)
    elif what == 6:
        path.write_bytes(_png(rng.choice([9_900, 100_000, 2**31 - 1]), 10_000, b""))
    elif what == 7:
        path.write_bytes(b"")
    elif what == 8:
        path.write_bytes(_picture(rng))
        path.chmod(0)
    else:
        path.write_bytes(_damaged(rng, _picture(rng), 0.9))


def _name(rng: Dice, suffix: bytes) -> bytes:
    odd = [
        b"\xff\xfe",
        "é".encode(),
        b"a\nb",
        b"\x1b[31m",
        b" ",
        b"nan",
        b"-rf",
        b"a" * 240,
        "\u202e".encode(),
    ]
    return rng.choice([b"%d" % rng.randrange(10**6), rng.choice(odd)]) + suffix


def _class_names(rng: Dice) -> list[bytes]:
    odd = [b"nan", b"inf", b"\xff", b"a\nb", b"\x1b[2J", b" ", b"-1", b"1e400", b"train", "é".encode(),
           b"x" * 250, b"a\xff", b"a\\xff", b"0", b"00", b"<b>"]  # fmt: skip
    several = rng.sample(odd, rng.randint(1, 4))
    chosen: list[bytes] = rng.pick([[b"cat", b"dog"]], [several, several, [b"train", b"test"]], 0.6)
    return chosen


@kind
def folder_of_images(rng: Dice, folder: Path) -> list[str]:
    _images(rng, folder / "d")
    return ["discover", "d", *_small_images(rng)]


def _small_images(rng: Dice) -> list[str]:
    return [*quick("--set", "resize=16", "--set", "crop=16", "--model", "lenet5"),
            *(["--skip-bad"] if rng.random() < 0.5 else []),
            *(["--set", "cache=off"] if rng.random() < 0.2 else [])]  # fmt: skip


def _images(rng: Dice, folder: Path) -> None:
    for name in _class_names(rng):
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.mkdir(parents=True, exist_ok=True)
        for number in range(rng.pick([8], [0, 3], 0.25)):
            (path / f"{number}.png").write_bytes(_picture(rng))
        for _ in range(rng.pick([0], [1, 1, 3], 0.75)):
            with contextlib.suppress(OSError):
                os.chdir(path)
                _plant(
                    rng,
                    path
                    / os.fsdecode(_name(rng, rng.choice([b".jpg", b".png", b".PNG", b".tiff"]))),
                )
    os.chdir(folder.parent)


@kind
def table_of_images(rng: Dice, folder: Path) -> list[str]:
    for number in range(6):
        (folder / f"{number}.png").write_bytes(_picture(rng))
    os.mkfifo(folder / "pipe.png")
    odd = [
        "../../../etc/passwd",
        "/dev/zero",
        "pipe.png",
        "x" * 5000,
        "a\x00b",
        "",
        ".",
        "no.png",
        "0.png",
        *WORDS,
    ]
    rows = [(f"{i}.png", "ab"[i % 2]) for i in range(6)]
    rows += [
        (rng.choice(odd), rng.choice(["a", "b", *WORDS])) for _ in range(rng.pick([0], [1, 2], 0.7))
    ]
    lines = ["path,label"] + [f"{_quoted(a)},{_quoted(b)}" for a, b in rows]
    text = "\n".join(lines).encode("utf-8", "surrogatepass" if rng.hit(0.2) else "replace")
    (folder / "d.csv").write_bytes(text)
    outside = ["--allow-outside"] if rng.random() < 0.3 else []
    return ["discover", "d.csv", *_small_images(rng), *outside]


@kind
def mapping_file(rng: Dice, folder: Path) -> list[str]:
    for name in ("cat", "dog", "01"):
        (folder / "d" / name).mkdir(parents=True)
        for number in range(4):
            (folder / "d" / name / f"{number}.png").write_bytes(_png(8, 8, bytes(8 * 25)))
    good = {".json": '{"A": ["cat"], "B": ["dog", "01"]}', ".toml": 'A = ["cat"]\nB = ["dog", "01"]',
            ".csv": "folder,class\ncat,A\ndog,B\n01,B\n"}  # fmt: skip
    suffix = rng.choice(list(good))
    odd = ["[" * 100_000, "{}", "[]", "null", '{"A": 1}', '{"A": [1, null]}', '{"A": [["cat"]]}', "folder,class",
           '{"A": ["cat"], "A": ["dog"]}', '{"\\ud800": ["cat"], "B": ["dog"]}', "folder,class\n,\n", *WORDS]  # fmt: skip
    text = rng.pick([good[suffix]], odd, 0.6)
    path = folder / f"m{suffix}"
    path.write_bytes(_damaged(rng, text.encode("utf-8", "replace"), 0.4))
    if rng.hit(0.15):
        path.unlink()
        rng.choice([os.mkfifo, os.mkdir, lambda p: os.symlink(p, p)])(path)  # type: ignore[operator]
    return [
        "discover",
        "d",
        *_small_images(rng),
        "--classes",
        rng.choice([f"m{suffix}"] * 60 + WORDS),
    ]


@kind
def groups_file(rng: Dice, folder: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    _good(folder)
    n = 44  # of the 60 examples, those that are divided into training
    ids: list[Any] = list(range(rng.pick([n], [n - 1, n + 1, 0])))
    clusters: list[Any] = [rng.randrange(3) for _ in ids]
    for _ in range(rng.pick([0], [1, 2])):
        if ids:
            rng.choice([ids, clusters])[rng.randrange(len(ids))] = rng.choice(
                [-1, 2**62, 10**6, 0, None]
            )
    lines = ["id,cluster"] + [f"{i},{c}" for i, c in zip(ids, clusters, strict=True)]
    path = folder / rng.pick(["g.csv", "g.parquet"], ["g.npz", "g"])
    if path.suffix == ".csv":
        path.write_bytes(_damaged(rng, "\n".join(lines).encode(), 0.5))
    else:
        about = rng.pick([b"{}", b'{"powers": {"0": 1, "1": 2}}'], [b"[]", b"null", b'{"powers": {"0": 1e999}}', b'{"powers": [1]}', b"\xff",
                            b'{"powers": {"0": NaN}, "weight_seed": -1}', b'{"weight_seed": 1e400}'])  # fmt: skip
        table = pa.table({"id": ids, "cluster": clusters}).replace_schema_metadata(
            {b"spare": about}
        )
        pq.write_table(table, path)
        path.write_bytes(_damaged(rng, path.read_bytes(), 0.2))
    return [
        "train",
        "good.npz",
        *quick(),
        "--groups",
        rng.choice([str(path)] * 300 + [".", "/dev/null", *WORDS]),
    ]


# --- settings, options, names --------------------------------------------------------------------


def _good(folder: Path) -> None:
    numbers = np.random.default_rng(0)
    label = np.arange(60) % 2
    features = numbers.normal(0, 1, (60, 4)) + label[:, None]
    np.savez(folder / "good.npz", features=features, label=label, place=label)


VALUES = ["NaN", "inf", "-inf", "-1", "0", "1", "1e308", "-1e308", "10" * 15, str(2**31), str(2**63), "0.5", "1e-320",
          "true", "None", "[1]", "(1,)", *WORDS]  # fmt: skip


MILD = ["0", "1", "2", "3", "0.1", "0.5", "true", "false", "1,2", "auto", "none", "linear", "last"]


def setting_keys(methods: Iterable[str] = ()) -> list[str]:
    """Every key that can be set, of these methods (or all) and of the data that is used here."""
    from spare.datasets import locate
    from spare.methods import METHODS, method_named
    from spare.runs.plan import known_settings

    with tempfile.TemporaryDirectory() as temporary:
        _good(Path(temporary))
        source = locate(Path(temporary) / "good.npz")
        keys = {
            key
            for name in methods or METHODS
            for part in known_settings(source, method_named(name)).values()
            for key in part
        }
    return sorted(keys)


KEYS: list[str] = []

#: What is right for an option, where it can be right at all.
FIT = {
    "--label": ["label"], "--attributes": ["place"], "--model": ["linear", "mlp"], "--device": ["cpu", "auto"],
    "--out": ["there"], "--method": ["erm", "spare", "jtt"], "--methods": ["erm", "erm,spare"], "--jobs": ["1"],
    "--seed": ["0", "7"], "--seeds": ["0", "0,1"], "--threads": ["1"], "--set": ["lr=0.01", "batch_size=16"],
    "--inference": ["spare", "jtt"],
}  # fmt: skip


@kind
def settings(rng: Dice, folder: Path) -> list[str]:
    _good(folder)
    from spare.methods import METHODS

    method = rng.choice(["spare", *METHODS])
    key = rng.choice(KEYS if rng.hit(0.2) else setting_keys([method]))
    verb = ["train", "--method", method]
    # Half of them may well be right, so that what comes after the check is tested too.
    pairs = ["--set", f"{key}={rng.pick(MILD, VALUES, 0.7)}"]
    if rng.hit(0.05):
        pairs = ["--set", rng.choice(WORDS)]
    epochs = [] if key == "epochs" else quick()
    return [verb[0], "good.npz", *verb[1:], *epochs, *pairs]


@kind
def options(rng: Dice, folder: Path) -> list[str]:
    _good(folder)
    verb = rng.choice(["discover", "train", "train", "bench"])
    names = ["--seed", "--threads", "--label", "--path", "--split", "--attributes", "--classes", "--model",
             "--device", "--data", "--out", "--set", "--inference", "--groups", "--method"]  # fmt: skip
    if verb == "bench":
        names += ["--jobs", "--seeds", "--methods"]
    given = []
    for name in rng.sample(names, rng.choice([1, 1, 2])):
        given += [name, rng.pick(FIT.get(name, MILD), VALUES, 0.8)]
    start = ["--jobs", "1", "--seeds", "0", "--methods", "erm"] if verb == "bench" else []
    kept = [w for i, w in enumerate(start) if start[i - i % 2] not in given]
    return [verb, "good.npz", *quick(), *kept, *given]


@kind
def names(rng: Dice, folder: Path) -> list[str]:
    _good(folder)
    odd = folder / os.fsdecode(
        _name(rng, rng.pick([b".npz"], [b".csv", b".parquet", b"", b".npy"]))
    )
    with contextlib.suppress(OSError):
        what = rng.pick([9], range(4))
        if what == 0:
            os.mkfifo(odd)
        elif what == 1:
            odd.symlink_to(odd)
        elif what == 2:
            odd.mkdir()
        elif what == 3:
            odd.symlink_to("/dev/zero")
        else:
            shutil.copy(folder / "good.npz", odd)
    task = rng.choice(
        [
            *[str(odd), odd.name] * 60,
            "/dev/zero",
            "/dev/null",
            "x/" * 3000 + "a.csv",
            "a" * 300,
            *WORDS,
        ]
    )
    verb = rng.choice(["discover", "train", "train", "bench", "report", "compare", "figure"])
    more = {"bench": ["--jobs", "1", "--seeds", "0"], "figure": ["saliency"]}.get(verb, [])
    return [verb, *(more if verb == "figure" else []), task, *(more if verb == "bench" else []),
            *(quick() if verb in ("discover", "train", "bench") else [])]  # fmt: skip


@kind
def other_verbs(rng: Dice, folder: Path) -> list[str]:
    word = rng.pick(["settings", "digits", "methods", "waterbirds", "8"], VALUES, 0.8)
    return rng.choice(
        [
            ["list", word],
            ["list", "settings", word],
            ["data", "list", "--data", word],
            ["data", "draw", word],
            ["data", "draw", "waterbirds", "--size", word],
            ["data", "cache", word],
            ["data", word],
            [word],
            ["report", word],
            ["compare", word, word],
            ["figure", word, "."],
            ["demo", word],
        ]
    )
