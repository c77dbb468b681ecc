"""Weights from a file: loaded if they fit, refused in one sentence otherwise."""

from __future__ import annotations

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from spare.errors import DataError, InputError
from spare.models import ModelChoice, build, builder
from spare.records.weights_file import write_weights
from tests.networks import TINY, made, same_weights


def saved(state, path):
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    else:
        torch.save(state, path)
    return str(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_weights_from_a_file_without_its_head(tmp_path, suffix):
    from torchvision.models import get_model

    stored = build(lambda: get_model("shufflenet_v2_x0_5", weights=None, num_classes=7), (5,))
    file = saved(stored.state_dict(), tmp_path / f"weights{suffix}")
    model = made("shufflenet_v2_x0_5", weights=file)
    assert torch.equal(model.features.conv5[0].weight, stored.conv5[0].weight)
    assert model.head.out_features == 2
    without = {k: v for k, v in stored.state_dict().items() if not k.startswith("fc.")}
    model = made("shufflenet_v2_x0_5", weights=saved(without, tmp_path / f"backbone{suffix}"))
    assert torch.equal(model.features.conv1[0].weight, stored.conv1[0].weight)


def test_weights_from_a_file_are_loaded_into_our_models(tmp_path):
    stored = made("small_cnn", (3, 8, 8), key=(5,))
    file = saved(stored.state_dict(), tmp_path / "weights.pt")
    assert same_weights(made("small_cnn", (3, 8, 8), weights=file), stored)
    other = made("small_cnn", (3, 8, 8), classes=4, weights=file)
    assert same_weights(other.features, stored.features)
    assert other.head.out_features == 4


@pytest.mark.parametrize("name", ["small_cnn", "{nets}:plain"])
def test_training_can_start_from_the_weights_of_a_run(tmp_path, user_folder, name):
    name, shape = name.format(nets=user_folder), (3, 4, 4) if name == "small_cnn" else TINY
    stored = made(name, shape, key=(5,))
    state = stored.state_dict()
    zeros = {name: torch.zeros_like(value) for name, value in state.items()}
    write_weights(tmp_path, {"last": zeros, "selected": state})
    assert same_weights(made(name, shape, weights=str(tmp_path / "weights.safetensors")), stored)


def test_a_parameter_called_selected_does_not_make_a_file_a_run(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Linear(6, 3))
    network.register_parameter("selected", nn.Parameter(torch.ones(2)))
    file = saved({k: v + 1 for k, v in network.state_dict().items()}, tmp_path / "weights.pt")
    model = build(builder(ModelChoice("given", weights=file), 3, TINY, given=network), (0,))
    assert model.features.selected.tolist() == [2, 2]


def test_weights_that_do_not_fit_name_the_first_few(tmp_path):
    state = dict(made("lenet5", (3, 32, 32)).state_dict())
    state["extra"] = torch.zeros(1)
    file = saved(state, tmp_path / "weights.safetensors")
    with pytest.raises(DataError) as caught:
        made("small_cnn", (3, 8, 8), weights=file)
    message = str(caught.value)
    assert message.startswith(f"{file} does not fit Classifier (")
    assert "unknown: " in message
    assert "of another shape: features.0.bias, features.0.weight" in message
    assert " more" in message


def test_weights_that_are_missing_are_named(tmp_path):
    state = dict(made("lenet5", (3, 32, 32)).state_dict())
    del state["features.0.weight"]
    file = saved(state, tmp_path / "weights.pt")
    with pytest.raises(DataError, match=r"missing: features.0.weight\)"):
        made("lenet5", (3, 32, 32), weights=file)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("new", [True, False])
def test_a_pickle_that_runs_code_is_refused_without_running_it(tmp_path, new):
    file = tmp_path / "weights.pt"
    torch.save({"a": Evil(tmp_path / "ran")}, file, _use_new_zipfile_serialization=new)
    with pytest.raises(DataError, match="not a plain state dict"):
        made("mlp", (7,), weights=str(file))
    assert not (tmp_path / "ran").exists()
    torch.load(file, weights_only=False)
    assert (tmp_path / "ran").exists()  # so it would have run


def test_a_pickle_in_the_torchvision_cache_is_refused_without_running_it(hub, tmp_path):
    hub.mkdir(parents=True)
    torch.save({"a": Evil(tmp_path / "ran")}, hub / "shufflenetv2_x0.5-f707e7126e.pth")
    with pytest.raises(DataError, match="cannot be read as the weights"):
        made("shufflenet_v2_x0_5", weights="imagenet")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content", [{"state_dict": {"a": torch.zeros(1)}, "epoch": 3}, [torch.zeros(1)], nn.Linear]
)
def test_files_that_are_not_a_plain_state_dict_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "weights.pt")
    with pytest.raises(DataError, match=r"weights.pt is damaged, or not a plain state dict"):
        made("mlp", (7,), weights=str(tmp_path / "weights.pt"))


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_damaged_weight_files_are_refused(tmp_path, name):
    saved(dict(made("mlp", (7,)).state_dict()), tmp_path / name)
    intact = (tmp_path / name).read_bytes()
    for content in (intact[: len(intact) // 2], b"", b"not weights"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="is damaged, or not a plain state dict"):
            made("mlp", (7,), weights=str(tmp_path / name))


def test_weights_are_checked_before_anything_is_built(tmp_path):
    with pytest.raises(
        InputError, match=r"weights is imagenet, none, or the path .* not 'imagnet'"
    ):
        builder(ModelChoice("mlp", weights="imagnet"), 2, (7,))
    with pytest.raises(DataError, match=r"there is no weights file .*none.pt"):
        builder(ModelChoice("mlp", weights=str(tmp_path / "none.pt")), 2, (7,))
