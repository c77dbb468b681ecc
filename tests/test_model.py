from __future__ import annotations

import copy
import io
import math
import os
import sys
from dataclasses import replace
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from spare.errors import DataError, InputError
from spare.files import write_tensors
from spare.models import Classifier, ModelChoice, as_classifier, build, builder
from spare.models.small import lenet5, small_cnn

SMALL = (3, 64, 64)
SCRATCH = ModelChoice(weights="none")


def made(name: str, shape=SMALL, classes: int = 2, key=(0,), **more) -> Classifier:
    return build(builder(replace(SCRATCH, model=name, **more), classes, shape), key)


def batch(shape, n: int = 3) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(1))


def same_weights(one: nn.Module, two: nn.Module) -> bool:
    ours, theirs = one.state_dict(), two.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


class Net(nn.Module):
    """Batch norm, dropout and a linear head; what follows the head can be chosen."""

    def __init__(self, outputs: int = 4, after=lambda logits: logits):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.middle = nn.Linear(24, 10)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(10, outputs)
        self.after = after

    def forward(self, x):
        return self.after(self.fc(self.dropout(torch.relu(self.middle(self.body(x))))))


# Models of ours


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
def test_models_of_ours_take_any_shape_of_their_kind(name, shape, size):
    model = made(name, shape, classes=5)
    assert model.head.in_features == size
    x = batch(shape)
    assert model.features(x).shape == (3, size)
    assert model(x).shape == (3, 5)


def test_models_of_ours_are_what_the_data_sets_build():
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


def test_checking_a_shape_draws_no_random_numbers():
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
def test_the_head_of_torchvision_s_networks_is_found(name, size):
    model = made(name, classes=3)
    assert model.head.in_features == size
    assert model.head.out_features == 3
    model.eval()
    x = batch(SMALL).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        assert torch.equal(model.head(model.features(x)), model(x))
        assert model.features(x).shape == (3, size)


def test_the_features_are_the_network_s_own():
    from torchvision.models import get_model

    model = made("resnet18")
    plain = build(lambda: get_model("resnet18", weights=None), (0,))
    plain.fc = nn.Identity()
    x = batch(SMALL)
    with torch.no_grad():
        torch.testing.assert_close(model.eval().features(x), plain.eval()(x), rtol=1e-4, atol=1e-5)


def test_a_network_of_convolutions_lies_channels_last():
    weight = made("resnet18").features.conv1.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()


def test_auxiliary_heads_are_left_out():
    model = made("googlenet")
    assert model.train()(batch(SMALL)).shape == (3, 2)


def test_a_network_without_a_linear_layer_is_refused():
    with pytest.raises(InputError, match="SqueezeNet has no linear layer"):
        made("squeezenet1_1")


def test_an_image_of_another_size_than_the_network_s_is_said():
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


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache, and no network unless a test brings one."""
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def no_network(request):
        raise URLError("no route to host")

    monkeypatch.setattr(torch.hub, "urlopen", no_network)
    return tmp_path / "hub" / "checkpoints"


def test_weights_that_cannot_be_fetched_are_one_sentence(hub, capsys):
    with pytest.raises(DataError) as caught:
        made("shufflenet_v2_x0_5", weights="imagenet")
    said = str(caught.value)
    assert "ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1" in said
    assert "could not be fetched (no route to host)" in said
    assert f"{hub}/shufflenetv2_x0.5-f707e7126e.pth" in said
    assert "--set weights=none" in said
    assert "\n" not in said
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


def test_timm_weights_that_cannot_be_fetched_are_one_sentence(monkeypatch):
    timm = pytest.importorskip("timm")

    def no_network(*args, **more):
        raise URLError("no route to host")

    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_hf", no_network)
    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_url", no_network)
    with pytest.raises(DataError, match=r"timm/test_resnet.*\(no route to host\).*weights=none"):
        made("timm:test_resnet", weights="imagenet")


# A user's own function

MODULE = """
import torch
from torch import nn

def plain(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, classes))

