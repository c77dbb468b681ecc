"""Who finds the minorities, and when: each inference on the outputs of a plain model, by epoch.

    python benchmarks/recovery.py [--task cmnist] [--data FOLDER] [--seeds 0,1,2] [--epochs 5]
        [--set NAME=VALUE ...] [--out FOLDER]

Plain training, as SPARE's early model. After every epoch the same outputs go to SPARE (clusters of
each class), JTT (mistakes) and EIIL (environments). True attributes only score them: the share of
the minorities that is taken for majority, and of the majorities that is taken for minority. Where
there are two shortcuts, a minority is what contradicts one, the other, or both, each counted for
itself. Where more is known of the examples (CelebA's 40 attributes), Cramer's V of each attribute
with what is inferred is measured too: over all examples, as in the paper, and within classes.
Writes TASK.json, TASK.png and, of attributes, TASK-attributes.png.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import load
from measured import keep

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.findings.associations import associations
from spare.groups.clusters import infer_groups
from spare.groups.environments import environments
from spare.groups.mistakes import mistakes
from spare.groups.result import Groups
from spare.training.batches import shuffled
from spare.training.metrics import inferred_minority, true_minority
from spare.training.outputs import Outputs
from spare.training.settings import early_settings
from spare.training.stages import Stages

#: From a plain model's outputs, the labels and the true minority to what is inferred as minority.
#: Clusters have no names, so that the true minority says which of two is meant.
INFERENCES: dict[str, Callable[[Outputs, np.ndarray, np.ndarray], np.ndarray]] = {
    "spare": lambda outputs, labels, minority: inferred_minority(
        clusters(outputs, labels), minority
    ),
    "jtt": lambda outputs, labels, minority: mistakes(outputs.logits, labels),
    "eiil": lambda outputs, labels, minority: environments(outputs.logits, labels, steps=0) == 1,
}


def clusters(outputs: Outputs, labels: np.ndarray) -> Groups:
    return infer_groups(outputs.probabilities, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="cmnist")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/recovery"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    rows, attributes = [], []
    for seed in map(int, given.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for found in infer_after_every_epoch(seed, Path(folder), given):
                (attributes if "attribute" in found else rows).append(found)
    given.out.mkdir(parents=True, exist_ok=True)
    record = {"set": given.set, "rows": rows}
    if attributes:
        record["attributes"] = attributes
        plot_attributes(attributes, given.out / f"{given.task}-attributes.png")
    keep(given.out / f"{given.task}.json", record)
    plot(rows, given.out / f"{given.task}.png")
    print_means(rows)


def infer_after_every_epoch(
    seed: int, folder: Path, given: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    choices = dict(pair.split("=", 1) for pair in given.set)
    task, plan = load(given.task, given.data, choices, seed)
    labels = np.asarray(task.train.labels)
    minority, kinds = true_minority(task, task.train), minorities(task)
    settings = early_settings(plan.settings, plan.options.early_lr, plan.options.early_weight_decay)
    blind = task.as_seen_by("none")
    stages = Stages(seed=seed, settings=settings, folder=folder, judge=lambda epoch: ({}, {}))
    for epoch in range(1, given.epochs + 1):
        model = stages.train(
            f"early/{epoch}",
            blind,
            shuffled(len(labels), settings.batch_size),
            settings=replace(settings, epochs=epoch),
            continues=f"early/{epoch - 1}" if epoch > 1 else "",
        )
        outputs = stages.outputs(model, blind.train)
        for name, infer in INFERENCES.items():
            inferred = infer(outputs, labels, minority)
            for kind, examples in kinds.items():
                yield {
                    "seed": seed,
                    "epoch": epoch,
                    "inference": name,
                    "kind": kind,
                    "minority": int(examples.sum()),
                    "minority_missed": int((examples & ~inferred).sum()),
                    "majority": int((~minority).sum()),
                    "majority_taken": int((~minority & inferred).sum()),
                }
            if task.facts:
                for row in go_with(task, labels, inferred):
                    yield {"seed": seed, "epoch": epoch, "inference": name, **row}


def go_with(task: Task, labels: np.ndarray, inferred: np.ndarray) -> Iterator[dict[str, Any]]:
    """Cramer's V of every attribute with being inferred as minority."""
    for found in associations(
        2 * labels + inferred,
        labels,
        {**(task.train.attributes or {}), **task.facts},
        {**task.attribute_values, **task.fact_values},
        class_names=task.class_names,
        minority=inferred,
    ):
        yield {
            "attribute": found["attribute"],
            "over_all": found["over_all"],
            "within_classes": found["v"],
        }


