"""When to separate: what `auto` finds on Colored MNIST, and how many epochs it takes.

    python benchmarks/separation.py --data FOLDER [--palette paper] [--seeds 0,1,2,3,4] [--out FILE]

For each seed, the early training of `spare`: after which epoch each class was clearest, how many
epochs were trained, and beside it what one look after epoch 2 gives, as in the paper. True colors
are used here only to score: recall and precision of the minorities, smallest over the classes.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import load
from measured import keep

from spare.data.task import Task
from spare.datasets import cmnist
from spare.errors import SpareWarning
from spare.groups.result import Groups
from spare.methods.separation import SeparationOptions, separate
from spare.methods.spare_paper import PaperOptions
from spare.runs.plan import Plan
from spare.training.metrics import minority_recovery, true_minority
from spare.training.stages import Stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--palette", default="paper", choices=sorted(cmnist.PALETTES))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    print(f"palette {arguments.palette}; smallest recall and precision over the five classes")
    print(
        "seed  auto: recall  precision  early epochs  clearest after     epoch 2: recall  precision"
    )
    rows: list[dict[str, Any]] = []
    for seed in map(int, arguments.seeds.split(",")):
        task, plan = load("cmnist", arguments.data, {"palette": arguments.palette}, seed)
        blind = task.as_seen_by("none")
        with tempfile.TemporaryDirectory() as folder:  # each look continues from the one before
            auto = separate(blind, stages_of(plan, seed, Path(folder)), plan.options)
        paper = separate(blind, stages_of(plan, seed), as_published(plan.options))
        row: dict[str, Any] = {
            "seed": seed,
            "early_epochs": auto.looks[-1].epoch,
            "epochs": [auto.epochs()[label] for label in sorted(auto.epochs())],
            "clarity": [round(auto.blocks[label].clarity, 3) for label in sorted(auto.blocks)],
            **smallest(task, auto.groups),
            "after_2": smallest(task, paper.groups),
        }
        rows.append(row)
        print(
            f"{seed:4}  {row['recall']:12.3f}  {row['precision']:9.3f}  {row['early_epochs']:12}  "
            f"{row['epochs']!s:17}  {row['after_2']['recall']:15.3f}  "
            f"{row['after_2']['precision']:9.3f}",
            flush=True,
        )
        if arguments.out:
            keep(arguments.out, {"palette": arguments.palette, "rows": rows})
    print(
        f"smallest over the seeds: recall {min(row['recall'] for row in rows):.3f}, precision "
        f"{min(row['precision'] for row in rows):.3f}; early epochs "
        f"{np.mean([row['early_epochs'] for row in rows]):.1f} on average"
    )


def stages_of(plan: Plan, seed: int, folder: Path | None = None) -> Stages:
    return Stages(seed=seed, settings=plan.settings, judge=lambda epoch: ({}, {}), folder=folder)


def as_published(options: SeparationOptions) -> SeparationOptions:
    return PaperOptions(
        early_lr=options.early_lr, early_weight_decay=options.early_weight_decay,
        output=options.output, k_max=options.k_max,
    )  # fmt: skip


def smallest(task: Task, groups: Groups) -> dict[str, float]:
    """Recall and precision of the true minorities, in the class where each is smallest."""
    labels = np.asarray(task.train.labels)
    minority = true_minority(task, task.train)
    recovery = minority_recovery(labels, minority, ~groups.in_majority())
    return {
        name: min(of_class[name] or 0.0 for of_class in recovery.values())
        for name in ("recall", "precision")
    }


if __name__ == "__main__":
    main()
