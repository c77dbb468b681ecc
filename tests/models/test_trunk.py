"""Cutting a network at a layer: where it can be, and that the rest gives what the whole gives."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from spare.errors import InputError
from spare.models import ModelChoice, as_classifier, build, builder
from spare.models.trunk import find_cut, rest_of, trunk_output

SHAPE = (3, 32, 32)


def classifier(name, classes=3):
    choice = ModelChoice(name, weights="none")
    return build(builder(choice, classes, SHAPE), (0,)).eval()


def same(model, cut):
    """Whether trunk and rest give what the whole model gives."""
    x = torch.randn(4, *cut.shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        kept = trunk_output(model, cut, x)
        found, expected = rest_of(model, cut).eval()(kept), model(x)
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("resnet18", "layer3"),
        ("resnet18", "layer4.1"),
        ("mobilenet_v3_small", "features.7"),
        ("timm:efficientnet_lite0", "blocks.4"),
        ("timm:vit_tiny_patch16_224", "blocks.6"),
        ("small_cnn", "0.3"),
    ],
)
def test_the_rest_gives_what_the_whole_network_gives(name, layer):
    shape = (3, 224, 224) if "vit" in name else SHAPE
    model = build(builder(ModelChoice(name, weights="none"), 3, shape), (0,)).eval()
    if name == "small_cnn":
        layer = [path for path, _ in model.features.named_modules() if path][3]
    cut = find_cut(model, shape, layer)
    assert cut.layer == layer
    assert same(model, cut)
    before = {name for name, _ in model.named_parameters()}
    after = {name for name, _ in rest_of(model, cut).named_parameters()}
    assert after < before


def test_a_share_is_the_first_layer_with_so_many_parameters_before_it():
    model = classifier("resnet18")
    sizes = {
        path: sum(weight.numel() for weight in getattr(model.features, path).parameters())
        for path in ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")
    }
    before_4 = 1 - sizes["layer4"] / sum(sizes.values())
    assert find_cut(model, SHAPE, f"{before_4 - 0.001:.4f}").layer == "layer4"
    cut = find_cut(model, SHAPE, "0.1")
    assert cut.layer == "layer3.1"  # within a block, a cut would miss what goes around it
    assert 0.1 <= cut.share < before_4
    assert same(model, cut)


def test_what_goes_around_a_layer_is_noticed():
    model = classifier("resnet18")
    with pytest.raises(InputError, match=r"cannot be cut at 'layer2\.0\.conv2'"):
        find_cut(model, SHAPE, "layer2.0.conv2")


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("layer5", "unknown layer of ResNet 'layer5': did you mean 'layer4'"),
        ("0.0", "above 0 and below 1"),
        ("1", "above 0 and below 1"),
        ("0.9999", "cannot be cut after 99.99 %"),
        ("conv1", "cannot be cut at 'conv1'"),  # nothing is before it
    ],
)
def test_what_is_no_layer_and_no_share_is_one_sentence(until, said):
    with pytest.raises(InputError, match=said):
        find_cut(classifier("resnet18"), SHAPE, until)


def test_a_share_that_leaves_nothing_to_train_is_one_sentence():
    model = as_classifier(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)), 2, (4,))
    with pytest.raises(InputError, match="cannot be cut after 90 % of its parameters"):
        find_cut(model, (4,), "0.9")


def test_a_copy_of_the_rest_is_a_network_of_its_own():
    """As a moving average of the weights is."""
    model = classifier("resnet18")
    rest = rest_of(model, find_cut(model, SHAPE, "layer4")).eval()
    other = copy.deepcopy(rest)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.5)
    first, second = torch.rand(2, 256, 2, 2), torch.rand(3, 256, 2, 2)
    alone = rest(first), other(second)
    both = [rest(first), other(second), rest(first)]
    assert torch.equal(both[0], alone[0])
    assert torch.equal(both[1], alone[1])
    assert torch.equal(both[2], alone[0])


def test_frozen_batch_normalization_keeps_its_statistics_and_the_rest_trains():
    model = classifier("resnet18")
    rest = rest_of(model, find_cut(model, SHAPE, "layer4")).train()
    before = {name: value.clone() for name, value in rest.state_dict().items()}
    optimizer = torch.optim.SGD(rest.parameters(), lr=0.1, weight_decay=0.1)
    rest(torch.rand(4, 256, 2, 2)).logsumexp(1).sum().backward()
    optimizer.step()
    changed = {name for name, value in rest.state_dict().items() if not value.equal(before[name])}
    assert changed == {name for name in before if ".layer4." in name or name.startswith("head.")}


def test_a_layer_may_take_more_than_one_tensor_and_code_may_work_in_place():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x, *, rate):
            return x + rate * self.linear(x)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Linear(4, 6)
            self.blocks = nn.ModuleList(Block() for _ in range(3))
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            x = self.stem(x)
            x.mul_(2)
            for number, block in enumerate(self.blocks):
                x = block(x, rate=number + 1)
            return self.head(x)

    model = as_classifier(Network(), 2, (4,)).eval()
    cut = find_cut(model, (4,), "blocks.1")
    assert cut.whole  # placeholders that can be written to
    assert same(model, cut)
