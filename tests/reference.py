"""Record what the command line computes, and compare two such records to the bit.

    python tests/reference.py record FOLDER [--small] [--data DATA]
    python tests/reference.py compare OLD NEW

A record is a folder of everything the commands below wrote and printed: scores, groups, weights and
tables. It is made before a rebuilding and again after it. `compare` lists every difference, leaving
out what differs from run to run (times, memory, versions); with `--small` it takes seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Values that differ from run to run, or from place to place.
VOLATILE = {"seconds", "peak_memory_mb", "versions", "cost", "threads", "code"}

SHORT = ["--set", "epochs=2"]


def own_data(folder: Path, small: bool) -> None:
    """One data set of each kind that people bring, each with a shortcut."""
    from PIL import Image

    rng = np.random.default_rng(0)
    n = 240
    label = np.arange(n) % 2
    place = np.where(rng.random(n) < 0.9, label, 1 - label)
    files = []
    for i in range(n):
        color = (200, 60, 40) if place[i] else (40, 70, 190)
        pixels = np.clip(np.array(color) + rng.integers(-40, 40, (16, 16, 3)), 0, 255)
        pixels[4:12, 4 : 8 if label[i] else 12] = 255 - pixels[4:12, 4 : 8 if label[i] else 12]
        path = folder / "pictures" / ("cat", "dog")[label[i]] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        files.append(path)
    rows = [f"{p.relative_to(folder)},{label[i]},{place[i]}" for i, p in enumerate(files)]
    (folder / "table.csv").write_text("path,label,place\n" + "\n".join(rows) + "\n")
    points = rng.normal(0, 0.5, (n, 6)) + np.stack([label * 1.5, place * 6, *[label * 0] * 4], 1)
    np.savez(
        folder / "embeddings.npz", features=points.astype(np.float32), label=label, place=place
    )
    sure = np.where(label == place, 0.95, 0.1) + rng.normal(0, 0.01, n)
    outputs = np.stack([np.where(label == c, sure, 1 - sure) for c in (0, 1)], 1)
    np.savez(folder / "outputs.npz", outputs=outputs, y=label)
    if not small:
        _save_for_hugging_face(files, label.tolist(), folder / "saved")


def _save_for_hugging_face(files: list[Path], labels: list[int], folder: Path) -> None:
    from datasets import ClassLabel, Dataset, Features, Image

    features = Features({"image": Image(), "label": ClassLabel(names=["cat", "dog"])})
    columns = {"image": [str(path) for path in files], "label": labels}
    Dataset.from_dict(columns, features=features).save_to_disk(str(folder))


def commands(small: bool) -> dict[str, list[str]]:
    """What is typed, by the name of the folder that it writes."""
    images = [*SHORT, "--model", "small_cnn", "--set", "resize=16", "--set", "crop=16"]
    images += ["--set", "lr=0.02"]
    if small:
        return {
            "digits": ["train", "digits", *SHORT],
            "embeddings-found": ["discover", "embeddings.npz", *SHORT],
        }
    shorter = ["--set", "epochs=8", "--set", "environment_steps=300"]
    cmnist = ["--set", "train_size=4000", "--set", "epochs=3", "--set", "anchor_share=0.05"]
    return {
        "digits": ["bench", "digits", "--methods", "all", "--seeds", "0,1", *shorter],
        "pairs": ["bench", "digits", "--methods", "erm,eiil+spare,spare+gdro,spare+jtt", "--seeds",
                  "0", *shorter],
        "cmnist": ["bench", "cmnist", "--methods", "spare,jtt,cnc,bridge", "--seeds", "0", *cmnist],
        "pictures-found": ["discover", "pictures", *images],
        "table-found": ["discover", "table.csv", "--attributes", "place", *images],
        "saved-found": ["discover", "saved", *images],
        "embeddings-found": ["discover", "embeddings.npz", "--attributes", "place"],
        "outputs-found": ["discover", "outputs.npz"],
        "pictures-trained": ["train", "pictures", *images],
        "table-trained": ["train", "table.csv", "--attributes", "place", "--method", "bridge",
                          *images],
        "embeddings-trained": ["train", "embeddings.npz", "--groups",
                               "embeddings-found/groups.parquet", "--set", "epochs=5"],
        "frozen-trained": ["train", "pictures", *images, "--set", "frozen=true"],
    }  # fmt: skip


def in_a_process(words: list[str], folder: Path) -> str:
    """What a command prints, typed in `folder`."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SPARE_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "spare", *words],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def record(
    folder: Path, *, small: bool = False, data: Path | None = None, type_: Callable = in_a_process
) -> None:
    """Type every command in `folder` and keep what it prints."""
    folder.mkdir(parents=True)
    own_data(folder, small)
    for name, words in commands(small).items():
        words = [*words, "--out", name]
        if "cmnist" in words:
            words += ["--data", str(data)]
        (folder / f"{name}.printed").write_text(type_(words, folder))


