"""Who finds the minorities, and when: each inference on the outputs of a plain model, by epoch.

    python benchmarks/recovery.py --data FOLDER [--seeds 0,1,2] [--epochs 5] [--out FOLDER]

Colored MNIST, plain training with the preset's early settings. After every epoch the same outputs
go to SPARE (clusters of each class), JTT (mistakes) and EIIL (environments). True colors only
score them: the share of the minorities that is taken for majority, and of the majorities that is
taken for minority. Writes recovery.json and recovery.png.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import load

from spare.datasets import cmnist
from spare.errors import SpareWarning
from spare.files.writing import write_json
from spare.groups.clusters import infer_groups
from spare.groups.environments import environments
from spare.groups.mistakes import mistakes
from spare.training.batches import shuffled
from spare.training.metrics import true_minority
from spare.training.outputs import Outputs
from spare.training.settings import Settings
from spare.training.stages import Stages

#: From a plain model's outputs and the labels to the examples that are inferred as minority.
INFERENCES: dict[str, Callable[[Outputs, np.ndarray], np.ndarray]] = {
    "spare": lambda outputs, labels: ~infer_groups(outputs.probabilities, labels).in_majority(),
    "jtt": lambda outputs, labels: mistakes(outputs.logits, labels),
    "eiil": lambda outputs, labels: environments(outputs.logits, labels, steps=0) == 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--palette", default="paper", choices=sorted(cmnist.PALETTES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/recovery"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    rows = []
    for seed in map(int, arguments.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            rows += infer_after_every_epoch(seed, Path(folder), arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "recovery.json", {"palette": arguments.palette, "rows": rows})
    plot(rows, arguments.out / "recovery.png")
    print_means(rows)


def infer_after_every_epoch(
    seed: int, folder: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    task, _ = load("cmnist", arguments.data, {"palette": arguments.palette}, seed)
    labels = np.asarray(task.train.labels)
    minority = true_minority(task, task.train)
    blind = task.as_seen_by("none")
    stages = Stages(seed=seed, settings=Settings(), folder=folder, judge=lambda epoch: ({}, {}))
    rows = []
    for epoch in range(1, arguments.epochs + 1):
        model = stages.train(
            f"early/{epoch}",
            blind,
            shuffled(len(labels), stages.settings.batch_size),
            settings=replace(stages.settings, epochs=epoch),
            continues=f"early/{epoch - 1}" if epoch > 1 else "",
        )
        outputs = stages.outputs(model, blind.train)
        for name, infer in INFERENCES.items():
            inferred = infer(outputs, labels)
            rows.append(
                {
                    "seed": seed,
                    "epoch": epoch,
                    "inference": name,
                    "minority": int(minority.sum()),
                    "minority_missed": int((minority & ~inferred).sum()),
                    "majority": int((~minority).sum()),
                    "majority_taken": int((~minority & inferred).sum()),
                }
            )
    return rows


def print_means(rows: list[dict[str, Any]]) -> None:
    print("mean over seeds, % of the minorities missed / % of the majorities taken for minority")
    epochs = sorted({row["epoch"] for row in rows})
    print("inference  " + "  ".join(f"epoch {epoch:<7}" for epoch in epochs))
    for name in INFERENCES:
        cells = []
        for epoch in epochs:
            seeds = [r for r in rows if (r["inference"], r["epoch"]) == (name, epoch)]
            missed = np.mean([100 * r["minority_missed"] / r["minority"] for r in seeds])
            taken = np.mean([100 * r["majority_taken"] / r["majority"] for r in seeds])
            cells.append(f"{missed:5.1f} / {taken:4.1f}")
        print(f"{name:9}  " + "   ".join(cells))


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel per kind of mistake: bars by epoch, one color per inference."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    epochs = sorted({row["epoch"] for row in rows})
    width = 0.8 / len(INFERENCES)
    for axes, part, what, title in zip(
        figure.subplots(1, 2),
        ("minority", "majority"),
        ("missed", "taken"),
        ("minority inferred as majority", "majority inferred as minority"),
        strict=True,
    ):
        for number, name in enumerate(INFERENCES):
            means = [
                np.mean(
                    [
                        100 * row[f"{part}_{what}"] / row[part]
                        for row in rows
                        if (row["inference"], row["epoch"]) == (name, epoch)
                    ]
                )
                for epoch in epochs
            ]
            axes.bar(np.array(epochs) + (number - 1) * width, means, width, label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("epochs of plain training")
        axes.set_ylabel("% of the examples")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
