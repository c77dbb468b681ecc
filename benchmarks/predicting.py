"""When planted shortcuts separate, against what `spare theory predict` says after three epochs.

    python benchmarks/predicting.py run --images FOLDER --out FILE
    python benchmarks/predicting.py show --out FILE

`run` plants shortcuts of several strengths (planted.py), trains plainly for `EPOCHS` epochs, and
notes the first epoch at which the classes have fallen apart, beside the prediction from the first
`WATCHED` epochs; it can be interrupted. Some rows were seen when the form of the rule and its two
constants were chosen; all others test it. `show` prints both, the constants fitted anew, and how
the time depends on the size of the texture and on the learning rate.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from measured import keep
from planted import planted
from torch import nn

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.files.reading import read_json
from spare.groups.blocks import class_offsets
from spare.models import ModelChoice, builder
from spare.report.figures.canvas import COLORS, canvas, save_figure
from spare.theory.axes import label, logarithmic
from spare.theory.forecast import POWER, SCALE, WITHIN, forecast
from spare.theory.linear_clock import APART, clarity_of, linear_clock
from spare.training.batches import shuffled
from spare.training.loop import cross_entropy
from spare.training.outputs import outputs
from spare.training.settings import Settings
from spare.training.stages import Stages

EPOCHS, WATCHED = 20, 3
PICTURES, SIDE = 1000, 32
#: A prediction is near if it is off by less than this factor.
NEAR = 2.0


class Case(NamedTuple):
    kind: str
    classes: tuple[str, str]
    faint: int = 8
    lr: float = 0.001
    network: str = "small_cnn"
    agreement: float = 0.95
    #: Whether it was seen when the rule and its constants were chosen.
    seen: bool = False

    @property
    def name(self) -> str:
        size = f" {self.faint}" if self.kind == "texture" else ""
        return (
            f"{self.kind}{size} {self.agreement:g} {'/'.join(self.classes)} {self.network} "
            f"lr {self.lr:g}"
        )


DOGS, CATS = ("dog", "insect"), ("cat", "bird")
INSECTS, FROGS = ("insect", "primate"), ("frog", "reptile")
CASES = [
    *[Case("texture", DOGS, faint=f, seen=True) for f in (8, 16, 32, 4)],
    *[Case("texture", DOGS, faint=f, lr=0.004, seen=True) for f in (8, 16)],
    *[Case("texture", CATS, faint=f, seen=True) for f in (8, 16, 32)],
    *[Case(kind, DOGS, seen=True) for kind in ("border", "mark", "tint", "strip")],
    Case("texture", DOGS, agreement=0.5, seen=True),
    Case("tint", DOGS, agreement=0.5, seen=True),
    *[Case("texture", INSECTS, faint=f) for f in (12, 24)],
    *[Case("texture", INSECTS, faint=f, lr=0.002) for f in (6, 12)],
    *[Case("texture", DOGS, faint=f, network="conv4") for f in (8, 16)],
    Case("texture", INSECTS, faint=12, agreement=0.99),
    Case("texture", INSECTS, agreement=0.5),
    Case("border", INSECTS),
    Case("border", DOGS, lr=0.0003),
    Case("color", DOGS),
    *[Case("texture", FROGS, faint=f) for f in (10, 20)],
    *[Case(kind, FROGS) for kind in ("border", "mark", "tint", "strip", "color")],
    Case("border", FROGS, agreement=0.5),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--images", type=Path, help="a folder of pictures for each class")
    parser.add_argument("--out", type=Path, default=Path("runs/predicting.json"))
    parser.add_argument("--figure", type=Path, help="a .png or .svg file to plot")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = read_json(given.out)["rows"] if given.out.exists() else []
    cases = {case.name: case for case in CASES}
    rows = [row | cases[row["name"]]._asdict() for row in rows if row["name"] in cases]
    if given.what == "run":
        done = {row["name"] for row in rows}
        for case in CASES:
            if case.name not in done:
                started = time.process_time()
                rows.append({"name": case.name, **case._asdict(), **measured(case, given.images)})
                keep(given.out, {"rows": rows, "summary": summary(rows)})
                took = time.process_time() - started
                print(f"{line(rows[-1])}  {took:.0f} s of CPU", flush=True)
    show(rows)
    keep(given.out, {"rows": rows, "summary": summary(rows)})
    if given.figure:
        save_figure(plot(rows), given.figure)


def measured(case: Case, images: Path) -> dict[str, Any]:
    """The epoch at which the classes fell apart, and the one that was predicted."""
    pictures, labels, _, splits = planted(
        images, case.kind, case.agreement, seed=0, classes=case.classes, count=PICTURES,
        side=SIDE, faint=case.faint,
    )  # fmt: skip
    train = splits == 0
    pixels = torch.from_numpy(np.ascontiguousarray(pictures[train].transpose(0, 3, 1, 2)))
    labels = labels[train]
    build = builder(ModelChoice(case.network, weights="none"), 2, (3, SIDE, SIDE))
    split = Split(TensorInputs(pixels, finish=scale_bytes()), labels)
    task = Task(case.name, split, None, None, case.classes, {}, build_model=build)
    settings = Settings(epochs=EPOCHS, lr=case.lr, weight_decay=1e-3, batch_size=32)
    steps = math.ceil(len(labels) / settings.batch_size)
    at = sorted({*[max(1, round(s * steps)) for s in WITHIN],
                 *[epoch * steps for epoch in range(1, EPOCHS + 1)]})  # fmt: skip
    looks: list[np.ndarray] = []
    done = 0

    def objective(model: nn.Module, x: Any, y: Any, index: np.ndarray) -> Any:
        nonlocal done
        if done in at:
            looks.append(outputs(model, split, settings).logits.numpy())
        done += 1
        return cross_entropy(model, x, y, index)

    stages = Stages(seed=0, settings=settings, judge=lambda epoch: ({}, {}))
    trained = stages.train("early", task, shuffled(len(labels), 32), objective=objective)
    looks.append(outputs(trained.model, split, settings).logits.numpy())
    epochs = [step / steps for step in at]
    clarity = [
        mean_clarity(each, labels) if e >= 1 else -1.0
        for e, each in zip(epochs, looks, strict=True)
    ]
    actual = next((e for e, c in zip(epochs, clarity, strict=True) if c >= APART), None)
    clock = linear_clock(split.inputs.take(np.arange(len(labels))).numpy(), labels)
    watched = [number for number, epoch in enumerate(epochs) if epoch <= WATCHED]
    told = forecast(clock, [epochs[i] for i in watched], [looks[i] for i in watched])
    return {
        "actual": actual,
        "clarity": [round(value, 3) for e, value in zip(epochs, clarity, strict=True) if e >= 1],
        "promised": told.promised,
        **asdict(told),
    }


def mean_clarity(logits: np.ndarray, labels: np.ndarray) -> float:
    shifted = torch.from_numpy(logits + class_offsets(logits, labels))
    return float(np.mean(clarity_of(shifted.softmax(1).numpy(), labels)))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How near the predictions are, on what was seen before and on the rest."""
    result: dict[str, Any] = {"scale": SCALE, "power": POWER}
    for part, seen in (("seen", True), ("tested", False)):
        of = [row for row in rows if row["seen"] == seen]
        both = [row for row in of if row["actual"] and row["epoch"]]
        factors = [abs(math.log(row["epoch"] / row["actual"])) for row in both]
        guess = np.mean([math.log(r["actual"]) for r in rows if r["seen"] and r["actual"]] or [0])
        plain = [abs(guess - math.log(row["actual"])) for row in both]
        result[part] = {
            "cases": len(of),
            "both known": len(both),
            "median factor": math.exp(np.median(factors)) if factors else None,
            "within a factor of 2": float(np.mean(np.array(factors) < math.log(NEAR)))
            if factors
            else None,
            "median factor of a constant guess": math.exp(np.median(plain)) if plain else None,
            "promised and separated": sum(bool(r["promised"] and r["actual"]) for r in of),
            "promised, not within the epochs": sum(
                bool(r["promised"] and not r["actual"]) for r in of
            ),
            "not promised, separated": sum(bool(not r["promised"] and r["actual"]) for r in of),
            "not promised, not separated": sum(
                bool(not r["promised"] and not r["actual"]) for r in of
            ),
        }
    result["powers"] = powers(rows)
    result["scale and power fitted anew"] = refitted(rows)
    return result