def named(width=6, *, num_classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Linear(width, num_classes))

def fixed(width=6):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Linear(width, 10))

def lazy():
    import beside
    return beside.network()

def broken(classes):
    raise RuntimeError("no idea\\nsecond line")

def none():
    return None

number = 3
"""
TINY = (3, 2, 2)


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    package = tmp_path / "mynets_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(MODULE)
    (package / "bad.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "beside.py").write_text(
        "from torch import nn\ndef network():\n    return nn.Linear(7, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield "mynets_of_a_test.nets"
    assert sys.path == before
    for name in [name for name in sys.modules if name.startswith(("mynets_of", "beside"))]:
        del sys.modules[name]


@pytest.mark.parametrize("function", ["plain", "named", "fixed"])
def test_a_function_of_the_user_s_is_found_from_the_current_folder(user_folder, function):
    model = made(f"{user_folder}:{function}", TINY, classes=3)
    assert model.head.in_features == 6
    assert model(batch(TINY)).shape == (3, 3)


def test_a_user_s_head_of_the_right_size_is_kept(user_folder):
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
def test_functions_that_are_not_there(user_folder, name, says):
    with pytest.raises(InputError, match=says.format(nets=user_folder)):
        builder(ModelChoice(name.format(nets=user_folder)), 2, TINY)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("broken", ":broken': the function raised RuntimeError: no idea.$"),
        ("none", ":none': the function returned a NoneType, not an nn.Module.$"),
    ],
)
def test_functions_that_do_not_give_a_network(user_folder, function, says):
    with pytest.raises(InputError, match=says):
        made(f"{user_folder}:{function}", TINY)


# The head of any network


def test_the_head_may_be_named():
    model = as_classifier(Net(), 4, SMALL, head="fc")
    assert model.head.in_features == 10
    with pytest.raises(
        InputError, match="unknown linear layer of Net 'midle': did you mean 'middle'"
    ):
        as_classifier(Net(), 4, SMALL, head="midle")
    with pytest.raises(InputError, match="unknown linear layer of lenet5 'fc': known: head"):
        builder(ModelChoice("lenet5", head="fc"), 2, (3, 32, 32))


def test_a_fresh_head_or_the_one_that_is_there():
    fc = Net().fc
    for fresh, classes, kept in ((False, 4, True), (True, 4, False), (False, 3, False)):
        network = Net()
        network.fc = fc
        head = as_classifier(network, classes, SMALL, fresh_head=fresh).head
        assert (head is fc) == kept
        assert head.out_features == classes


def test_looking_for_the_head_changes_nothing():
    network = Net()
    network.body[1].eval()  # as one does to keep the statistics of batch norm
    before = copy.deepcopy(network.state_dict())
    random = torch.get_rng_state()
    model = as_classifier(network, 4, SMALL, fresh_head=False)
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in model.features.state_dict().items())
    assert [m.training for m in (network, network.body, network.body[1], network.dropout)] == [
        True, True, False, True,
    ]  # fmt: skip
    assert not any(m._forward_hooks for m in model.modules())


def test_a_head_that_stands_under_two_names_is_taken_out_of_both():
    network = Net()
    network.alias = network.fc
    model = as_classifier(network, 4, SMALL)
    assert [k for k in model.features.state_dict() if k.startswith(("fc", "alias"))] == []


@pytest.mark.parametrize("head", ["", "fc"])
@pytest.mark.parametrize(
    "after", [lambda z: z.log_softmax(1), lambda z: z.relu_(), lambda z: 2 * z]
)
def test_a_network_that_goes_on_after_its_head_is_refused_and_left_whole(after, head):
    network = build(lambda: Net(after=after), (0,))
    fc = network.fc
    with pytest.raises(InputError, match=r"own output \(the loss takes the softmax\)"):
        as_classifier(network, 4, SMALL, head=head)
    assert network.fc is fc


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (lambda z: {"logits": z}, "Net returns a dict"),
        (lambda z: (z, z), "Net returns a tuple"),
        (lambda z: z[:, 100], "cannot take inputs of shape"),
    ],
)
def test_networks_that_return_something_else(after, says):
    with pytest.raises(InputError, match=says):
        as_classifier(Net(after=after), 4, SMALL)


def test_features_that_are_not_flat_are_refused():
    class Tokens(nn.Sequential):
        def forward(self, x):
            return super().forward(x.flatten(2))

    with pytest.raises(InputError, match=r"gives the shape \(2, 3, 16\), where \(examples, 16\)"):
        as_classifier(Tokens(nn.Linear(4096, 16), nn.ReLU(), nn.Linear(16, 4)), 4, SMALL)


def test_a_network_with_auxiliary_outputs_is_refused():
    network = Net()
    network.aux_logits = True
    with pytest.raises(InputError, match="aux_logits=False"):
        as_classifier(network, 4, SMALL)


def test_a_network_that_needs_the_usual_layout_keeps_it():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.fc = nn.Linear(4 * 6 * 6, 2)

        def forward(self, x):
            return self.fc(self.conv(x).view(-1, 4 * 6 * 6))

    plain = Viewing()
    x = batch((3, 8, 8))
    wanted = plain(x)
    model = as_classifier(plain, 2, (3, 8, 8), fresh_head=False)
    given = model(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(given, wanted)
    assert model.features.conv.weight.is_contiguous()


# The same key is the same weights


@pytest.mark.parametrize(("name", "shape"), [("mlp", (7,)), ("mobilenet_v3_small", SMALL)])
def test_the_key_decides_the_initial_weights(name, shape):
    torch.manual_seed(1)
    one = made(name, shape, key=(3, 1))
    random = torch.get_rng_state()
    assert same_weights(one, made(name, shape, key=(3, 1)))
    assert torch.equal(random, torch.get_rng_state())
    assert not torch.equal(one.head.weight, made(name, shape, key=(3, 2)).head.weight)


def test_a_fresh_head_starts_as_pytorch_s_does():
    head = made("resnet18").head
    bound = 1 / math.sqrt(512)
    assert 0.9 * bound < head.weight.abs().max() <= bound


# Weights from a file


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


def test_weights_from_a_file_into_a_model_of_ours(tmp_path):
    stored = made("small_cnn", (3, 8, 8), key=(5,))
    file = saved(stored.state_dict(), tmp_path / "weights.pt")
    assert same_weights(made("small_cnn", (3, 8, 8), weights=file), stored)
    other = made("small_cnn", (3, 8, 8), classes=4, weights=file)
    assert same_weights(other.features, stored.features)
    assert other.head.out_features == 4


@pytest.mark.parametrize("name", ["small_cnn", "{nets}:plain"])
def test_a_run_folder_s_weights_can_be_started_from(tmp_path, user_folder, name):
    name, shape = name.format(nets=user_folder), (3, 4, 4) if name == "small_cnn" else TINY
    stored = made(name, shape, key=(5,))
    tensors = {f"selected/{k}": v for k, v in stored.state_dict().items()}
    tensors |= {f"last/{k}": torch.zeros_like(v) for k, v in stored.state_dict().items()}
    write_tensors(tmp_path / "weights.safetensors", tensors, {})
    assert same_weights(made(name, shape, weights=str(tmp_path / "weights.safetensors")), stored)


def test_weights_that_do_not_fit_name_the_first_few(tmp_path):
    state = dict(made("lenet5", (3, 32, 32)).state_dict())
    state["extra"] = torch.zeros(1)
    file = saved(state, tmp_path / "weights.safetensors")
    with pytest.raises(DataError) as caught:
        made("small_cnn", (3, 8, 8), weights=file)
    said = str(caught.value)
    assert said.startswith(f"{file} does not fit Classifier (")
    assert "unknown: " in said
    assert "of another shape: features.0.bias, features.0.weight" in said
    assert " more" in said


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


def test_a_pickle_in_torchvision_s_cache_is_refused_without_running_it(hub, tmp_path):
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
    whole = (tmp_path / name).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not weights"):
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
