"""A frozen backbone: features computed once, the same as the network gives, and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare import frozen
from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.models import ModelChoice, build, builder
from spare.runs.run import run
from spare.training.settings import Settings
from tests.pictures import picture_folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


def images(content: str) -> Task:
    torch.manual_seed(0)
    pixels = torch.rand(30, 3, 16, 16)
    labels = np.arange(30) % 2
    return Task(
        "t",
        Split(TensorInputs(pixels[:20]), labels[:20]),
        Split(TensorInputs(pixels[20:]), labels[20:]),
        None,
        ("a", "b"),
        {},
        content=content,
    )


def silent(what: str, done: int, total: int) -> None:
    pass


def test_features_are_the_networks_standardized_by_training():
    task = images("")
    choice = ModelChoice("small_cnn", frozen=True)
    made = frozen.frozen_features(task, choice, Settings(), silent)
    model = build(builder(choice, 2, (3, 16, 16)), frozen.KEY).eval()
    with torch.inference_mode():
        raw = model.features(task.train.inputs.take(np.arange(20)))
    spread = raw.std(0)
    spread[spread == 0] = 1
    seen = made.train.inputs.take(np.arange(20))
    assert torch.allclose(seen, (raw - raw.mean(0)) / spread, atol=1e-5)
    assert made.val.inputs.take(np.arange(10)).shape == (10, 64)


def test_they_are_kept_for_the_same_images_and_weights_only(monkeypatch, tmp_path):
    choice = ModelChoice("small_cnn", frozen=True)
    frozen.frozen_features(images("one"), choice, Settings(), silent)
    kept = sorted((tmp_path / "cache").rglob("*.features"))
    assert len(kept) == 2

    def never(*args, **kwargs):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(frozen, "outputs", never)
        frozen.frozen_features(images("one"), choice, Settings(), silent)
        with pytest.raises(AssertionError, match="again"):
            frozen.frozen_features(images("two"), choice, Settings(), silent)
    frozen.frozen_features(images("one"), replace(choice, model="lenet5"), Settings(), silent)
    assert len(sorted((tmp_path / "cache").rglob("*.features"))) == 4


def test_a_run_with_a_frozen_backbone_trains_a_head_alone(tmp_path):
    root = picture_folder(tmp_path / "pets", {"cat": 24, "dog": 24})
    small = {"model": "small_cnn", "frozen": "true", "resize": "16", "crop": "16", "epochs": "8",
             "lr": "0.1"}  # fmt: skip
    record = run(str(root), "erm", 0, tmp_path / "run", overrides=small)
    assert record["settings"]["frozen"] is True
    assert record["scores"]["test"]["last"]["average"] > 0.9
    from safetensors.torch import load_file

    weights = load_file(tmp_path / "run" / "weights.safetensors")
    assert {name.split("/")[1] for name in weights} == {"head.weight", "head.bias"}
