"""Networks by name, from torchvision and timm, downloaded, or someone's own function or object."""

from __future__ import annotations

import copy
import io
import math
import re
import sys
from urllib.error import URLError

import pytest
import torch
from torch import nn

from spare.errors import DataError, InputError
from spare.models import ModelChoice, as_classifier, build, builder, model_description
from tests.networks import SMALL, TINY, batch, made, same_weights

# Networks of torchvision and timm


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("resnet18", 512),
        ("mobilenet_v3_small", 1024),
        ("efficientnet_b0", 1280),
        ("densenet121", 1024),
        ("shufflenet_v2_x0_5", 1024),
    ],
)
def test_the_heads_of_torchvision_networks_are_found(name, size):
    model = made(name, classes=3)
    assert model.head.in_features == size
    assert model.head.out_features == 3
    model.eval()
    x = batch(SMALL).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        assert torch.equal(model.head(model.features(x)), model(x))
        assert model.features(x).shape == (3, size)


def test_the_features_are_those_of_the_network():
    from torchvision.models import get_model

    model = made("resnet18")
    plain = build(lambda: get_model("resnet18", weights=None), (0,))
    plain.fc = nn.Identity()
    x = batch(SMALL)
    with torch.no_grad():
        torch.testing.assert_close(model.eval().features(x), plain.eval()(x), rtol=1e-4, atol=1e-5)


def test_a_convolutional_network_uses_channels_last():
    weight = made("resnet18").features.conv1.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()


def test_auxiliary_heads_are_left_out():
    model = made("googlenet")
    assert model.train()(batch(SMALL)).shape == (3, 2)


def test_a_network_without_a_linear_layer_is_refused():
    with pytest.raises(InputError, match="SqueezeNet has no linear layer"):
        made("squeezenet1_1")


def test_an_image_size_that_does_not_fit_the_network_is_refused():
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(3, 64, 64\).*height"):
        as_classifier(_vit(32), 2, SMALL)


def _vit(size: int) -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(
        image_size=size, patch_size=16, num_layers=1, num_heads=2, hidden_dim=12, mlp_dim=16
    )


def test_the_head_of_a_vision_transformer_is_found():
    model = as_classifier(_vit(32), 2, (3, 32, 32))
    assert model.features(batch((3, 32, 32))).shape == (3, 12)


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [("timm:test_resnet", (1, 64, 64), 96), ("test_vit", (3, 160, 160), 64)],
)
def test_names_of_timm_with_their_prefix_or_without(name, shape, size):
    pytest.importorskip("timm")
    model = made(name, shape)
    assert model.head.in_features == size
    assert model(batch(shape, 2)).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("timm:test_resnt", "unknown model 'timm:test_resnt': did you mean 'timm:test_resnet'"),
        ("timm:test_resnet.r161_in1k", "did you mean 'r160_in1k'"),
        ("timm:@", "timm.list_models"),
    ],
)
def test_unknown_names_of_timm(name, says):
    pytest.importorskip("timm")
    with pytest.raises(InputError, match=says):
        builder(ModelChoice(name), 2, SMALL)


def test_without_timm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"needs timm: pip install 'spare-ml\[timm\]'"):
        builder(ModelChoice("timm:test_resnet"), 2, SMALL)
    with pytest.raises(InputError, match=r"unknown model 'test_resnet'.*spare-ml\[timm\]"):
        builder(ModelChoice("test_resnet"), 2, SMALL)


# Downloads


