"""A natural shortcut: what falls apart in nine classes of animals, and what training does about it.

    python benchmarks/natural.py discover --images FOLDER --model conv4 --out FOLDER
    python benchmarks/natural.py epochs --images FOLDER --model conv4 --out FOLDER
    python benchmarks/natural.py train --images FOLDER --model conv4 --out FOLDER

FOLDER has one folder of pictures for each class: a restricted Tiny-ImageNet (frogs, insects, ...;
the classes of Restricted ImageNet by WordNet id).

discover  what `spare discover` says, everything by default: which part of which class is taken for
          which other class.
epochs    one plain model, trained as early ones are; after epochs 2, 4, 6, 8 and the last, the size
          and the accuracy of both parts of every class, by SPARE (two clusters)
          and by EIIL (two environments).
train     accuracy on test of the clusters that `discover` found, by training method. Nobody knows
          the true groups here, so the clusters of one seed, on which nothing is trained, take their
          place, for scores only.

Finished parts are kept. Each writes a JSON file named after itself and the network.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import torch
from data import load
from measured import keep

import spare
from spare.errors import SpareWarning
from spare.files.reading import read_json
from spare.groups.clusters import infer_groups
from spare.groups.environments import environments
from spare.training.batches import shuffled
from spare.training.settings import early_settings
from spare.training.stages import Stages

SIDE, LOOKS = 64, (2, 4, 6, 8)
FILES = ("groups.parquet", "held_out_groups.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--model", default="conv4")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--methods", default="erm,spare")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--groups-of", type=int, default=2, metavar="SEED", help="of train")
    parser.add_argument("--out", type=Path, default=Path("runs/natural"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    name = given.model.rpartition(".")[2].partition(":")[0]
    file = given.out / f"{given.part}-{name}.json"
    rows = read_json(file)["rows"] if file.exists() else []
    for seed in map(int, given.seeds.split(",")):
        if any(row["seed"] == seed for row in rows):
            continue
        for row in PARTS[given.part](seed, given.out / name, given):
            rows.append({"seed": seed, **row})
        keep(file, {"model": name, "set": given.set, "rows": rows})
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items() if value is not None))


def settings_of(given: argparse.Namespace) -> dict[str, str]:
    chosen = dict(pair.split("=", 1) for pair in given.set)
    return {"model": given.model, "resize": str(SIDE), "crop": str(SIDE)} | chosen


def discovered(seed: int, out: Path, given: argparse.Namespace) -> spare.api.results.Discovery:
    folder = out / f"discover-{seed}"
    if (folder / "discovery.json").exists():
        return spare.load_run(folder)
    return spare.discover(given.images, seed=seed, out=folder, **settings_of(given))


def discover(seed: int, out: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    found = discovered(seed, out, given)
    assert found.verdict is not None
    for name, verdict in found.verdict["classes"].items():
        taken = verdict.get("taken")
        yield {
            "class": name,
            "verdict": verdict["verdict"],
            "taken_for": taken["taken_for"] if taken else None,
            "size": taken["size"] if taken else None,
            "of": taken["of"] if taken else None,
            "share": taken["share"] if taken else None,
            "alike": [like["what"] for like in taken["alike"]] if taken else None,
        }


def epochs(seed: int, out: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    task, plan = load(str(given.images), None, settings_of(given), seed)
    labels = np.asarray(task.train.labels)
    early = early_settings(plan.settings, plan.options.early_lr, plan.options.early_weight_decay)
    with tempfile.TemporaryDirectory() as folder:
        stages = Stages(
            seed=seed, settings=plan.settings, judge=lambda epoch: ({}, {}), folder=Path(folder)
        )
        last = ""
        for epoch in (*LOOKS, plan.settings.epochs):
            model = stages.train(
                f"plain/{epoch}",
                task.as_seen_by("none"),
                shuffled(len(labels), plan.settings.batch_size),
                settings=replace(early, epochs=epoch),
                continues=last,
            )
            last = f"plain/{epoch}"
            outputs = stages.outputs(model, task.train)
            right = np.asarray(outputs.logits).argmax(1) == labels
            halves = {
                "spare": ~infer_groups(outputs.probabilities, labels, k=2).in_majority(),
                "eiil": environments(outputs.logits, labels, steps=0) == 1,
            }
            for inference, second in halves.items():
                for label, name in enumerate(task.class_names):
                    parts = [(labels == label) & (second == part) for part in (False, True)]
                    yield {
                        "epoch": epoch,
                        "inference": inference,
                        "class": name,
                        "sizes": [int(part.sum()) for part in parts],
                        "right": [float(right[p].mean()) if p.any() else None for p in parts],
                    }


def train(seed: int, out: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if seed == given.groups_of:
        raise SystemExit(f"seed {seed} names the groups: train with others.")
    listing = out / f"clusters-{given.groups_of}.csv"
    if not listing.exists():
        write_listing(discovered(given.groups_of, out, given).folder, listing)
    bench = spare.bench(
        listing, methods=given.methods.split(","), seeds=[seed], out=out / f"train-{seed}", jobs=1,
        report=False, attributes="cluster", root=str(given.images.resolve()), **settings_of(given),
    )  # fmt: skip
    for run in bench.runs:
        scores = run.record["scores"]["test"]["last"]
        yield {
            "method": run.record["method"],
            "groups_of": given.groups_of,
            "average": scores["average"],
            "worst_group": scores["worst_group"],
            "groups": scores["groups"],
        }


def write_listing(folder: Path, path: Path) -> None:
    """Every picture with its class, its split, and its cluster: 1 is the largest of the class."""
    tables = [pyarrow.parquet.read_table(folder / name) for name in FILES]
    rows = [row for table in tables for row in table.to_pylist()]
    first: dict[str, int] = {}
    for row in rows:
        first[row["label"]] = min(row["cluster"], first.get(row["label"], row["cluster"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "split", "cluster"])
        for row in rows:
            cluster = 1 + row["cluster"] - first[row["label"]]
            writer.writerow([row["name"], row["label"], row.get("split", "train"), cluster])


PARTS = {"discover": discover, "epochs": epochs, "train": train}

if __name__ == "__main__":
    main()
