"""Tune each method's own hyperparameters on Colored MNIST where its paper gives none for it.

    python benchmarks/tune.py --data FOLDER [--methods jtt,eiil] [--jobs 2] [--out results/tuning]

One rule and one budget for all: four settings per method (GEORGE six), seed 0, half the epochs of
the preset; the best worst group on validation, at its best epoch, wins. What all methods share (the
learning rate, weight decay, moving average) stays as in the preset. Test scores are not read. Can
be interrupted and resumed; prints a table and writes table.json.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import spare
from spare.files.writing import write_json

EPOCHS = 10
#: What is tried; the sources of the ranges are on docs/lab-notes.md.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "jtt": [
        {"reference_epochs": 1, "upweight": 100},
        {"reference_epochs": 2, "upweight": 100},
        {"reference_epochs": 5, "upweight": 100},
        {"reference_epochs": 2, "upweight": 500},
    ],
    "eiil": [{"eta": 0.01}, {"eta": 0.1}, {"eta": 1.0}, {"eta": 0.01, "per_class": True}],
    "pgi": [{"invariance_weight": weight} for weight in (0.1, 1, 10, 50)],
    "gdro": [{"eta": 0.01}, {"eta": 0.1}, {"eta": 1.0}, {"eta": 0.01, "adjustment": 1}],
    # Two more than the others: the first four were run before it was known that features have to
    # be scaled as in its authors' code.
    "george": [
        {"eta": 0.01},  # by UMAP
        {"reduction": "pca"},
        {"reduction": "pca", "overcluster": False},
        {"reduction": "pca", "eta": 0.1},
        {"scaling": "unit"},
        {"reduction": "pca", "scaling": "unit"},
    ],
    "cnc": [
        {"contrast_weight": 0.75},
        {"contrast_weight": 0.5},
        {"contrast_weight": 0.9},
        {"contrast_weight": 0.75, "contrast_temperature": 0.1},
    ],
    "lff": [{"gce_q": 0.7}, {"gce_q": 0.5}, {"gce_q": 0.9}, {"gce_q": 0.7, "lr": 0.001}],
    "ssa": [{"attribute_lr": rate} for rate in (0.001, 0.003, 0.01, 0.03)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--methods", default=",".join(GRIDS))
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    tried = [
        (method, number, setting)
        for method in arguments.methods.split(",")
        for number, setting in enumerate(GRIDS[method])
    ]

    def try_setting(job: tuple[str, int, dict[str, Any]]) -> dict[str, Any]:
        method, number, setting = job
        bench = spare.bench(
            "cmnist",
            methods=[method],
            seeds=[0],
            out=arguments.out / f"{method}-{number}",
            data=arguments.data,
            jobs=1,
            report=False,
            epochs=EPOCHS,
            **setting,
        )
        record = bench.runs[0].record
        scores = record["scores"]["val"]["selected"]
        row = {
            "method": method,
            "setting": setting,
            "worst_group": scores["worst_group"],
            "average": scores["average"],
            "epoch": record["selected_epoch"],
            "examples_seen": record["examples_seen"],
        }
        print(
            f"{method:7} {setting}  worst group {100 * row['worst_group']:.1f}  average "
            f"{100 * row['average']:.1f}  epoch {row['epoch']}",
            flush=True,
        )
        return row

    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(try_setting, tried))
    for method in arguments.methods.split(","):
        best = max((row for row in rows if row["method"] == method), key=lambda r: r["worst_group"])
        best["chosen"] = True
    write_json(arguments.out / "table.json", {"split": "val", "epochs": EPOCHS, "rows": rows})


if __name__ == "__main__":
    main()