def differences(old: Path, new: Path) -> Iterator[str]:
    """Every way in which two records differ, one line each."""
    names = sorted({path.relative_to(old) for path in _recorded(old)})
    for extra in sorted({path.relative_to(new) for path in _recorded(new)} - set(names)):
        yield f"{extra}: only in the new record"
    for name in names:
        if not (new / name).exists():
            yield f"{name}: only in the old record"
        elif name.suffix == ".json":
            pair = (_as_now(json.loads((side / name).read_text())) for side in (old, new))
            yield from (f"{name}: {line}" for line in _values(*pair))
        elif name.suffix == ".parquet":
            yield from (f"{name}: {line}" for line in _tables(old / name, new / name))
        elif name.suffix == ".safetensors":
            yield from (f"{name}: {line}" for line in _tensors(old / name, new / name))
        else:
            yield from (f"{name}: {line}" for line in _printed(old / name, new / name))


def _as_now(content: dict[str, Any]) -> dict[str, Any]:
    """A record as this version writes it, so that a renamed field is compared with itself."""
    from spare.records.record import upgraded

    return dict(upgraded(content, "")) if "settings" in content else content


def _recorded(folder: Path) -> list[Path]:
    kinds = ("run.json", "discovery.json", "table.json", "*.parquet", "*.safetensors", "*.printed")
    found = [path for kind in kinds for path in folder.rglob(kind)]
    inputs = ("saved", "cache")
    return [path for path in found if path.relative_to(folder).parts[0] not in inputs]


def _values(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new} - VOLATILE):
            place = f"{where}.{key}" if where else key
            if key not in new:
                yield f"{place}: gone (was {str(old[key])[:60]})"
            elif key not in old:
                yield f"{place}: added ({str(new[key])[:60]})"
            else:
                yield from _values(old[key], new[key], place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _values(*pair, f"{where}[{number}]")
    elif old != new:
        yield f"{where}: {str(old)[:60]} became {str(new)[:60]}"


def _tables(old: Path, new: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    was, now = pq.read_table(old), pq.read_table(new)
    for name in sorted({*was.column_names, *now.column_names}):
        if name not in was.column_names or name not in now.column_names:
            yield f"column {name} is in one of the two"
        elif was[name].to_pylist() != now[name].to_pylist():
            yield f"column {name} differs"


def _tensors(old: Path, new: Path) -> Iterator[str]:
    import torch
    from safetensors.torch import load_file

    was, now = load_file(old), load_file(new)
    for name in sorted({*was, *now}):
        if name not in was or name not in now:
            yield f"{name} is in one of the two"
        elif not torch.equal(was[name], now[name]):
            yield f"{name} differs"


def _printed(old: Path, new: Path) -> Iterator[str]:
    was, now = (_lines(path) for path in (old, new))
    yield from (f"no longer printed: {line}" for line in was if line not in now)
    yield from (f"newly printed: {line}" for line in now if line not in was)


def _lines(path: Path) -> list[str]:
    """Without widths, and without a bench's times and memory, which follow its cost."""
    lines = [re.sub(r"[ -]{2,}", "  ", line.strip()) for line in path.read_text().splitlines()]
    return [re.sub(r"(  [\d.]+)  \d+  \d+(  \w)", r"\1\2", line) for line in lines if line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--data", type=Path, help="folder of data sets, with mnist")
    given = parser.parse_args()
    if given.what == "record":
        record(given.folders[0].absolute(), small=given.small, data=given.data)
        return
    found = list(differences(*given.folders))
    print("\n".join(found) or "identical")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
