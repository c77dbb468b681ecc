"""How often the verdict of `spare discover` is right: data with a shortcut, and data without one.

    python benchmarks/verdict.py --data FOLDER --seeds 0-39 --out results/verdict/verdict.json

Colored MNIST, 10,000 training examples: color and label agree in 90 to 99.5 % (a shortcut); color
is independent of the label (none), also with 10 % of the labels wrong and with two classes in
proportion 95 to 5. Features of Waterbirds (waterbirds_lite0.npz): as they are, and examples taken
so that half of each class is on land (none). The bounds in findings/verdict.py were fixed on
seeds from 100 on and are measured on others. Can be interrupted: finished rows are kept.
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
from data import load

from spare.data.folds import folds
from spare.data.inputs import ConcatInputs
from spare.data.task import Split, Task
from spare.errors import SpareWarning
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.findings.verdict import FOUND, verdict_of
from spare.methods.spare import infer
from spare.runs.plan import Plan
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
            rows.append({"kind": kind, "seed": seed, **judge(*KINDS[kind](arguments, seed), seed)})
            write_json(arguments.out, {"rows": rows})
            took = time.perf_counter() - started
            answer, strength = rows[-1]["overall"], rows[-1]["strength"]
            print(f"{kind:22} seed {seed:3}  {answer:15} {strength}  {took:.0f} s", flush=True)
    for kind in KINDS:
        answers = Counter(row["overall"] for row in rows if row["kind"] == kind)
        if answers:
            count = sum(answers.values())
            print(f"{kind:22} {FOUND} in {answers[FOUND]} of {count}; {dict(answers)}")


def judge(task: Task, plan: Plan, seed: int) -> dict[str, Any]:
    """The verdict on this data."""
    stages = Stages(seed=seed, settings=plan.settings, judge=lambda epoch: ({}, {}))
    inferred = infer(task.as_seen_by("none"), stages, plan.options)
    verdict: dict[str, Any] = dict(verdict_of(task, inferred.early_outputs))
    classes = verdict.pop("classes")
    return verdict | {"strengths": {name: each["strength"] for name, each in classes.items()}}


def colored(agreement: float) -> Callable[..., tuple[Task, Plan]]:
    def load_colored(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
        choices = {"p_corr": str(agreement), "train_size": str(SIZE)}
        return load("cmnist", arguments.data, choices, seed)

    return load_colored


def mislabeled(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    task, plan = colored(0.2)(arguments, seed)
    rng = np.random.default_rng([seed, 0xBAD])
    labels = np.asarray(task.train.labels).copy()
    wrong = rng.random(len(labels)) < NOISE
    classes = len(task.class_names)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    return replace(task, train=replace(task.train, labels=labels)), plan


def imbalanced(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Two of the classes, one of them rare."""
    task, plan = colored(0.2)(arguments, seed)
    labels = np.asarray(task.train.labels)
    common, rare = (np.flatnonzero(labels == label) for label in (0, 1))
    rare = rare[: round(len(common) * RARE / (1 - RARE))]
    rows = np.sort(np.concatenate([common, rare]))
    names = task.class_names[:2]
    build_model = task.build_model
    assert build_model is not None

    def two_classes() -> torch.nn.Module:
        model: Any = build_model()
        model.head = torch.nn.Linear(model.head.in_features, len(names))
        return model

    task = replace(
        task, train=task.train.subset(rows), val=None, test=None, class_names=names,
        build_model=two_classes,
    )  # fmt: skip
    return task, plan


def birds(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """The training split without a tenth, so that seeds differ."""
    task, plan = _features(arguments, seed)
    parts = folds(task.groups(task.train), 10, np.random.default_rng([seed, 0xB12D]))
    return replace(task, train=task.train.subset(np.flatnonzero(parts > 0))), plan


def birds_anywhere(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Of each class as many on land as on water, from training and validation."""
    task, plan = _features(arguments, seed)
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
    return replace(task, train=both.subset(chosen), val=None, test=None), plan


def _features(arguments: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    return load("waterbirds_lite0.npz", arguments.data, {"attributes": "place"}, seed)


KINDS: dict[str, Callable[..., tuple[Task, Plan]]] = {
    "colors 99.5 %": colored(0.995),
    "colors 98 %": colored(0.98),
    "colors 95 %": colored(0.95),
    "colors 90 %": colored(0.9),
    "waterbirds": birds,
    "colors independent": colored(0.2),
    "10 % wrong labels": mislabeled,
    "95 to 5": imbalanced,
    "waterbirds anywhere": birds_anywhere,
}


if __name__ == "__main__":
    main()
