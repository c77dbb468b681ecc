"""Coverage-guided fuzzing (atheris, libFuzzer) of every reader of bytes from outside.

    python -m campaign.fuzz --seconds 1800 --out fuzz.json

Every reader gets an equal share of the time in a process of its own, and starts from small valid
files. A case is one execution. It fails if anything but a SpareError is raised, if a signal ends
the process, if one input takes longer than 20 s, or if memory runs over. An input that failed is
kept in full:

    python -m campaign.fuzz --reader NAME --input FILE

atheris has wheels for few versions of Python: pip install --group fuzz.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tarfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from campaign.common import KEPT, Tally, environment, scratch

#: Of one input: seconds, and bytes.
LONGEST = 20
LARGEST = 1 << 16
MEMORY_MB = 3000
#: Modules whose branches guide the fuzzer; what is compiled cannot.
GUIDED = ["spare", "PIL", "tarfile", "tomllib", "zipfile"]
#: How often a reader's process is started again after something has ended it.
RESTARTS = 5


class Reader(NamedTuple):
    """A function of a file's bytes, and valid bytes to start from."""

    #: The name of the file; "{folder}/" before it where a whole folder is read.
    file: str
    read: Callable[[Path], Any]
    valid: Callable[[], list[bytes]]


# What is read


def _task(path: Path) -> None:
    """The whole way of someone's own file, to a task that could be trained on."""
    from spare.datasets import locate
    from spare.methods import method_named
    from spare.progress import SILENT
    from spare.runs.plan import make_plan

    overrides = {"label": "labels.npy"} if path.suffix == ".npy" else {}
    plan = make_plan(locate(str(path), None, overrides), method_named("erm"), overrides)
    plan.load_task(0, SILENT)


def _image(path: Path) -> None:
    from spare.images.decode import decode

    decode(path.read_bytes())


def _mapping(path: Path) -> None:
    from spare.datasets.folder import read_mapping

    read_mapping(path)


def _groups(path: Path) -> None:
    from spare.records.groups_file import read_groups

    read_groups(path)


def _record(path: Path) -> None:
    from spare.records.record import read_record

    read_record(path.parent)


def _bench_table(path: Path) -> None:
    from spare.records.bench_table import read_table, runs_by_method

    runs_by_method(path.parent, read_table(path.parent))


def _settings(path: Path) -> None:
    """settings.json of an unfinished folder, which is read before it is continued."""
    from spare.errors import Interrupted
    from spare.records.folder import do_once

    def work(_: Path) -> Any:
        raise Interrupted("far enough")

    partial = path.parent / "run.partial"
    partial.mkdir(exist_ok=True)
    (partial / "settings.json").write_bytes(path.read_bytes())
    do_once(path.parent / "run", _request(), "run", work, lambda _: None)


def _checkpoint(path: Path) -> None:
    _training_state().load(path, epochs=3)


def _weights(path: Path) -> None:
    from spare.records.weights_file import read_weights

    read_weights(path.parent)


def _mnist(path: Path) -> None:
    from spare.datasets.mnist import FOLDER, read_mnist

    folder = path.parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).write_bytes(path.read_bytes())
    read_mnist(path.parent)


def _tar(path: Path) -> None:
    import shutil

    from spare.datasets.archives import fetch_archive

    shutil.rmtree(path.parent / "unpacked", ignore_errors=True)
    fetch_archive(path.as_uri(), path.parent / "unpacked", "inside")


# Valid files to start from


def _csv() -> list[bytes]:
    rows = [f"{i},{i / 7:.3f},{'cat' if i % 2 else 'dog'},{('train', 'val', 'test')[i % 3]}"
            for i in range(18)]  # fmt: skip
    text = "\n".join(["a,b,label,split", *rows])
    return [text.encode(), text.replace(",", "\t").encode(), text.encode("utf-16")]


def _parquet_of(columns: dict[str, Any], about: dict[str, str] | None = None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(about), sink, compression="none")
    return sink.getvalue()


def _parquet() -> list[bytes]:
    numbers = [i / 7 for i in range(18)]
    words = ["cat" if i % 2 else "dog" for i in range(18)]
    return [
        _parquet_of({"a": numbers, "label": words}),
        _parquet_of({"a": numbers, "b": [[n] for n in numbers], "y": [i % 3 for i in range(18)]}),
    ]


