"""Frozen layers: what they give is computed once, the same as in the whole network, and kept."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import InputError, Interrupted, RunError
from spare.models import ModelChoice, build, builder
from spare.progress import Progress
from spare.training import frozen
from spare.training.settings import Settings
from tests.devices import NAME, elsewhere, is_elsewhere
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
    on_features = frozen.with_frozen_layers(task, choice, Settings())
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
    frozen.with_frozen_layers(images("one"), choice, Settings())
    kept = sorted((tmp_path / "cache").rglob("*.npy"))
    assert len(kept) == 2

    def never(*args, **kwargs):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(frozen, "_parts", never)
        frozen.with_frozen_layers(images("one"), choice, Settings())
        with pytest.raises(AssertionError, match="again"):
            frozen.with_frozen_layers(images("two"), choice, Settings())
    frozen.with_frozen_layers(images("one"), replace(choice, model="lenet5"), Settings())
    assert len(sorted((tmp_path / "cache").rglob("*.npy"))) == 4


def test_backbone_and_head_make_one_network_again():
    task = images("")
    choice = ModelChoice("small_cnn", frozen=True)
    on_features = frozen.with_frozen_layers(task, choice, Settings())
    head = build(builder(ModelChoice("linear"), 2, (64,)), (1,))
    network = frozen.full_network(task, choice, Settings(), head.state_dict()).eval()
    rows = np.arange(10)
    with torch.inference_mode():
        from_pixels = network(task.val.inputs.take(rows))
        from_features = head(on_features.val.inputs.take(rows))
    assert torch.allclose(from_pixels, from_features, atol=1e-4)


def test_the_backbone_computes_on_the_device_and_everything_kept_is_on_the_host(monkeypatch):
    task, choice = images(""), ModelChoice("small_cnn", frozen=True)
    head = build(builder(ModelChoice("linear"), 2, (64,)), (1,)).state_dict()
    on_host = frozen.with_frozen_layers(task, choice, Settings())
    network = frozen.full_network(task, choice, Settings(), head)
    computed_on = []
    original = frozen._parts
    monkeypatch.setattr(
        frozen, "_parts",
        lambda split, model, *rest: computed_on.append(next(model.parameters()))
        or original(split, model, *rest),
    )  # fmt: skip
    with elsewhere():
        there = frozen.with_frozen_layers(task, choice, Settings(device=NAME))
        same_network = frozen.full_network(task, choice, Settings(device=NAME), head)
    assert all(is_elsewhere(weight) for weight in computed_on)
    assert len(computed_on) == 3  # two splits, and training's again for the network
    rows = np.arange(20)
    assert torch.equal(there.train.inputs.take(rows), on_host.train.inputs.take(rows))
    for name, value in same_network.state_dict().items():
        assert not is_elsewhere(value)
        assert torch.equal(value, network.state_dict()[name])


def test_a_backbone_may_be_a_python_object():
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(768, 5), torch.nn.Linear(5, 2)
    )
    task, choice = images(""), ModelChoice("given:Sequential", frozen=True)
    on_features = frozen.with_frozen_layers(task, choice, Settings(), given=network)
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


def convolutions(classes: int) -> torch.nn.Module:
    """Four blocks with batch normalization, and code between them that works in place."""
    torch.manual_seed(3)

    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [3, 8, 12, 16, 20]
            self.blocks = torch.nn.ModuleList(
                torch.nn.Sequential(
                    torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.BatchNorm2d(after)
                )
                for before, after in itertools.pairwise(widths)
            )
            self.relu = torch.nn.ReLU(inplace=True)
            self.last = torch.nn.Linear(20, classes)

        def forward(self, x):
            for block in self.blocks:
                x = self.relu(block(x))
            return self.last(x.mean((2, 3)))

    network = Blocks()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as if it had been trained elsewhere
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return network


UNTIL = ModelChoice("given:convolutions", frozen_until="blocks.2")


def test_until_a_layer_what_passes_into_it_is_kept_and_the_rest_gives_the_same():
    task = images("")
    cut_task = frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions)
    rows = np.arange(10)
    kept = cut_task.val.inputs.take(rows)
    assert kept.shape == (10, 12, 16, 16)
    assert kept.dtype == torch.float32
    assert cut_task.val.inputs.tensor.dtype == torch.float16
    rest = build(cut_task.build_model, (5,))
    names = {name.split(".")[2] for name, _ in rest.named_parameters() if "blocks" in name}
    assert names == {"2", "3"}
    network = frozen.full_network(task, UNTIL, Settings(), rest.state_dict(), given=convolutions)
    with torch.inference_mode():
        from_pixels = network.eval()(task.val.inputs.take(rows))
        from_kept = rest.eval()(kept)
    assert torch.allclose(from_pixels, from_kept, atol=2e-3)
    assert from_pixels.std() > 0.01


def test_weights_of_another_layer_are_refused():
    task = images("")
    other = frozen.with_frozen_layers(
        task, replace(UNTIL, frozen_until="blocks.3"), Settings(), given=convolutions
    )
    state = build(other.build_model, (5,)).state_dict()
    with pytest.raises(RunError, match=r"not those from 'blocks\.2' on"):
        frozen.full_network(task, UNTIL, Settings(), state, given=convolutions)


def test_mirror_images_are_kept_too_and_training_takes_either(tmp_path):
    task = images("one")
    plain = frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions)
    both = frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions, augment="flip")
    rows = np.arange(20)
    seen = both.train.inputs.take(rows)
    assert torch.equal(seen, plain.train.inputs.take(rows))
    network = build(builder(UNTIL, 2, (3, 16, 16), convolutions), frozen.KEY).eval()
    with torch.inference_mode():
        mirrored = network.features.blocks[1](
            network.features.blocks[0](task.train.inputs.take(rows).flip(3)).relu()
        ).relu()
    batch = both.train.inputs.take(rows, np.random.default_rng(0))
    flipped = np.array([not torch.equal(a, b) for a, b in zip(batch, seen, strict=True)])
    assert 4 <= flipped.sum() <= 16
    assert torch.allclose(batch[flipped], mirrored[flipped], atol=2e-3)
    assert both.val.inputs.take(rows[:5], np.random.default_rng(0)).equal(
        plain.val.inputs.take(rows[:5])
    )
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 3  # train twice, val once


def test_augmentation_that_cannot_be_kept_is_refused_before_anything_is_computed():
    task = images("")
    task.train.inputs.augment = lambda batch, rng: batch
    for augment, said in (("crop", r" \(augment=crop\): use"), ("", "random: use augment=flip")):
        with pytest.raises(InputError, match=said):
            frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions, augment=augment)


def test_kept_values_that_are_damaged_or_half_there_are_computed_again(tmp_path):
    task = images("one")
    before = frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions)
    expected = before.val.inputs.take(np.arange(10)).clone()
    for path in (tmp_path / "cache").rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:200])
    again = frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions)
    assert torch.equal(again.val.inputs.take(np.arange(10)), expected)


def test_computing_can_be_stopped_and_leaves_nothing_half_done(tmp_path):
    stop = Progress(should_stop=lambda: True)
    with pytest.raises(Interrupted):
        frozen.with_frozen_layers(images("one"), UNTIL, Settings(), stop, given=convolutions)
    assert not [*(tmp_path / "cache").rglob("*.npy"), *(tmp_path / "cache").rglob("*.json")]


def test_values_too_large_for_float16_are_refused():
    task = images("")
    task.train.inputs.tensor *= 1e7
    with pytest.raises(InputError, match="too large to be kept in float16"):
        frozen.with_frozen_layers(task, UNTIL, Settings(), given=convolutions)


@pytest.mark.parametrize("method", ["erm", "spare"])
def test_a_run_trains_from_a_layer_on(tmp_path, method):
    from safetensors.torch import load_file

    from tests.walks import run

    root = picture_folder(tmp_path / "pets", {"cat": 24, "dog": 24})
    small = {"model": "small_cnn", "frozen_until": "0.1", "resize": "16", "crop": "16",
             "epochs": "8", "lr": "0.05", "batch_size": "8", "augment": "flip"}  # fmt: skip
    record = run(str(root), method, 0, tmp_path / "run", overrides=small)
    assert record["settings"]["frozen_until"] == "0.1"
    assert record["scores"]["test"]["last"]["average"] > 0.9
    weights = load_file(tmp_path / "run" / "weights.safetensors")
    trained = {name.partition("/")[2] for name in weights}
    whole = set(build(builder(ModelChoice("small_cnn"), 2, (3, 16, 16)), (0,)).state_dict())
    assert {"head.weight", "head.bias"} < trained < whole


def test_both_settings_at_once_are_refused():
    with pytest.raises(InputError, match="use one of them"):
        ModelChoice("small_cnn", frozen=True, frozen_until="layer4")
