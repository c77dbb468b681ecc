"""A bank of data with a shortcut and without one, for benchmarks/verdict.py.

With a shortcut, at 80, 90, 95 and 99 %: a mark in a corner, a tint, a texture, a border, a strip
like a caption, exchanged colors (planted.py, on natural pictures), Colored MNIST, and features of
Waterbirds as they are. Without one: the same pictures with the same things planted at random, plain
pictures, wrong labels, a rare class, a rare and hard subclass, Colored MNIST with colors at random,
features of Waterbirds with as many birds of each class on land as on water, and features of every
pair of nine animals.

The features are files in the data folder, made with benchmarks/features.py: waterbirds_lite0.npz,
waterbirds_resnet50.npz, animals_lite0.npz and animals_resnet50.npz.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
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
from spare.methods import method_named
from spare.models import ModelChoice, builder
from spare.progress import SILENT
from spare.runs.plan import Plan, make_plan, with_model

#: Of Colored MNIST's training examples, and of pictures of each class.
DIGITS, PICTURES, SIDE = 10_000, 1500, 48
AGREEMENTS = (0.8, 0.9, 0.95, 0.99)
NETWORKS = ("small_cnn", "conv4")
PRETRAINED = ("lite0", "resnet50")
ANIMALS = ("bird", "cat", "crab", "dog", "fish", "frog", "insect", "primate", "reptile")
PAIRS = (("dog", "insect"), ("cat", "bird"), ("insect", "primate"))
NOISE, RARE, SUBCLASS = 0.1, 0.05, 0.08


class Kind(NamedTuple):
    """One data set of the bank."""

    #: What is left out together when bounds are set.
    family: str
    #: Share of training examples with the shortcut; 0 where there is none.
    agreement: float
    make: Callable[[argparse.Namespace, int], tuple[Task, Plan]]
    of_pictures: bool = False
    #: A head on features of a pretrained network; else a small network from scratch.
    of_features: bool = False


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
        class_names=task.class_names[:2], build_model=with_two, shortcuts={},
    )  # fmt: skip


# --- features of pretrained networks -------------------------------------------------------------


def birds(network: str) -> Callable[..., tuple[Task, Plan]]:
    def load_birds(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
        """The training split without a tenth, so that seeds differ."""
        task, plan = _birds(network, given, seed)
        parts = folds(task.groups(task.train), 10, np.random.default_rng([seed, 0xB12D]))
        return replace(task, train=task.train.subset(np.flatnonzero(parts > 0))), plan

    return load_birds


def birds_anywhere(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    """Of each class as many on land as on water, from training and validation."""
    task, plan = _birds("lite0", given, seed)
    assert task.val is not None
    both = _joined(task.train, task.val)
    labels, place = np.asarray(both.labels), both.attributes["place"]  # type: ignore[index]
    rng = np.random.default_rng([seed, 0xA17])
    rows = []
    for label in (0, 1):
        cells = [np.flatnonzero((labels == label) & (place == where)) for where in (0, 1)]
        fewest = min(map(len, cells))
        rows += [rng.permutation(cell)[:fewest] for cell in cells]
    chosen = np.sort(np.concatenate(rows))
    return replace(task, train=both.subset(chosen), val=None, test=None), plan


def _birds(network: str, given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
    return load(f"waterbirds_{network}.npz", given.data, {"attributes": "place"}, seed)


def two_animals(network: str, pair: tuple[str, str]) -> Callable[..., tuple[Task, Plan]]:
    def load_animals(given: argparse.Namespace, seed: int) -> tuple[Task, Plan]:
        """As many pictures of each as of those with something planted, or all that there are."""
        task, plan = load(f"animals_{network}.npz", given.data, {}, seed)
        both = _joined(*task.splits().values())
        rng = np.random.default_rng([seed, 0xA21])
        classes = [task.class_names.index(name) for name in pair]
        labels = np.asarray(both.labels)
        rows = [rng.permutation(np.flatnonzero(labels == c))[:PICTURES] for c in classes]
        chosen = both.subset(np.sort(np.concatenate(rows)))
        labels = (np.asarray(chosen.labels) == classes[1]).astype(np.int64)
        train = replace(chosen, labels=labels)
        task = replace(task, train=train, val=None, test=None, class_names=pair)
        return with_model(task, plan, SILENT), plan

    return load_animals


def _joined(*splits: Split) -> Split:
    names = splits[0].attributes or {}
    return Split(
        ConcatInputs(*(split.inputs for split in splits)),
        np.concatenate([split.labels for split in splits]),
        {name: np.concatenate([(s.attributes or {})[name] for s in splits]) for name in names},
    )


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
    kinds["waterbirds"] = Kind("places", 0.95, birds("lite0"), of_features=True)
    kinds["waterbirds resnet50"] = Kind("places", 0.95, birds("resnet50"), of_features=True)
    kinds |= {
        "colors at random": Kind("colors at random", 0, colored(0.2)),
        "digits wrong labels": Kind("wrong labels", 0, mislabeled_digits),
        "two digits wrong labels": Kind("wrong labels", 0, two_mislabeled_classes),
        "digits 95 to 5": Kind("rare class", 0, imbalanced_digits),
        "waterbirds anywhere": Kind("places at random", 0, birds_anywhere, of_features=True),
    }
    for network in PRETRAINED:
        for pair in combinations(ANIMALS, 2):
            name, make = " ".join((*pair, network)), two_animals(network, pair)
            kinds[name] = Kind(f"two animals, {network}", 0, make, of_features=True)
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
