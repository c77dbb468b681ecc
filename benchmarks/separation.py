"""When to separate: the epoch that `auto` chooses, compared with every candidate epoch.

    python benchmarks/separation.py --data FOLDER [--palette paper] [--seeds 0,1,2,3,4]

For each seed, early training on Colored MNIST with groups inferred after epochs 1 and 2, and again
from other initial weights where `auto` starts over. True colors are used here only to score:
recall of the minorities in the worst class, and precision likewise.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from data import load

from spare.datasets import cmnist
from spare.errors import SpareWarning
from spare.methods.separation import SeparationOptions, clarity, clearest, separations
from spare.methods.spare import separate
from spare.training.metrics import minority_recovery, true_minority
from spare.training.settings import Settings
from spare.training.stages import Stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--palette", default="paper", choices=sorted(cmnist.PALETTES))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--candidates", default="1,2")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    options = SeparationOptions(candidates=tuple(map(int, arguments.candidates.split(","))))
    print(f"palette {arguments.palette}; smallest over the five classes")
    print("seed  weights  epoch  silhouette  recall  precision  chosen by auto")
    hits, chosen_recall, best_recall = 0, [], []
    seeds = list(map(int, arguments.seeds.split(",")))
    for seed in seeds:
        task, _ = load("cmnist", arguments.data, {"palette": arguments.palette}, seed)
        minority = true_minority(task.train.labels, task.groups(task.train))
        stages = Stages(seed=seed, settings=Settings(), judge=lambda epoch: ({}, {}))
        blind = task.as_seen_by("none")
        tried = separations(blind, stages, options, partial(separate, blind, stages, options))
        chosen = clearest(tried)
        recalls = {}
        for separation in tried:
            inferred = ~separation.groups.in_majority()
            recovery = minority_recovery(task.train.labels, minority, inferred)
            recall, precision = (
                min(of_class[name] or 0.0 for of_class in recovery.values())
                for name in ("recall", "precision")
            )
            recalls[separation.weight_seed, separation.epoch] = recall
            print(
                f"{seed:4}  {separation.weight_seed:7}  {separation.epoch:5}  "
                f"{clarity(separation.groups):10.3f}  {recall:6.3f}  {precision:9.3f}  "
                f"{'yes' if separation is chosen else ''}"
            )
        chosen_recall.append(recalls[chosen.weight_seed, chosen.epoch])
        best_recall.append(max(recalls.values()))
        hits += chosen_recall[-1] == best_recall[-1]
    print(
        f"auto chose a candidate with the best recall in {hits} of {len(seeds)} seeds; mean "
        f"recall of the worst class {np.mean(chosen_recall):.3f}, "
        f"best candidates {np.mean(best_recall):.3f}"
    )


if __name__ == "__main__":
    main()