def test_weights_that_cannot_be_fetched_are_reported_in_one_sentence(hub, capsys):
    with pytest.raises(DataError) as caught:
        made("shufflenet_v2_x0_5", weights="imagenet")
    message = str(caught.value)
    assert "ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1" in message
    assert "could not be fetched (no route to host)" in message
    assert f"{hub}/shufflenetv2_x0.5-f707e7126e.pth" in message
    assert "--set weights=none" in message
    assert "\n" not in message
    assert list(hub.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_a_download_that_breaks_off_leaves_nothing_behind(hub, monkeypatch):
    class Answer(io.BytesIO):
        def info(self):
            return type("Headers", (), {"get_all": lambda self, name: ["1000"]})()

    monkeypatch.setattr(torch.hub, "urlopen", lambda request: Answer(b"half of a file"))
    with pytest.raises(DataError, match=r"could not be fetched .*hash"):
        made("shufflenet_v2_x0_5", weights="imagenet")
    assert list(hub.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_named(hub):
    hub.mkdir(parents=True)
    (hub / "shufflenetv2_x0.5-f707e7126e.pth").write_bytes(b"half of a file")
    with pytest.raises(
        DataError, match=r"shufflenetv2_x0.5-f707e7126e.pth cannot be read .*delete it"
    ):
        made("shufflenet_v2_x0_5", weights="imagenet")


def test_cached_imagenet_weights_are_loaded_and_only_the_head_depends_on_the_key(hub):
    from torchvision.models import get_model

    stored = build(lambda: get_model("shufflenet_v2_x0_5", weights=None), (5,))
    hub.mkdir(parents=True)
    torch.save(stored.state_dict(), hub / "shufflenetv2_x0.5-f707e7126e.pth")
    one, two = (made("shufflenet_v2_x0_5", weights="imagenet", key=(key,)) for key in (0, 1))
    assert torch.equal(one.features.conv1[0].weight, stored.conv1[0].weight)
    assert same_weights(one.features, two.features)
    assert not torch.equal(one.head.weight, two.head.weight)


def test_timm_weights_that_cannot_be_fetched_are_reported_in_one_sentence(monkeypatch):
    timm = pytest.importorskip("timm")

    def no_network(*args, **more):
        raise URLError("no route to host")

    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_hf", no_network)
    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_url", no_network)
    with pytest.raises(DataError, match=r"timm/test_resnet.*\(no route to host\).*weights=none"):
        made("timm:test_resnet", weights="imagenet")


# A user's own function


@pytest.mark.parametrize("function", ["plain", "named", "fixed"])
def test_someones_function_is_found_in_the_current_folder(user_folder, function):
    model = made(f"{user_folder}:{function}", TINY, classes=3)
    assert model.head.in_features == 6
    assert model(batch(TINY)).shape == (3, 3)


def test_a_head_of_the_right_size_is_kept(user_folder):
    import importlib

    model = made(f"{user_folder}:plain", TINY, classes=3)
    nets = importlib.import_module(user_folder)
    plain = build(lambda: nets.plain(3), (0,))
    assert torch.equal(model.head.weight, plain[3].weight)
    x = batch(TINY)
    assert torch.equal(model(x), plain(x))


def test_a_function_may_import_from_the_current_folder_when_it_is_called(user_folder):
    model = made(f"{user_folder}:lazy", (7,))
    x = batch((7,))
    assert torch.equal(model.features(x), x)  # the network was nothing but its head


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{nets}:plian", "unknown function of {nets} 'plian': did you mean 'plain'"),
        ("{nets}:number", "unknown function of {nets} 'number'"),
        ("mynets_of_a_test.bad:net", "cannot be imported .*a_package_that_is_not_there"),
        ("no_such_module:net", "'no_such_module:net': 'no_such_module' cannot be imported"),
        (":net", "cannot be imported"),
    ],
)
def test_functions_that_do_not_exist_are_refused(user_folder, name, says):
    with pytest.raises(InputError, match=says.format(nets=user_folder)):
        builder(ModelChoice(name.format(nets=user_folder)), 2, TINY)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("broken", ":broken': the function raised RuntimeError: no idea.$"),
        ("none", ":none': the function returned a NoneType, not an nn.Module.$"),
    ],
)
def test_functions_that_do_not_return_a_network_are_refused(user_folder, function, says):
    with pytest.raises(InputError, match=says):
        made(f"{user_folder}:{function}", TINY)


# The same key is the same weights


