"""How often the verdict of `spare discover` is right: data with a shortcut, and data without one.

    python benchmarks/verdict.py run --data FOLDER --images FOLDER --seeds 0-2 --out FILE
    python benchmarks/verdict.py show --out FILE

`run` discovers groups in a bank of data sets and keeps the evidence of every class; it can be
interrupted, and finished rows are kept. `show` prints how often each verdict was given, with the
bounds that are in use and with bounds that were set without the kind of data in question.

With a shortcut, at 80, 90, 95 and 99 %: a mark in a corner, a tint, a texture, a border, a strip
like a caption, exchanged colors (planted.py, on pictures of --images), Colored MNIST, and features
of Waterbirds as they are. Without one: the same pictures with the same things planted at random,
plain pictures, wrong labels, a rare class, a rare and hard subclass, Colored MNIST with colors at
random, and features of Waterbirds with as many birds of each class on land as on water.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from data import load
from planted import KINDS as PLANTED
from planted import planted

from spare.data.folds import folds
from spare.data.inputs import ConcatInputs, TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.datasets.source import Source
from spare.errors import SpareWarning
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.findings.verdict import ALONE, FOUND, LEAST, NONE, WEAK, verdict_of
from spare.groups.blocks import SMALLEST_BLOCK, Block
from spare.methods import method_named
from spare.methods.spare import infer
from spare.models import ModelChoice, builder
from spare.runs.plan import Plan, make_plan
from spare.training.metrics import minority_recovery, true_minority
from spare.training.stages import Stages

#: Of Colored MNIST's training examples, and of pictures of each class.
DIGITS, PICTURES, SIDE = 10_000, 1500, 48
AGREEMENTS = (0.8, 0.9, 0.95, 0.99)
NETWORKS = ("small_cnn", "conv4")
PAIRS = (("dog", "insect"), ("cat", "bird"), ("insect", "primate"))
NOISE, RARE, SUBCLASS = 0.1, 0.05, 0.08
#: `shortcut found` begins so much above everything that has none.
MARGIN = 0.04


class Kind(NamedTuple):
    """One data set of the bank."""

    #: What is left out together when bounds are set.
    family: str
    #: Share of training examples with the shortcut; 0 where there is none.
    agreement: float
    make: Callable[[argparse.Namespace, int], tuple[Task, Plan]]
    of_pictures: bool = False


# --- Colored MNIST -------------------------------------------------------------------------------


def colored(agreement: float) -> Callable[..., tuple[Task, Plan]]:
    def load_colored(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
        choices = {"p_corr": str(agreement), "train_size": str(DIGITS)}
        return load("cmnist", given.data, choices, seed)

    return load_colored


def mislabeled_digits(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    task, plan = colored(0.2)(given, seed)
    return replace(task, train=_mislabeled(task.train, len(task.class_names), seed)), plan


def imbalanced_digits(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Two of the classes, one of them rare."""
    task, plan = colored(0.2)(given, seed)
    labels = np.asarray(task.train.labels)
    common, rare = (np.flatnonzero(labels == label) for label in (0, 1))
    rare = rare[: round(len(common) * RARE / (1 - RARE))]
    return _two_classes(task, np.sort(np.concatenate([common, rare]))), plan


