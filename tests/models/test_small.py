"""The small networks of the package."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spare.errors import InputError
from spare.models import ModelChoice, build, builder
from spare.models.small import lenet5, small_cnn
from tests.networks import SCRATCH, SMALL, batch, made, same_weights


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("lenet5", (3, 32, 32), 84),
        ("lenet5", (1, 16, 21), 84),
        ("small_cnn", (3, 16, 16), 64),
        ("small_cnn", (2, 4, 9), 64),
        ("mlp", (7,), 256),
        ("linear", (7,), 7),
    ],
)
def test_our_models_take_any_shape_of_their_kind(name, shape, size):
    model = made(name, shape, classes=5)
    assert model.head.in_features == size
    x = batch(shape)
    assert model.features(x).shape == (3, size)
    assert model(x).shape == (3, 5)


def test_our_models_are_what_the_data_sets_use():
    assert same_weights(made("lenet5", (3, 28, 28)), build(lambda: lenet5(2, size=28), (0,)))
    assert same_weights(made("small_cnn", (3, 8, 8)), build(lambda: small_cnn(2, size=8), (0,)))


def test_a_linear_model_is_its_head():
    model = made("linear", (7,))
    x = batch((7,))
    assert torch.equal(model.features(x), x)
    assert set(model.state_dict()) == {"head.weight", "head.bias"}


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("lenet5", (3, 15, 32), "at least 16 by 16 pixels, and these are 15 by 32"),
        ("small_cnn", (3, 8, 3), "at least 4 by 4"),
        ("small_cnn", (20,), "use mlp or linear for features"),
        ("linear", SMALL, "frozen=true"),
        ("mlp", SMALL, "name an image model"),
        ("resnet18", (20,), "use mlp or linear for features"),
        ("resnet18", (1, 64, 64), "takes images of 3 channels, and these have 1"),
    ],
)
def test_a_shape_that_does_not_fit_is_an_error_before_anything_is_built(name, shape, says):
    with pytest.raises(InputError, match=says):
        builder(replace(SCRATCH, model=name), 2, shape)


def test_checking_a_shape_uses_no_random_numbers():
    before = torch.get_rng_state()
    builder(replace(SCRATCH, model="mlp"), 2, (7,))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("name", "says"),
    [("resnet51", "'resnet50'"), ("lenet", "'lenet5'"), ("smal_cnn", "'small_cnn'")],
)
def test_an_unknown_name_offers_the_nearest(name, says):
    with pytest.raises(InputError, match=f"unknown model '{name}': did you mean {says}"):
        builder(ModelChoice(name), 2, SMALL)
