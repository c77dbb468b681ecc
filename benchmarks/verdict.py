"""How often the verdict of `spare discover` is right: data with a shortcut, and data without one.

    python benchmarks/verdict.py run --data FOLDER --images FOLDER --seeds 0-2 --out FILE
    python benchmarks/verdict.py show --out FILE

`run` discovers groups in a bank of data sets (bank.py) and keeps the evidence of every class; it
can be interrupted, and finished rows are kept. `show` prints how often each verdict was given, with
the bounds that are in use and with bounds that were set without the kind of data in question.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bank import KINDS
from measured import keep

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.files.reading import read_json
from spare.findings.associations import picture_statistics
from spare.findings.describe import describe_groups
from spare.findings.taken import resemblances, taken_blocks
from spare.findings.verdict import ALONE, FOUND, LEAST, NONE, WEAK, strength_of, verdict_of
from spare.groups.blocks import SMALLEST_BLOCK, Block, powers_of
from spare.methods.spare import infer
from spare.runs.plan import Plan
from spare.training.metrics import minority_recovery, true_minority
from spare.training.stages import Stages

#: `shortcut found` begins so much above everything that has none.
MARGIN = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=Path, help="a folder of pictures for each class")
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=Path, default=Path("runs/verdict.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SpareWarning)
    rows = read_json(given.out)["rows"] if given.out.exists() else []
    if given.what == "run":
        first, _, last = given.seeds.partition("-")
        run(given, range(int(first), int(last or first) + 1), given.kinds.split(","), rows)
    elif rows:
        keep(given.out, {"rows": rows, "summary": summary(rows)})
    show(rows)


def run(
    given: argparse.Namespace, seeds: Iterable[int], names: list[str], rows: list[dict[str, Any]]
) -> None:
    done = {(row["kind"], row["seed"]) for row in rows}
    for seed in seeds:
        for name in names:
            if (name, seed) in done or (KINDS[name].of_pictures and given.images is None):
                continue
            started = time.perf_counter()
            rows.append({"kind": name, "seed": seed, **judge(*KINDS[name].make(given, seed), seed)})
            keep(given.out, {"rows": rows, "summary": summary(rows)})
            took = time.perf_counter() - started
            print(f"{name:28} seed {seed:3}  {rows[-1]['overall']:15} {took:.0f} s", flush=True)


def judge(task: Task, plan: Plan, seed: int) -> dict[str, Any]:
    """The verdict on this data, and the evidence of every class."""
    with tempfile.TemporaryDirectory() as folder:
        stages = Stages(
            seed=seed, settings=plan.settings, judge=lambda epoch: ({}, {}), folder=Path(folder)
        )
        inferred = infer(task.as_seen_by("none"), stages, plan.options)
    labels = np.asarray(task.train.labels)
    statistics = picture_statistics(task)
    evenly = np.full(len(labels), 1 / len(labels))
    described = describe_groups(task, inferred.groups, evenly, inferred.early_outputs)
    taken = taken_blocks(inferred.groups, described, task.class_names, statistics)
    alike = resemblances(inferred.groups, inferred.blocks, statistics)
    epoch = inferred.notes["separated_at"]
    verdict = verdict_of(task, inferred.blocks, epoch, taken, alike)
    recovery = {}
    if task.train.attributes:
        minority = true_minority(task, task.train)
        recovery = minority_recovery(labels, minority, ~inferred.groups.in_majority())
    return {
        "overall": verdict["overall"],
        "strength": verdict["strength"],
        "early_epochs": inferred.notes["early_epochs"],
        "taken": list(taken),
        "classes": [
            asdict(block)
            | {name: recovery[label][name] for name in ("recall", "precision") if recovery}
            | {"alike": alike[label]}
            for label, block in inferred.blocks.items()
        ],
    }


def show(rows: list[dict[str, Any]]) -> None:
    """How often each verdict was given; and with bounds set without that kind of data."""
    print(f"bounds in use: {', '.join(f'{words} {least}' for words, least in LEAST.items())}")
    for line in summary(rows):
        answers = "   ".join(
            f"{name}: "
            + "  ".join(f"{words} {line[name][words]:3}" for words in (FOUND, WEAK, NONE))
            for name in ("in use", "left out")
        )
        print(f"{line['what']:34} {line['runs']:3}  {answers}")


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each kind of data, and then for all of them by agreement."""
    bounds = {family: bounds_from(rows, family) for family in {_family(row) for row in rows}}
    answers = [
        {
            "what": _what(row),
            "all": _all(row),
            "in use": answer(row, LEAST),
            "left out": answer(row, bounds[_family(row)]),
        }
        for row in rows
    ]
    lines = []
    for column in ("what", "all"):
        for what in sorted({each[column] for each in answers}):
            chosen = [each for each in answers if each[column] == what]
            line: dict[str, Any] = {"what": what, "runs": len(chosen)}
            for name in ("in use", "left out"):
                counts = Counter(each[name] for each in chosen)
                line[name] = {words: counts[words] for words in (FOUND, WEAK, NONE)}
            lines.append(line)
    return lines


def _family(row: dict[str, Any]) -> str:
    """The kind of data, the same with and without a shortcut, and for every network's features."""
    return KINDS[row["kind"]].family.partition(",")[0].removesuffix(" at random")


def _agreement(row: dict[str, Any]) -> float:
    return KINDS[row["kind"]].agreement


def _what(row: dict[str, Any]) -> str:
    family = KINDS[row["kind"]].family
    return f"{family} {_agreement(row):.0%}" if _agreement(row) else f"{family} (no shortcut)"


def _all(row: dict[str, Any]) -> str:
    kind = KINDS[row["kind"]]
    network = "pretrained features" if kind.of_features else "small networks"
    return f"all, {network}, " + (f"{kind.agreement:.0%}" if kind.agreement else "no shortcut")


def strengths_of(row: dict[str, Any]) -> list[float]:
    """The strength of every class whose block is large enough to say something, highest first."""
    strengths = [
        strength_of(block, one["alike"])
        for one, block in zip(row["classes"], blocks_of(row), strict=True)
        if block.size >= SMALLEST_BLOCK
    ]
    return sorted(strengths, reverse=True)


def blocks_of(row: dict[str, Any]) -> list[Block]:
    names = Block.__dataclass_fields__
    return [Block(**{key: one[key] for key in one if key in names}) for one in row["classes"]]


def second(row: dict[str, Any]) -> float:
    return strengths_of(row)[1] if len(strengths_of(row)) > 1 else 0.0


def acted_on(row: dict[str, Any]) -> bool:
    """Whether any class gets more samples by this evidence."""
    return any(powers_of(dict(enumerate(blocks_of(row)))).values())


def answer(row: dict[str, Any], bounds: dict[str, float]) -> str:
    """The verdict with these bounds."""
    words = next((words for words, least in bounds.items() if second(row) >= least), NONE)
    alone = strengths_of(row)[:1] >= [ALONE] or bool(row["taken"]) or acted_on(row)
    return WEAK if words == NONE and alone else words


def bounds_from(rows: list[dict[str, Any]], without: str) -> dict[str, float]:
    """The bounds by the other kinds of data: above all that have no shortcut, and above 95 %."""
    null = [second(row) for row in rows if not _agreement(row) and _family(row) != without]
    if not null:
        return dict(LEAST)
    return {FOUND: max(null) + MARGIN, WEAK: float(np.quantile(null, 0.95))}


if __name__ == "__main__":
    main()