def _npy() -> list[bytes]:
    import numpy as np

    found = []
    for values in (np.ones((18, 2), np.float32), np.arange(18) % 2, np.array(["a", "b"] * 9)):
        sink = io.BytesIO()
        np.save(sink, values)
        found.append(sink.getvalue())
    return found


def _npz() -> list[bytes]:
    import numpy as np

    found = []
    for save in (np.savez, np.savez_compressed):
        sink = io.BytesIO()
        save(sink, x=np.ones((18, 2), np.float32), y=np.arange(18) % 2)
        found.append(sink.getvalue())
    return found


def _safetensors() -> list[bytes]:
    import numpy as np
    from safetensors.numpy import save

    return [save({"x": np.ones((18, 2), np.float32), "y": np.arange(18) % 2}, {"a": "b"})]


def _images() -> list[bytes]:
    from PIL import Image

    found = []
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"):
        for mode in ("RGB", "L"):
            sink = io.BytesIO()
            Image.new(mode, (9, 7), 90).save(sink, kind)
            found.append(sink.getvalue())
    return found


def _mappings(suffix: str) -> Callable[[], list[bytes]]:
    text = {
        "json": '{"birds": ["crow", "owl"], "cats": ["lion"]}',
        "toml": 'birds = ["crow", "owl"]\ncats = ["lion"]\n',
        "csv": "folder,class\ncrow,birds\nowl,birds\nlion,cats\n",
    }[suffix]
    return lambda: [text.encode()]


def _groups_parquet() -> list[bytes]:
    about = {"spare": json.dumps({"powers": {"a": 1.0}, "weight_seed": 3})}
    columns = {"id": [0, 1, 2], "cluster": [0, 1, 0], "label": ["a", "b", "a"]}
    more = {"x": [0.5, 1.5, 2.5], "y": [0.0, 1.0, 2.0], "confidence": [0.5, 0.6, 0.7]}
    return [_parquet_of(columns), _parquet_of(columns | more | {"name": ["u", "v", "w"]}, about)]


def _request() -> Any:
    return {"format": 2, "task": "digits", "data": "", "method": "erm", "seed": 0,
            "settings": {"epochs": 1}, "options": {}}  # fmt: skip


_RECORDS: dict[str, bytes] = {}


def _recorded(name: str) -> Callable[[], list[bytes]]:
    """A record of this very version, made by a small run, discovery and bench."""

    def valid() -> list[bytes]:
        if not _RECORDS:
            import numpy as np

            import spare

            labels = np.arange(60) % 2
            data = (np.random.default_rng(0).normal(size=(60, 3)) + labels[:, None], labels)
            with scratch("records") as folder:
                quick = {"report": False, "progress": spare.progress.SILENT}
                spare.discover(data, out=folder / "found", **quick)
                spare.bench(data, seeds=[0], epochs=1, out=folder / "bench", **quick)
                run = folder / "bench" / "spare-seed0"
                for file in (run / "run.json", run / "weights.safetensors",
                             folder / "bench" / "table.json",
                             folder / "found" / "discovery.json"):  # fmt: skip
                    _RECORDS[file.name] = file.read_bytes()
        return [_RECORDS[name]]

    return valid


def _training_state() -> Any:
    import torch

    from spare.training.checkpoint import TrainingState

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return TrainingState(model, optimizer, None, None)


def _checkpoints() -> list[bytes]:
    with scratch("checkpoint") as folder:
        _training_state().save(folder / "train.checkpoint")
        return [(folder / "train.checkpoint").read_bytes()]


def _gzips() -> list[bytes]:
    return [gzip.compress(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4]))]


