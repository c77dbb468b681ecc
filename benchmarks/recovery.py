"""Who finds the minorities, and when: each inference on the outputs of one plain model, by epoch.

    python benchmarks/recovery.py --data FOLDER [--seeds 0,1,2] [--epochs 5] [--out FOLDER]

Colored MNIST, plain training with the preset's early settings. After every epoch the same outputs
go to SPARE (clusters of each class), JTT (mistakes) and EIIL (environments). True colours only
score: the share of the minorities that is taken for majority, and of the majorities that is taken
for minority. Writes recovery.json and recovery.png.
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
from data import cmnist_task

from spare.datasets import cmnist
from spare.errors import SpareWarning
from spare.files import write_json
from spare.groups.clusters import infer_groups
from spare.groups.environments import environments
from spare.groups.mistakes import mistakes
from spare.training.batches import shuffled
from spare.training.metrics import true_minority
from spare.training.outputs import Outputs
from spare.training.settings import Settings
from spare.training.stages import Stages

#: From a plain model's outputs and the labels to who is inferred as minority.
INFERENCES: dict[str, Callable[[Outputs, np.ndarray], np.ndarray]] = {
    "spare": lambda said, labels: ~infer_groups(said.probabilities, labels).in_majority(),
    "jtt": lambda said, labels: mistakes(said.logits, labels),
    "eiil": lambda said, labels: environments(said.logits, labels, steps=0) == 1,
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
            rows += look(seed, Path(folder), arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "recovery.json", {"palette": arguments.palette, "rows": rows})
    draw(rows, arguments.out / "recovery.png")
    print_means(rows)


def look(seed: int, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    task = cmnist_task(seed, arguments)
    labels = np.asarray(task.train.labels)
    minority = true_minority(labels, task.groups(task.train))
    seen = task.as_seen_by("none")
    stages = Stages(seed=seed, settings=Settings(), folder=folder, judge=lambda *_: ({}, {}))
    rows = []
    for epoch in range(1, arguments.epochs + 1):
        model = stages.train(
            f"early-{epoch}",
            seen,
            shuffled(len(labels), stages.settings.batch_size),
            settings=replace(stages.settings, epochs=epoch),
            start_from=f"early-{epoch - 1}" if epoch > 1 else None,
            validate=False,
            as_part="early",
        )
        said = stages.outputs(model, seen.train)
        for name, infer in INFERENCES.items():
            inferred = infer(said, labels)
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
            own = [r for r in rows if (r["inference"], r["epoch"]) == (name, epoch)]
            missed = np.mean([100 * r["minority_missed"] / r["minority"] for r in own])
            taken = np.mean([100 * r["majority_taken"] / r["majority"] for r in own])
            cells.append(f"{missed:5.1f} / {taken:4.1f}")
        print(f"{name:9}  " + "   ".join(cells))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """A panel for each kind of mistake: bars by epoch, an inference a colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    epochs = sorted({row["epoch"] for row in rows})
    width = 0.8 / len(INFERENCES)
    for axes, part, what, says in zip(
        figure.subplots(1, 2),
        ("minority", "majority"),
        ("missed", "taken"),
        ("minority inferred as majority", "majority inferred as minority"),
        strict=True,
    ):
        for place, name in enumerate(INFERENCES):
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
            axes.bar(np.array(epochs) + (place - 1) * width, means, width, label=name)
        axes.set_title(says, fontsize=10)
        axes.set_xlabel("epochs of plain training")
        axes.set_ylabel("% of the examples")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