def minorities(task: Task) -> dict[str, np.ndarray]:
    """The minority examples, by the shortcuts that they contradict where there are several."""
    holds = task.holds(task.train)
    if len(holds) < 2:
        return {"minority": true_minority(task, task.train)}
    broken = np.stack([~held for held in holds.values()], axis=1)
    return {
        " and ".join(name for name, is_broken in zip(holds, pattern, strict=True) if is_broken): (
            broken == pattern
        ).all(axis=1)
        for pattern in np.unique(broken, axis=0)
        if pattern.any()
    }


def print_means(rows: list[dict[str, Any]]) -> None:
    print("mean over seeds, % of the minorities missed / % of the majorities taken for minority")
    epochs = sorted({row["epoch"] for row in rows})
    print("inference  " + "  ".join(f"epoch {epoch:<7}" for epoch in epochs))
    for name in INFERENCES:
        for kind in dict.fromkeys(row["kind"] for row in rows):
            cells = [
                f"{share(rows, name, epoch, kind, 'minority_missed', 'minority'):5.1f} / "
                f"{share(rows, name, epoch, kind, 'majority_taken', 'majority'):4.1f}"
                for epoch in epochs
            ]
            print(f"{name:9}  " + "   ".join(cells) + f"   {kind}")


def share(
    rows: list[dict[str, Any]], inference: str, epoch: int, kind: str, part: str, whole: str
) -> float:
    """In %, mean over seeds."""
    wanted = (inference, epoch, kind)
    seeds = [row for row in rows if (row["inference"], row["epoch"], row["kind"]) == wanted]
    return float(np.mean([100 * row[part] / max(row[whole], 1) for row in seeds]))


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel per kind of minority and one for the majority: bars by epoch, one color each."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    panels = [
        *((kind, "minority_missed", "minority", f"{kind}: taken for majority") for kind in kinds),
        (kinds[0], "majority_taken", "majority", "majority: taken for minority"),
    ]
    figure = Figure(figsize=(1 + 3.2 * len(panels), 3), layout="constrained")
    epochs = sorted({row["epoch"] for row in rows})
    width = 0.8 / len(INFERENCES)
    for axes, (kind, part, whole, title) in zip(
        figure.subplots(1, len(panels)), panels, strict=True
    ):
        for number, name in enumerate(INFERENCES):
            shares = [share(rows, name, epoch, kind, part, whole) for epoch in epochs]
            axes.bar(np.array(epochs) + (number - 1) * width, shares, width, label=name)
        axes.set_title(title.replace("_", " "), fontsize=10)
        axes.set_xticks(epochs)
        axes.set_xlabel("epochs of plain training")
        axes.set_ylabel("% of the examples")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


def plot_attributes(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel per inference and kind of V, after the first epoch: bars, the longest on top."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["epoch"] == 1]
    kinds = {"over_all": "over all examples", "within_classes": "within classes"}
    figure = Figure(figsize=(4 * len(INFERENCES), 6 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), len(INFERENCES), sharex="row")
    for line, (kind, words) in zip(panels, kinds.items(), strict=True):
        for axes, inference in zip(line, INFERENCES, strict=True):
            means = mean_v(rows, inference, kind)
            names = sorted(means, key=means.__getitem__)
            colors = ["C1" if name in ("Male", "Blond_Hair") else "C0" for name in names]
            axes.barh(names, [means[name] for name in names], color=colors)
            axes.set_title(f"{inference}: {words}", fontsize=10)
            axes.tick_params(axis="y", labelsize=6)
            axes.set_xlabel("Cramer's V with the inferred minority")
    figure.savefig(path, dpi=110)


def mean_v(rows: list[dict[str, Any]], inference: str, kind: str) -> dict[str, float]:
    """Mean over seeds, by attribute."""
    of_all = [row for row in rows if row["inference"] == inference]
    return {
        name: float(np.mean([row[kind] for row in of_all if row["attribute"] == name]))
        for name in dict.fromkeys(row["attribute"] for row in of_all)
    }


if __name__ == "__main__":
    main()