def _tars() -> list[bytes]:
    found = []
    for mode in ("w", "w:gz", "w:xz"):
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode=mode) as tar:
            for name, content in (("inside/a.txt", b"a"), ("inside/b/c.txt", b"c")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        found.append(sink.getvalue())
    return found


READERS = {
    "table csv": Reader("data.csv", _task, _csv),
    "table parquet": Reader("data.parquet", _task, _parquet),
    "array npy": Reader("data.npy", _task, _npy),
    "arrays npz": Reader("data.npz", _task, _npz),
    "arrays safetensors": Reader("data.safetensors", _task, _safetensors),
    "image": Reader("image", _image, _images),
    "mapping json": Reader("classes.json", _mapping, _mappings("json")),
    "mapping toml": Reader("classes.toml", _mapping, _mappings("toml")),
    "mapping csv": Reader("classes.csv", _mapping, _mappings("csv")),
    "groups parquet": Reader("groups.parquet", _groups, _groups_parquet),
    "groups csv": Reader("groups.csv", _groups, lambda: [b"id,cluster,label\n0,0,a\n1,1,b\n"]),
    "run.json": Reader("run.json", _record, _recorded("run.json")),
    "discovery.json": Reader("discovery.json", _record, _recorded("discovery.json")),
    "table.json": Reader("table.json", _bench_table, _recorded("table.json")),
    "settings.json": Reader("settings.json", _settings, lambda: [json.dumps(_request()).encode()]),
    "checkpoint": Reader("train.checkpoint", _checkpoint, _checkpoints),
    "weights": Reader("weights.safetensors", _weights, _recorded("weights.safetensors")),
    "mnist": Reader("train-images-idx3-ubyte.gz", _mnist, _gzips),
    "tar": Reader("archive.tar", _tar, _tars),
}


# One reader, in a process of its own


def fuzz_reader(name: str, folder: Path, seconds: float, seed: int) -> None:
    """Fuzz one reader; does not return. Failures go to `folder`/failed, one file for each kind."""
    import atheris

    with atheris.instrument_imports(include=GUIDED, enable_loader_override=False):
        for module in ("api", "datasets.archives", "records.bench_table", "records.folder"):
            importlib.import_module(f"spare.{module}")
    from spare.errors import SpareError

    warnings.simplefilter("ignore")
    reader = READERS[name]
    corpus, failed, place = folder / "corpus", folder / "failed", folder / "place"
    for path in (corpus, failed, place):
        path.mkdir(exist_ok=True)
    valid = reader.valid()
    for number, content in enumerate(valid):
        (corpus / f"valid-{number}").write_bytes(content)
    if reader.file.endswith(".npy"):
        (place / "labels.npy").write_bytes(valid[1])
    file = place / reader.file

    ends = time.monotonic() + seconds
    executed = 0

    def test(content: bytes) -> None:
        nonlocal executed
        # libFuzzer's own end runs C++ destructors while this thread holds Python's lock, and a
        # thread of pyarrow's that is just closing a file waits for that lock for ever.
        if time.monotonic() > ends:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"stat::number_of_executed_units: {executed}\nstat::peak_rss_mb: {peak}", flush=True
            )
            os._exit(0)
        executed += 1
        file.write_bytes(content)
        try:
            reader.read(file)
        except SpareError:
            pass
        except Exception as error:  # counted, so that the fuzzer goes on
            frames = traceback.extract_tb(error.__traceback__)
            at = frames[-1]
            kind = re.sub(r"\W+", "-", f"{type(error).__name__}-{Path(at.filename).stem}-{at.name}")
            if not (failed / kind).exists():
                (failed / kind).write_bytes(content)
                (failed / f"{kind}.txt").write_text(traceback.format_exc()[-3000:])

    test(valid[0])
    flags = [f"-timeout={LONGEST}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LARGEST}",
             f"-seed={seed + 1}", "-print_final_stats=1", "-verbosity=0",
             f"-artifact_prefix={failed}/", "-detect_leaks=0"]  # fmt: skip
    more = {"custom_mutator": _mutate_json} if reader.file.endswith(".json") else {}
    atheris.Setup([sys.argv[0], *flags, str(corpus)], test, **more)
    atheris.Fuzz()


def _mutate_json(data: bytes, largest: int, seed: int) -> bytes:
    """Half of the time a value within the JSON becomes another; bytes alone seldom stay JSON."""
    import atheris

    rng = random.Random(seed)
    if rng.random() < 0.5:
        try:
            value = json.loads(data)
        except ValueError:
            pass
        else:
            mutated = json.dumps(_mutated(value, rng)).encode("utf-8", "replace")
            if len(mutated) <= largest:
                return mutated
    return bytes(atheris.Mutate(data, largest))


ODD = (None, True, -1, 0, 1.5, 1e308, float("nan"), 2**70, "", "nan", "\x1b[2J", "../..", "a" * 300,
       [], {}, [[]], {"": None}, [0.1, "x"])  # fmt: skip


