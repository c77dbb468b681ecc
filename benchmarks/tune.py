"""Tune each method's own hyperparameters where its paper gives none, on validation.

    python benchmarks/tune.py --data FOLDER [--methods jtt,eiil] [--jobs 2] [--out results/tuning]
    python benchmarks/tune.py --study sampling --task FEATURES.npz --out results/tuning-sampling
    python benchmarks/tune.py --study finetuned --task waterbirds --out results/tuning-waterbirds \\
        --set model=benchmarks.lite0:network normalize=half frozen_until=_blocks.11

**cmnist**, Colored MNIST. One rule for all: seed 0, half the epochs of the preset, and the best
worst group on validation, at its best epoch, wins. The budget is at most eight settings per method:
four to six where the first four left the winner inside of the grid, up to eight where it was at an
edge (JTT's copies, DFR's base). DFR has no epochs to select: its base is what is tuned, and how
long that is trained is one of the settings; its penalty is chosen within each run, by validation
groups that it is not fitted to, and their worst is what counts. What all methods share (the
learning rate, weight decay, moving average) stays as in the preset, except for that base.

**sampling**, SPARE's groups of features, given to three trainers: first what all have in common
(learning rate and weight decay), the same four for each, then what only one has. The best mean over
three seeds wins.

**finetuned**, a pretrained network whose last layers are trained: the same rates and decays for
plain training and SPARE, seed 100, half the epochs. What wins needs no group label: the last
epoch's average on validation for plain training, and for SPARE its worst group there by the groups
that it infers. The worst of the true groups stands beside it.

Test scores are not read. Writes METHOD.json for each method. Settings that it already has are not
tried again.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from measured import keep

import spare
from spare.files.reading import read_json
from spare.runs.grid import RunsFailed

#: Plain trainings that DFR fits a last layer to, short and long: with the preset's values, the
#: paper's, CnC's, and a high rate with next to no decay, which learns rare examples by heart.
BASES: list[dict[str, Any]] = [
    {"epochs": epochs, "lr": rate, "weight_decay": decay, "ema": 0.0}
    for epochs, rate, decay in (
        (1, 0.003, 0.01),
        (5, 0.003, 0.01),
        (20, 0.003, 0.01),
        (1, 0.001, 0.001),
        (5, 0.001, 0.001),
        (20, 0.001, 0.001),
        (20, 0.001, 0.0005),
        (20, 0.01, 0.0001),
    )
]
#: What is tried; the sources of the ranges are on docs/lab-notes.md.
CMNIST: dict[str, list[dict[str, Any]]] = {
    # The first four ended at an edge of the copies, 500, with one T. An epoch of 1,000 copies is as
    # long as ten of plain training.
    "jtt": [
        *(
            {"reference_epochs": epochs, "upweight": copies}
            for copies in (100, 500)
            for epochs in (1, 2, 5)
        ),
        {"reference_epochs": 2, "upweight": 1000},
    ],
    "eiil": [{"eta": 0.01}, {"eta": 0.1}, {"eta": 1.0}, {"eta": 0.01, "per_class": True}],
    "pgi": [
        *({"invariance_weight": weight} for weight in (0.1, 1, 10, 50)),
        *({"invariance_weight": weight, "per_class": True} for weight in (1, 10)),
    ],
    "gdro": [
        {"eta": 0.01},
        {"eta": 0.1},
        {"eta": 1.0},
        *({"eta": 0.01, "adjustment": k} for k in (1, 3)),
    ],
    # Its authors' code for MNIST reduces by UMAP, and samples every example once per epoch.
    "george": [
        {"reduction": "umap"},
        {"reduction": "umap", "balanced": False},
        {"reduction": "pca"},
        {"reduction": "pca", "balanced": False},
        {"reduction": "pca", "overcluster": False},
        {"reduction": "pca", "eta": 0.1},
    ],
    "cnc": [
        {"contrast_weight": 0.75},
        {"contrast_weight": 0.5},
        {"contrast_weight": 0.9},
        {"contrast_weight": 0.75, "contrast_temperature": 0.1},
    ],
    "lff": [{"gce_q": 0.7}, {"gce_q": 0.5}, {"gce_q": 0.9}, {"gce_q": 0.7, "lr": 0.001}],
    "ssa": [{"attribute_lr": rate} for rate in (0.0003, 0.001, 0.003, 0.01, 0.03)],
    "dfr": BASES,
    "dfr_val": BASES,
}
RATES = [{"lr": rate, "weight_decay": decay} for rate in (0.001, 0.003) for decay in (0.01, 1.0)]
SAMPLING: dict[str, list[dict[str, Any]]] = {
    "spare": RATES,
    "spare+jtt": [
        *RATES,
        *({"weight_decay": decay, "upweight": n} for decay in (0.01, 1.0) for n in (5, 20)),
        # With the strong decay the default, 50, was at an edge.
        *({"weight_decay": 1.0, "upweight": n} for n in (100, 200, 500)),
    ],
    "spare+gdro": [
        *RATES,
        *({"weight_decay": decay, "eta": eta} for decay in (0.01, 1.0) for eta in (0.1, 1.0)),
    ],
}
FINE_TUNING: list[dict[str, Any]] = [
    *(
        {"lr": rate, "weight_decay": decay}
        for rate in (0.001, 0.003, 0.01)
        for decay in (0.001, 0.1)
    ),
    # The highest rate with the strongest decay was best: two more with as strong a decay or more.
    *({"lr": 0.003, "weight_decay": decay} for decay in (0.3, 1.0)),
]


@dataclass(frozen=True)
class Study:
    seeds: tuple[int, ...]
    #: What holds for every run.
    settings: dict[str, Any]
    #: By method.
    grids: dict[str, list[dict[str, Any]]]
    #: By method, the rule whose score of the last epoch decides; none for the worst true group.
    rules: dict[str, str] = field(default_factory=dict)


STUDIES = {
    "cmnist": Study((0,), {"epochs": 10}, CMNIST),
    "sampling": Study((100, 101, 102), {"attributes": "place"}, SAMPLING),
    "finetuned": Study(
        (100,),
        {"epochs": 4, "batch_size": 32, "schedule": "cosine"},
        {"erm": FINE_TUNING, "spare": FINE_TUNING},
        {"erm": "val_average", "spare": "val_inferred_groups"},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default="cmnist", choices=list(STUDIES))
    parser.add_argument("--task", default="cmnist")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--methods", default="")
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    study = STUDIES[given.study]
    study.settings.update(pair.split("=", 1) for pair in given.set)
    for method in given.methods.split(",") if given.methods else study.grids:
        file = given.out / f"{method}.json"
        rows = read_json(file)["rows"] if file.exists() else []
        known = [row["setting"] for row in rows]
        missing = [setting for setting in study.grids[method] if setting not in known]
        with ThreadPoolExecutor(given.jobs) as pool:
            rows += pool.map(partial(try_setting, study, method, given), missing)
        best = max(rows, key=lambda row: row.get("score", row["worst_group"]))
        rows = [row | {"chosen": row is best} for row in rows]
        settings = study.settings | rule_of(study, method)
        keep(file, {"split": "val", "seeds": study.seeds, "set": settings, "rows": rows})


def rule_of(study: Study, method: str) -> dict[str, str]:
    return {"selection": study.rules[method]} if method in study.rules else {}


def try_setting(
    study: Study, method: str, given: argparse.Namespace, setting: dict[str, Any]
) -> dict[str, Any]:
    name = "-".join(f"{key}={value}" for key, value in setting.items())
    try:
        bench = spare.bench(
            given.task,
            methods=[method],
            seeds=list(study.seeds),
            out=given.out / "runs" / f"{method}-{name}",
            data=given.data,
            jobs=1,
            report=False,
            **study.settings | rule_of(study, method) | setting,
        )
    except RunsFailed as error:  # a rate at which training diverges
        print(f"{method:7} {setting}  {error}", flush=True)
        return {"method": method, "setting": setting, "worst_group": 0.0, "failed": str(error)}
    records = [run.record for run in bench.runs]
    scores = [record["scores"]["val"]["selected"] for record in records]
    worst = [
        record["notes"].get("worst_group_of_c", of_run["worst_group"])
        for record, of_run in zip(records, scores, strict=True)
    ]
    row = {
        "method": method,
        "setting": setting,
        "worst_group": mean(worst),
        "average": mean(of_run["average"] for of_run in scores),
        "epoch": records[0]["selected_epoch"],
        "examples_seen": records[0]["examples_seen"],
        "commit": records[0]["code"]["commit"],
    }
    if method in study.rules:
        row["score"] = mean(record["history"][-1]["score"] for record in records)
        last = [record["scores"]["val"]["last"] for record in records]
        row |= {name: mean(of_run[name] for of_run in last) for name in ("worst_group", "average")}
    print(
        f"{method:7} {setting}  worst group {100 * row['worst_group']:.1f}  average "
        f"{100 * row['average']:.1f}  epoch {row['epoch']}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
