"""Does the clusterer matter? The same early outputs, clustered by each.

    python benchmarks/clusterers.py --data FOLDER [--epochs 2] [--write]

Colored MNIST: outputs of one plain training after so many epochs. Waterbirds: `spare discover` on
the file waterbirds_lite0.npz, where the data folder has it. True groups only score: the share of
the minorities that lies outside the largest clusters (recall), and how much of what lies there is
minority (precision).
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import load
from measured import keep

import spare
from spare.errors import SpareWarning
from spare.training.batches import shuffled
from spare.training.metrics import true_minority
from spare.training.settings import Settings
from spare.training.stages import Stages

CLUSTERERS = ("kmeans", "kmedoids", "gmm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--clusterers", default=",".join(CLUSTERERS))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    names = arguments.clusterers.split(",")
    rows = colored_mnist(arguments.data, arguments.epochs, names)
    features = arguments.data / "waterbirds_lite0.npz"
    if features.exists():
        rows += waterbirds(features, names)
    print(f"{'task':12}{'clusterer':12}{'recall':>8}{'precision':>11}{'CPU s':>8}")
    for row in rows:
        print(
            f"{row['task']:12}{row['clusterer']:12}{row['recall']:8.3f}{row['precision']:11.3f}"
            f"{row['cpu_seconds']:8.1f}"
        )
    if arguments.write:
        keep("clusterers", {"rows": rows})


def colored_mnist(data: Path, epochs: int, names: list[str]) -> list[dict[str, Any]]:
    task, _ = load("cmnist", data, {}, 0)
    labels = np.asarray(task.train.labels)
    minority = true_minority(task, task.train)
    blind = task.as_seen_by("none")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        stages = Stages(
            seed=0, settings=Settings(), folder=Path(folder), judge=lambda epoch: ({}, {})
        )
        model = stages.train(
            "early", blind, shuffled(len(labels), stages.settings.batch_size),
            settings=replace(stages.settings, epochs=epochs),
        )  # fmt: skip
        outputs = stages.outputs(model, blind.train).probabilities
    for name in names:
        started = time.process_time()
        groups = spare.infer_groups(outputs, labels, clusterer=name)
        seconds = time.process_time() - started
        inferred = ~groups.in_majority()
        rows.append(
            {
                "task": "cmnist",
                "clusterer": name,
                "recall": float(inferred[minority].mean()),
                "precision": float(minority[inferred].mean()),
                "cpu_seconds": seconds,
                "silhouettes": [e.silhouette for e in groups.evidence.values()],
                "k": [e.k for e in groups.evidence.values()],
            }
        )
    return rows


def waterbirds(path: Path, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            found = spare.discover(
                path, attributes="place", clusterer=name, out=f"{folder}/found", report=False
            )
            seconds = time.process_time() - started
        classes = found.record["discovery"].values()
        rows.append(
            {
                "task": "waterbirds",
                "clusterer": name,
                "recall": float(np.mean([each["recall"] for each in classes])),
                "precision": float(np.mean([each["precision"] for each in classes])),
                "cpu_seconds": seconds,
                "silhouettes": [each["silhouette"] for each in classes],
                "k": [len(each["sizes"]) for each in classes],
            }
        )
    return rows


if __name__ == "__main__":
    main()