def _mutated(value: Any, rng: random.Random) -> Any:
    """The same with one thing in it replaced, removed, doubled or renamed."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        deed = rng.random()
        copy = value.copy()
        if deed < 0.7:
            copy[key] = _mutated(value[key], rng)
        elif deed < 0.85:
            del copy[key]
        elif isinstance(copy, dict):
            copy[rng.choice(["", "x", key * 2])] = copy[key]
        else:
            copy.append(copy[key])
        return copy
    return rng.choice(ODD)


# All of them


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="names of readers, separated by commas")
    parser.add_argument("--reader", help="fuzz this one in this process")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--input", type=Path, help="give this file to --reader, once")
    given = parser.parse_args(words)
    if given.input is not None:
        return _repeat(given.reader, given.input)
    if given.reader is not None:
        fuzz_reader(given.reader, given.folder, given.seconds, given.seed)
    names = given.only.split(",") if given.only else list(READERS)
    tally = Tally("fuzz", {"executions": {}, "seconds for each": round(given.seconds / len(names))})
    with scratch("fuzz") as folder:
        for name in names:
            place = folder / name.replace(" ", "-")
            place.mkdir()
            fuzz_in_process(name, place, given.seconds / len(names), given.seed, tally)
    tally.cases = sum(tally.details["executions"].values())
    return tally.finish(given.out)


def fuzz_in_process(name: str, folder: Path, seconds: float, seed: int, tally: Tally) -> None:
    """Fuzz one reader for so long; what ends its process is a failure, and it is started again."""
    deadline = time.monotonic() + seconds
    executions, peak, ends = 0, 0, []
    for attempt in range(1 + RESTARTS):
        left = deadline - time.monotonic()
        if attempt and left < 5:
            break
        command = [sys.executable, "-m", "campaign.fuzz", "--reader", name, "--folder", str(folder),
                   "--seconds", str(max(1, int(left))), "--seed", str(seed + attempt)]  # fmt: skip
        try:
            process = subprocess.run(
                command, env=environment(), capture_output=True, text=True, errors="replace",
                timeout=left + 5 * LONGEST,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            ends.append("the process hangs")
            break
        said = process.stdout + process.stderr
        executions += _stat(said, "number_of_executed_units")
        peak = max(peak, _stat(said, "peak_rss_mb"))
        if process.returncode == 0:
            break
        ends.append(f"the process ended with code {process.returncode}: {said[-1500:]}")
    tally.details["executions"][name] = executions
    tally.peak_memory_mb = max(tally.peak_memory_mb, peak)
    print(f"{name}: {executions:,} executions, peak {peak} MB", flush=True)
    if not executions and not ends:
        ends.append("nothing was executed")
    files = sorted((folder / "failed").iterdir()) if (folder / "failed").is_dir() else []
    before = tally.failures
    for file in (file for file in files if file.suffix != ".txt"):
        about = file.with_suffix(file.suffix + ".txt")
        problem = about.read_text() if about.exists() else "\n".join(ends) or "it ended the process"
        _failure(tally, name, f"{file.name}: {problem}", file.read_bytes())
    if ends and tally.failures == before:
        _failure(tally, name, "\n".join(ends), b"")


def _failure(tally: Tally, name: str, problem: str, content: bytes) -> None:
    tally.failures += 1
    print(f"{name} FAILED: {problem[-800:]}", flush=True)
    if len(tally.failed) < KEPT:
        again = "save `input` (base64) as FILE; python -m campaign.fuzz --reader '{}' --input FILE"
        tally.failed.append(
            {
                "case": name,
                "problem": problem[-1500:],
                "again": again.format(name),
                "input": base64.b64encode(content[:20_000]).decode(),
            }
        )


def _stat(said: str, name: str) -> int:
    found = re.findall(rf"stat::{name}:\s+(\d+)", said)
    return int(found[-1]) if found else 0


def _repeat(name: str, file: Path) -> int:
    """Give one input to a reader, and show what comes of it."""
    from spare.errors import SpareError

    with scratch("fuzz") as folder:
        reader = READERS[name]
        if reader.file.endswith(".npy"):
            (folder / "labels.npy").write_bytes(reader.valid()[1])
        (folder / reader.file).write_bytes(file.read_bytes())
        try:
            reader.read(folder / reader.file)
        except SpareError as error:
            print(f"{type(error).__name__}: {error}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