def powers(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """How the actual time goes with the size of a texture, and with the learning rate."""

    def slope(of: Sequence[dict[str, Any]], key: str) -> float | None:
        known = [(math.log(row[key]), math.log(row["actual"])) for row in of if row["actual"]]
        return float(np.polyfit(*np.array(known).T, 1)[0]) if len(known) > 1 else None

    textures = [r for r in rows if r["kind"] == "texture" and r["agreement"] == 0.95]
    dogs = [r for r in textures if tuple(r["classes"]) == DOGS and r["network"] == "small_cnn"]
    cats = [r for r in textures if tuple(r["classes"]) == CATS]
    return {
        "size, dog/insect": slope([r for r in dogs if r["lr"] == 0.001], "faint"),
        "size, cat/bird": slope(cats, "faint"),
        "lr, texture 8": slope([r for r in dogs if r["faint"] == 8], "lr"),
        "lr, texture 16": slope([r for r in dogs if r["faint"] == 16], "lr"),
    }


def refitted(rows: Sequence[dict[str, Any]]) -> tuple[float, float] | None:
    """SCALE and POWER that fit the rows that were seen before."""
    known = [
        (math.log(max(row["linear_time"], 1)), math.log(row["actual"] / row["started"]))
        for row in rows
        if row["seen"] and row["actual"] and row["started"] and row["linear_time"]
    ]
    if len(known) < 2:
        return None
    power, scale = np.polyfit(*np.array(known).T, 1)
    return math.exp(scale), float(power)


def line(row: dict[str, Any]) -> str:
    def number(value: float | None) -> str:
        return "   -" if value is None else f"{value:4.1f}"

    return (
        f"{row['name']:52} linear {number(row['linear_time'])} ({row['most_clarity']:5.2f})  "
        f"started {number(row['started'])}  predicted {number(row['epoch'])}  "
        f"actual {number(row['actual'])}"
    )


def show(rows: Sequence[dict[str, Any]]) -> None:
    for seen in (True, False):
        print("seen before:" if seen else "tested on:")
        for row in rows:
            if row["seen"] == seen:
                print(f"  {line(row)}")
    for name, value in summary(rows).items():
        print(name, value)


def plot(rows: Sequence[dict[str, Any]]) -> Any:
    """Predicted against actual epochs; and actual epochs by the size of the texture."""
    figure = canvas(8.4, 3.6)
    left, right = figure.subplots(1, 2)
    marks = {"texture": "o", "border": "s", "mark": "^"}
    for row in rows:
        if row["actual"] and row["epoch"]:
            color = COLORS[6] if row["seen"] else COLORS[3 if row["network"] == "conv4" else 0]
            left.plot(row["actual"], row["epoch"], marks[row["kind"]], color=color, ms=5)
    for words, color in (("seen before", 6), ("new data", 0), ("new data, another network", 3)):
        left.plot([], [], "o", color=COLORS[color], label=words)
    for words, mark in marks.items():
        left.plot([], [], mark, color="k", mfc="none", label=words)
    ends = np.array([1, 20])
    for factor, style, words in (
        (1, "-", "exact"),
        (2, ":", "off by a factor of 2"),
        (0.5, ":", ""),
    ):
        left.plot(ends, factor * ends, "k" + style, lw=0.8, label=words or None)
    logarithmic(left, [1, 2, 3, 5, 10, 20])
    left.set_yticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
    label(left, "epoch at which the classes separated", "epoch predicted after three epochs")
    for number, (classes, lr) in enumerate(((DOGS, 0.001), (CATS, 0.001), (DOGS, 0.004))):
        of = sorted(
            (row["faint"], row["actual"]) for row in rows
            if row["kind"] == "texture" and tuple(row["classes"]) == classes and row["lr"] == lr
            and row["network"] == "small_cnn" and row["actual"]
        )  # fmt: skip
        words = f"{'/'.join(classes)}, lr {lr:g}"
        right.plot(*np.array(of).T, "o-", color=COLORS[number], ms=4, lw=1, label=words)
    sizes = np.array([8, 32])
    right.plot(sizes, 13 * (8 / sizes) ** 2, "k--", lw=0.8, label="1 / size² (the theory)")
    right.plot(sizes, 13 * (8 / sizes), "k:", lw=0.8, label="1 / size")
    logarithmic(right, [4, 8, 16, 32])
    right.set_yticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
    label(right, "size of the texture (gray levels of 255)", "epoch at which the classes separated")
    return figure


if __name__ == "__main__":
    main()
