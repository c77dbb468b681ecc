"""A frozen backbone: features computed once, the same as the network gives, and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.models import ModelChoice, build, builder
from spare.training import frozen, settings
from spare.training.settings import Settings
from tests.devices import OnDevice, pretended_device
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


def test_features_are_those_of_the_network_standardized_by_training():
    task = images("")
    choice = ModelChoice("small_cnn", frozen=True)
    on_features = frozen.frozen_features(task, choice, Settings())
    model = build(builder(choice, 2, (3, 16, 16)), frozen.KEY).eval()
    with torch.inference_mode():
        raw = model.features(task.train.inputs.take(np.arange(20)))
    spread = raw.std(0)
    spread[spread == 0] = 1
    standardized = on_features.train.inputs.take(np.arange(20))
    assert torch.allclose(standardized, (raw - raw.mean(0)) / spread, atol=1e-5)
    assert on_features.val.inputs.take(np.arange(10)).shape == (10, 64)


def test_features_are_kept_for_the_same_images_and_weights_only(monkeypatch, tmp_path):
    choice = ModelChoice("small_cnn", frozen=True)
    frozen.frozen_features(images("one"), choice, Settings())
    kept = sorted((tmp_path / "cache").rglob("*.features"))
    assert len(kept) == 2

    def never(*args, **kwargs):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(frozen, "outputs", never)
        frozen.frozen_features(images("one"), choice, Settings())
        with pytest.raises(AssertionError, match="again"):
            frozen.frozen_features(images("two"), choice, Settings())
    frozen.frozen_features(images("one"), replace(choice, model="lenet5"), Settings())
    assert len(sorted((tmp_path / "cache").rglob("*.features"))) == 4


def test_backbone_and_head_make_one_network_again():
    task = images("")
    choice = ModelChoice("small_cnn", frozen=True)
    on_features = frozen.frozen_features(task, choice, Settings())
    head = build(builder(ModelChoice("linear"), 2, (64,)), (1,))
    network = frozen.full_network(task, choice, Settings(), head.state_dict()).eval()
    rows = np.arange(10)
    with torch.inference_mode():
        from_pixels = network(task.val.inputs.take(rows))
        from_features = head(on_features.val.inputs.take(rows))
    assert torch.allclose(from_pixels, from_features, atol=1e-4)


def test_the_backbone_computes_on_the_device_and_everything_kept_is_on_the_host(monkeypatch):
    monkeypatch.setattr(settings, "DEVICES", ("cpu", "cuda"))
    task, choice = images(""), ModelChoice("small_cnn", frozen=True)
    head = build(builder(ModelChoice("linear"), 2, (64,)), (1,)).state_dict()
    on_host = frozen.frozen_features(task, choice, Settings())
    network = frozen.full_network(task, choice, Settings(), head)
    computed_on = []
    original = frozen.outputs
    monkeypatch.setattr(
        frozen, "outputs",
        lambda model, *rest, **more: computed_on.append(next(model.parameters()))
        or original(model, *rest, **more),
    )  # fmt: skip
    with pretended_device():
        there = frozen.frozen_features(task, choice, Settings(device="cuda"))
        same_network = frozen.full_network(task, choice, Settings(device="cuda"), head)
    assert all(isinstance(weight, OnDevice) for weight in computed_on)
    assert len(computed_on) == 3  # two splits, and training's again for the network
    rows = np.arange(20)
    assert torch.equal(there.train.inputs.take(rows), on_host.train.inputs.take(rows))
    for name, value in same_network.state_dict().items():
        assert not isinstance(value, OnDevice)
        assert torch.equal(value, network.state_dict()[name])


def test_a_backbone_may_be_a_python_object():
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(768, 5), torch.nn.Linear(5, 2)
    )
    task, choice = images(""), ModelChoice("given:Sequential", frozen=True)
    on_features = frozen.frozen_features(task, choice, Settings(), given=network)
    assert on_features.train.inputs.take(np.arange(3)).shape == (3, 5)
    head = build(builder(ModelChoice("linear"), 2, (5,)), (1,))
    full = frozen.full_network(task, choice, Settings(), head.state_dict(), given=network)
    assert full(task.val.inputs.take(np.arange(3))).shape == (3, 2)


def test_a_run_with_a_frozen_backbone_trains_a_head_alone(tmp_path):
    from tests.walks import run

    root = picture_folder(tmp_path / "pets", {"cat": 24, "dog": 24})
    small = {"model": "small_cnn", "frozen": "true", "resize": "16", "crop": "16", "epochs": "8",
             "lr": "0.1"}  # fmt: skip
    record = run(str(root), "erm", 0, tmp_path / "run", overrides=small)
    assert record["settings"]["frozen"] is True
    assert record["scores"]["test"]["last"]["average"] > 0.9
    from safetensors.torch import load_file

    weights = load_file(tmp_path / "run" / "weights.safetensors")
    assert {name.split("/")[1] for name in weights} == {"head.weight", "head.bias"}
