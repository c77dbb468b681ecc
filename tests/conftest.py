"""What several tests share: small tasks, and real data where it is present."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.models import Classifier, build
from spare.training.stages import Stages

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real MNIST: SPARE_DATA, or a shared/data beside the project."""
    for folder in (os.environ.get("SPARE_DATA"), ROOT.parent / "shared" / "data"):
        if folder and (Path(folder) / "mnist/MNIST/raw").is_dir():
            return Path(folder)
    pytest.skip("the real MNIST is not on this machine: set SPARE_DATA to a folder that has it")


def toy_split(n: int, share: float, rng: np.random.Generator, attributes: bool = True) -> Split:
    """Two classes told apart weakly by column 0 and strongly, but spuriously, by column 1."""
    labels = np.arange(n) % 2
    place = np.where(rng.random(n) < share, labels, 1 - labels)
    points = rng.normal(0, 0.5, (n, 2)) + np.stack([labels * 1.5, place * 6.0], 1)
    inputs = TensorInputs(torch.tensor(points, dtype=torch.float32))
    return Split(inputs, labels, {"place": place} if attributes else None)


def toy_task(seed: int = 0, n: int = 400, share: float = 0.9) -> Task:
    rng = np.random.default_rng(seed)
    return Task(
        name="toy",
        train=toy_split(n, share, rng),
        val=toy_split(120, 0.5, rng),
        test=toy_split(200, 0.5, rng),
        class_names=("left", "right"),
        attribute_values={"place": ("land", "water")},
        build_model=lambda: Classifier(
            torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU()), torch.nn.Linear(8, 2)
        ),
    )


@pytest.fixture
def toy() -> Task:
    return toy_task()


@pytest.fixture
def trained_toy(toy) -> Task:
    """With a network that starts from the same weights whenever it is made, as trained ones do."""
    return replace(toy, build_model=partial(build, toy.build_model, (1,)))


@pytest.fixture
def stage_calls(monkeypatch):
    """By the name of each stage: what it was called with, and what it returned."""
    calls = {}
    original = Stages.train

    def spy(self, name, task, batches, **more):
        trained = original(self, name, task, batches, **more)
        calls[name] = {"batches": batches, "trained": trained, **more}
        return trained

    monkeypatch.setattr(Stages, "train", spy)
    return calls


def sampled_rows(call) -> np.ndarray:
    """The rows that a stage samples in an epoch, given what it was called with."""
    return np.concatenate(call["batches"](np.random.default_rng(0)))


@pytest.fixture(scope="session")
def digits_bench(tmp_path_factory):
    """A bench folder of two short runs: plain training, and SPARE."""
    from spare.files.writing import write_json
    from spare.runs.table import table
    from tests.walks import run

    folder = tmp_path_factory.mktemp("bench")
    records = [
        run("digits", method, 0, folder / f"{method}-seed0", overrides={"epochs": "2"})
        for method in ("erm", "spare")
    ]
    write_json(folder / "table.json", table(records) | {"command": "spare bench digits"})
    return folder