@pytest.mark.parametrize(("name", "shape"), [("mlp", (7,)), ("mobilenet_v3_small", SMALL)])
def test_the_key_decides_the_initial_weights(name, shape):
    torch.manual_seed(1)
    one = made(name, shape, key=(3, 1))
    random = torch.get_rng_state()
    assert same_weights(one, made(name, shape, key=(3, 1)))
    assert torch.equal(random, torch.get_rng_state())
    assert not torch.equal(one.head.weight, made(name, shape, key=(3, 2)).head.weight)


def test_a_fresh_head_has_the_initial_weights_of_pytorch():
    head = made("resnet18").head
    bound = 1 / math.sqrt(512)
    assert 0.9 * bound < head.weight.abs().max() <= bound


# A network, or what makes one, as a Python object


def given(model, shape=TINY, classes=3, **more) -> nn.Module:
    choice = ModelChoice(model_description(model), **more)
    return build(builder(choice, classes, shape, given=model), (0,))


def test_a_given_network_is_copied_with_its_weights():
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    one, two = given(network), given(network)
    x = batch(TINY)
    assert torch.equal(one(x), network(x))
    assert same_weights(one, two)
    with torch.no_grad():
        one.head.weight.zero_()
    assert not same_weights(one, two)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    other = given(network, classes=5)  # another head, the same features
    assert other.head.out_features == 5
    assert torch.equal(other.features(x), two.features(x))


def test_a_given_function_or_class_is_called_with_the_number_of_classes():
    def small(num_classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))

    class Net(nn.Sequential):
        def __init__(self, classes=7):
            super().__init__(nn.Flatten(), nn.Linear(12, 4), nn.Linear(4, classes))

    assert given(small)(batch(TINY)).shape == (3, 3)
    assert given(Net).head.out_features == 3
    assert re.fullmatch(r"given:small-[0-9a-f]{8}", model_description(small))
    assert model_description(Net) == model_description(Net)
    assert model_description(Net).startswith("given:Net-")
    assert not same_weights(
        build(builder(ModelChoice(), 3, TINY, given=Net), (0,)),
        build(builder(ModelChoice(), 3, TINY, given=Net), (1,)),
    )


def test_another_model_of_the_same_name_has_another_description():
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    others = [copy.deepcopy(network) for _ in range(3)]
    with torch.no_grad():
        others[0][2].bias[1] += 1
    others[1][1].num_batches_tracked += 1
    others[2][1].momentum = 0.5
    descriptions = [model_description(model) for model in (network, *others)]
    assert len(set(descriptions)) == 4
    assert model_description(copy.deepcopy(network)) == descriptions[0]

    def maker(width):
        return lambda classes: nn.Sequential(nn.Linear(4, width), nn.Linear(width, classes))

    assert model_description(maker(3)) == model_description(maker(3))
    assert model_description(maker(3)) != model_description(maker(5))


def test_networks_without_plain_weights_are_described_too():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.lazy = nn.LazyLinear(3)
            self.register_buffer("empty", torch.zeros(0, 2, dtype=torch.bool))

        def get_extra_state(self):
            return object()

        def set_extra_state(self, state):
            pass

        def extra_repr(self):
            return repr(object())

    assert model_description(Odd()) == model_description(Odd())
    assert model_description(3).startswith("given:int-")


def test_weights_from_a_file_go_into_a_given_network(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Linear(6, 3))
    stored = build(lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Linear(6, 3)), (9,))
    torch.save(stored.state_dict(), tmp_path / "weights.pt")
    model = given(network, weights=str(tmp_path / "weights.pt"))
    assert torch.equal(model(batch(TINY)), stored(batch(TINY)))


@pytest.mark.parametrize(
    ("choice", "model", "says"),
    [
        ("given:Net", None, "was given as a Python object, .* give the object again"),
        ("", None, "no model is chosen: name one with --model"),
        ("given:int", 3, "a model is a name, an nn.Module or a function that makes one, not a int"),
    ],
)
def test_models_that_cannot_be_built_are_refused(choice, model, says):
    with pytest.raises(InputError, match=says):
        builder(ModelChoice(choice), 2, TINY, given=model)