def two_mislabeled_classes(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Where all wrong labels of a class are the same other class."""
    task, plan = colored(0.2)(given, seed)
    task = _two_classes(task, np.flatnonzero(np.asarray(task.train.labels) < 2))
    return replace(task, train=_mislabeled(task.train, 2, seed)), plan


def _mislabeled(split: Split, classes: int, seed: int) -> Split:
    rng = np.random.default_rng([seed, 0xBAD])
    labels = np.asarray(split.labels).copy()
    wrong = rng.random(len(labels)) < NOISE
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    return replace(split, labels=labels)


def _two_classes(task: Task, rows: np.ndarray) -> Task:
    build_model = task.build_model
    assert build_model is not None

    def with_two() -> torch.nn.Module:
        model: Any = build_model()
        model.head = torch.nn.Linear(model.head.in_features, 2)
        return model

    return replace(
        task, train=task.train.subset(rows), val=None, test=None,
        class_names=task.class_names[:2], build_model=with_two,
    )  # fmt: skip


# --- features of Waterbirds ----------------------------------------------------------------------


def birds(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """The training split without a tenth, so that seeds differ."""
    task, plan = _features(given, seed)
    parts = folds(task.groups(task.train), 10, np.random.default_rng([seed, 0xB12D]))
    return replace(task, train=task.train.subset(np.flatnonzero(parts > 0))), plan


def birds_anywhere(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Of each class as many on land as on water, from training and validation."""
    task, plan = _features(given, seed)
    assert task.val is not None
    splits = (task.train, task.val)
    both = Split(
        ConcatInputs(*(split.inputs for split in splits)),
        np.concatenate([split.labels for split in splits]),
        {"place": np.concatenate([split.attributes["place"] for split in splits])},  # type: ignore[index]
    )
    labels, place = np.asarray(both.labels), both.attributes["place"]  # type: ignore[index]
    rng = np.random.default_rng([seed, 0xA17])
    rows = []
    for label in (0, 1):
        cells = [np.flatnonzero((labels == label) & (place == where)) for where in (0, 1)]
        fewest = min(map(len, cells))
        rows += [rng.permutation(cell)[:fewest] for cell in cells]
    chosen = np.sort(np.concatenate(rows))
    return replace(task, train=both.subset(chosen), val=None, test=None), plan


def _features(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    return load("waterbirds_lite0.npz", given.data, {"attributes": "place"}, seed)


# --- natural pictures ----------------------------------------------------------------------------


def pictured(
    kind: str, agreement: float, network: str, *, subclass: float = 0.0, **more: float
) -> Callable[..., tuple[Task, Plan]]:
    """Pictures of two classes with something planted, as someone's own images would be read."""

    def make(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
        classes = PAIRS[seed % len(PAIRS)]
        pictures, labels, values, splits = planted(
            given.images, kind, agreement, seed, classes=classes, count=PICTURES, side=SIDE, **more
        )
        train = splits == 0
        if subclass:  # a few of the second class are called by the first one's name
            rng = np.random.default_rng([seed, 0x5B])
            labels = np.where(
                train & (labels == 1) & (rng.random(len(labels)) < subclass), 0, labels
            )
        plan = make_plan(
            Source("pictures", "folder", given.images), method_named("spare"), {"model": network}
        )
        inputs = torch.from_numpy(np.ascontiguousarray(pictures[train].transpose(0, 3, 1, 2)))
        task = Task(
            name=kind or "plain",
            train=Split(
                TensorInputs(inputs, finish=scale_bytes()),
                labels[train],
                {"planted": values[train]},
            ),
            val=None,
            test=None,
            class_names=classes,
            attribute_values={"planted": ("0", "1")},
            build_model=builder(ModelChoice(network, weights="none"), 2, (3, SIDE, SIDE)),
        )
        return task, plan

    return make


def _kinds() -> dict[str, Kind]:
    kinds = {f"colors {a}": Kind("colors", a, colored(a)) for a in AGREEMENTS}
    kinds["waterbirds"] = Kind("places", 0.95, birds)
    kinds |= {
        "colors at random": Kind("colors at random", 0, colored(0.2)),
        "digits wrong labels": Kind("wrong labels", 0, mislabeled_digits),
        "two digits wrong labels": Kind("wrong labels", 0, two_mislabeled_classes),
        "digits 95 to 5": Kind("rare class", 0, imbalanced_digits),
        "waterbirds anywhere": Kind("places at random", 0, birds_anywhere),
    }
    for network in NETWORKS:
        for name in PLANTED:
            for a in AGREEMENTS:
                kinds[f"{name} {a} {network}"] = Kind(name, a, pictured(name, a, network), True)
            at_random = pictured(name, 0.5, network)
            kinds[f"{name} at random {network}"] = Kind(f"{name} at random", 0, at_random, True)
        plain: dict[str, dict[str, float]] = {
            "plain": {}, "wrong labels": {"wrong_labels": NOISE}, "rare class": {"rare": RARE},
            "subclass": {"subclass": SUBCLASS},
        }  # fmt: skip
        for name, more in plain.items():
            kinds[f"{name} {network}"] = Kind(name, 0, pictured("", 0.5, network, **more), True)
    return kinds


KINDS = _kinds()


# --- running and showing -------------------------------------------------------------------------


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
        write_json(given.out, {"rows": rows, "summary": summary(rows)})
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
            write_json(given.out, {"rows": rows, "summary": summary(rows)})
            took = time.perf_counter() - started
            print(f"{name:28} seed {seed:3}  {rows[-1]['overall']:15} {took:.0f} s", flush=True)


def judge(task: Task, plan: Plan, seed: int) -> dict[str, Any]:
    """The verdict on this data, and the evidence of every class."""
    with tempfile.TemporaryDirectory() as folder:
        stages = Stages(
            seed=seed, settings=plan.settings, judge=lambda epoch: ({}, {}), folder=Path(folder)
        )
        inferred = infer(task.as_seen_by("none"), stages, plan.options)
    verdict = verdict_of(task, inferred.blocks, inferred.notes["separated_at"])
    labels = np.asarray(task.train.labels)
    minority = true_minority(labels, task.groups(task.train))
    recovery = minority_recovery(labels, minority, ~inferred.groups.in_majority())
    return {
        "overall": verdict["overall"],
        "strength": verdict["strength"],
        "early_epochs": inferred.notes["early_epochs"],
        "classes": [
            asdict(block) | {name: recovery[label][name] for name in ("recall", "precision")}
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
            "all": "all, no shortcut" if not _agreement(row) else f"all, {_agreement(row):.0%}",
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
    """The kind of data, the same with and without a shortcut."""
    return KINDS[row["kind"]].family.removesuffix(" at random")


def _agreement(row: dict[str, Any]) -> float:
    return KINDS[row["kind"]].agreement


def _what(row: dict[str, Any]) -> str:
    family = KINDS[row["kind"]].family
    return f"{family} {_agreement(row):.0%}" if _agreement(row) else f"{family} (no shortcut)"


def strengths_of(row: dict[str, Any]) -> list[float]:
    """The clarity of every class whose block is large enough to say something, highest first."""
    names = Block.__dataclass_fields__
    blocks = [Block(**{k: v for k, v in one.items() if k in names}) for one in row["classes"]]
    return sorted((b.clarity for b in blocks if b.size >= SMALLEST_BLOCK), reverse=True)


def second(row: dict[str, Any]) -> float:
    return strengths_of(row)[1] if len(strengths_of(row)) > 1 else 0.0


def answer(row: dict[str, Any], bounds: dict[str, float]) -> str:
    """The verdict with these bounds; what pictures look like (taken.py) is left out of it."""
    words = next((words for words, least in bounds.items() if second(row) >= least), NONE)
    return WEAK if words == NONE and strengths_of(row)[:1] >= [ALONE] else words


def bounds_from(rows: list[dict[str, Any]], without: str) -> dict[str, float]:
    """The bounds by the other kinds of data: above all that have no shortcut, and above 95 %."""
    null = [second(row) for row in rows if not _agreement(row) and _family(row) != without]
    if not null:
        return dict(LEAST)
    return {FOUND: max(null) + MARGIN, WEAK: float(np.quantile(null, 0.95))}


if __name__ == "__main__":
    main()
