"""How often the verdict of `spare discover` is right: data with a shortcut, and data without one.

    python benchmarks/verdict.py --data FOLDER --seeds 0-39 --out results/verdict/verdict.json

Colored MNIST, 10,000 training examples: colour and label agree in 90 to 99.5 % (a shortcut); colour
is independent of the label (none), also with 10 % of the labels wrong and with two classes in
proportion 95 to 5. Features of Waterbirds (waterbirds_lite0.npz): as they are, and examples taken
so that half of each class is on land (none). The bounds in spare/verdict.py were fixed on seeds
from 100 on and are measured on others. Resumable: rows that are there are kept.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spare.data.folds import folds
from spare.data.task import Task
from spare.datasets import locate
from spare.errors import SpareWarning
from spare.files import read_json, write_json
from spare.findings.describe import judged
from spare.findings.verdict import FOUND
from spare.methods import method_named
from spare.methods.spare import infer
from spare.runs.plan import plan
from spare.runs.run import load_task
from spare.training.stages import Stages

SIZE = 10_000
NOISE = 0.1
RARE = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=Path, default=Path("runs/verdict.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    first, _, last = arguments.seeds.partition("-")
    rows = read_json(arguments.out)["rows"] if arguments.out.exists() else []
    done = {(row["kind"], row["seed"]) for row in rows}
    for seed in range(int(first), int(last or first) + 1):
        for kind in arguments.kinds.split(","):
            if (kind, seed) in done:
                continue
            started = time.perf_counter()
            rows.append({"kind": kind, "seed": seed, **look(*KINDS[kind](arguments, seed), seed)})
            write_json(arguments.out, {"rows": rows})
            took = time.perf_counter() - started
            said, strength = rows[-1]["overall"], rows[-1]["strength"]
            print(f"{kind:22} seed {seed:3}  {said:15} {strength}  {took:.0f} s", flush=True)
    for kind in KINDS:
        found = Counter(row["overall"] for row in rows if row["kind"] == kind)
        if found:
            n = sum(found.values())
            print(f"{kind:22} {FOUND} in {found[FOUND]} of {n}; {dict(found)}")


def look(task: Task, planned: Any, seed: int) -> dict[str, Any]:
    """What discovery says of this data."""
    stages = Stages(seed=seed, settings=planned.settings, folder=None, judge=lambda *_: ({}, {}))
    found = infer(task.as_seen_by("none"), stages, planned.options)
    said = judged(task, found.looks)
    strengths = {name: one["strength"] for name, one in said.pop("classes").items()}
    return said | {"strengths": strengths}


def coloured(agreement: float) -> Callable[..., tuple[Task, Any]]:
    def load(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
        choices = {"p_corr": str(agreement), "train_size": str(SIZE)}
        source = locate("cmnist", arguments.data, choices)
        planned = plan(source, method_named("spare"), choices)
        return load_task(planned, seed, lambda *_: None), planned

    return load


def mislabelled(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
    task, planned = coloured(0.2)(arguments, seed)
    rng = np.random.default_rng([seed, 0xBAD])
    labels = np.asarray(task.train.labels).copy()
    wrong = rng.random(len(labels)) < NOISE
    classes = len(task.class_names)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    return replace(task, train=replace(task.train, labels=labels)), planned


def imbalanced(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
    """Two of the classes, one of them rare."""
    task, planned = coloured(0.2)(arguments, seed)
    labels = np.asarray(task.train.labels)
    common, rare = (np.flatnonzero(labels == label) for label in (0, 1))
    rare = rare[: round(len(common) * RARE / (1 - RARE))]
    rows = np.sort(np.concatenate([common, rare]))
    names = task.class_names[:2]
    make = task.build_model
    assert make is not None

    def two_classes() -> torch.nn.Module:
        model: Any = make()
        model.head = torch.nn.Linear(model.head.in_features, len(names))
        return model

    task = replace(
        task, train=task.train.some(rows), val=None, test=None, class_names=names,
        build_model=two_classes,
    )  # fmt: skip
    return task, planned


def birds(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
    """The training split without a tenth, so that seeds differ."""
    task, planned = _features(arguments, seed)
    parts = folds(task.groups(task.train), 10, np.random.default_rng([seed, 0xB12D]))
    return replace(task, train=task.train.some(np.flatnonzero(parts > 0))), planned


def birds_anywhere(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
    """Of each class as many on land as on water, from training and validation."""
    task, planned = _features(arguments, seed)
    from spare.data.inputs import ConcatInputs
    from spare.data.task import Split

    assert task.val is not None
    splits = (task.train, task.val)
    both = Split(
        ConcatInputs(*(split.inputs for split in splits)),
        np.concatenate([split.labels for split in splits]),
        {"place": np.concatenate([split.attributes["place"] for split in splits])},  # type: ignore[index]
    )
    labels, place = np.asarray(both.labels), both.attributes["place"]  # type: ignore[index]
    rng = np.random.default_rng([seed, 0xA17])
    rows = []
    for label in (0, 1):
        cells = [np.flatnonzero((labels == label) & (place == where)) for where in (0, 1)]
        fewest = min(map(len, cells))
        rows += [rng.permutation(cell)[:fewest] for cell in cells]
    chosen = np.sort(np.concatenate(rows))
    return replace(task, train=both.some(chosen), val=None, test=None), planned


def _features(arguments: argparse.Namespace, seed: int) -> tuple[Task, Any]:
    asked = {"attributes": "place"}
    source = locate("waterbirds_lite0.npz", arguments.data, asked)
    planned = plan(source, method_named("spare"), asked)
    return load_task(planned, seed, lambda *_: None), planned


KINDS: dict[str, Callable[..., tuple[Task, Any]]] = {
    "colours 99.5 %": coloured(0.995),
    "colours 98 %": coloured(0.98),
    "colours 95 %": coloured(0.95),
    "colours 90 %": coloured(0.9),
    "waterbirds": birds,
    "colours independent": coloured(0.2),
    "10 % wrong labels": mislabelled,
    "95 to 5": imbalanced,
    "waterbirds anywhere": birds_anywhere,
}


if __name__ == "__main__":
    main()
