"""Where a network looks: the right part of the picture, at a layer that is found automatically."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn

from spare.errors import InputError
from spare.models import Classifier, ModelChoice, builder
from spare.models.saliency import Grid, layer_and_grid, saliency


class Corner(nn.Module):
    """Sums what is bright: class 1 is a bright picture, and the bright place decides."""

    def __init__(self, layout="maps"):
        super().__init__()
        self.blur = nn.Conv2d(1, 1, 4, stride=4, bias=False)
        nn.init.constant_(self.blur.weight, 1 / 16)
        self.last = nn.Identity()
        self.layout = layout

    def forward(self, x):
        maps = self.blur(x)
        if self.layout == "last":
            return self.last(maps.permute(0, 2, 3, 1)).mean((1, 2))
        if self.layout == "tokens":
            patches = maps.flatten(2).transpose(1, 2)
            return self.last(torch.cat([torch.zeros_like(patches[:, :2]), patches], 1)).mean(1)
        return self.last(maps).mean((2, 3))


def looks(layout):
    head = nn.Linear(1, 2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        head.bias.zero_()
    return Classifier(Corner(layout), head)


def bright(row, column, side=16):
    x = torch.zeros(1, 1, side, side)
    x[0, 0, row : row + 4, column : column + 4] = 1
    return x


@pytest.mark.parametrize("layout", ["maps", "last", "tokens"])
@pytest.mark.parametrize(("row", "column"), [(0, 12), (8, 4)])
def test_the_map_is_where_the_decision_comes_from(layout, row, column):
    map_ = saliency(looks(layout), bright(row, column))[0]
    assert map_.shape == (16, 16)
    assert map_.max() == 1
    inside = map_[row : row + 4, column : column + 4].sum()
    assert inside / map_.sum() > 0.3
    assert map_[15 - row, 15 - column] == 0


def test_the_layer_is_looked_for_where_the_network_is():
    network, x = looks("maps"), torch.rand(2, 1, 16, 16)
    with torch.device("meta"):  # what does not follow the network ends up there, and fails
        assert layer_and_grid(network, x) == ("features.last", Grid(4, 4, "maps"))


def test_modes_are_as_before_afterwards():
    network = looks("maps")
    network.head.eval()
    saliency(network, torch.rand(2, 1, 16, 16))
    assert [m.training for m in (network, network.features, network.head)] == [True, True, False]


def test_what_speaks_against_the_class_is_zero_and_without_evidence_all_is_zero():
    network = looks("maps")
    x = bright(0, 0)
    assert saliency(network, x, targets=torch.tensor([0])).sum() == 0
    assert saliency(network, x, targets=torch.tensor([1])).max() == 1
    assert torch.isfinite(saliency(network, torch.zeros_like(x))).all()


def vit():
    made = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=16,
        num_classes=3,
    )  # fmt: skip
    nn.init.normal_(made.heads.head.weight)  # which starts at 0
    return made


def swin():
    return torchvision.models.SwinTransformer([4, 4], 8, [1, 1], [1, 2], [4, 4], num_classes=3)


def registers():
    import timm

    return timm.models.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, reg_tokens=4, num_classes=3
    )


@pytest.mark.parametrize(
    ("make", "layer", "grid"),
    [
        (torchvision.models.resnet18, "layer4", Grid(2, 2, "maps")),
        (vit, "encoder.layers.encoder_layer_1.ln_1", Grid(4, 4, "tokens", 1)),
        (swin, "permute", Grid(4, 4, "maps")),
        (registers, "blocks.1.norm1", Grid(4, 4, "tokens", 5)),
    ],
)
def test_the_layer_is_found(make, layer, grid):
    torch.manual_seed(0)
    network = make()
    size = 64 if make is torchvision.models.resnet18 else 32
    x = torch.randn(2, 3, size, size)
    before = network.eval()(x)
    network.train()
    assert layer_and_grid(network, x[:1]) == (layer, grid)
    maps = saliency(network, x)
    assert maps.shape == (2, size, size)
    assert network.training
    assert torch.equal(network.eval()(x), before)  # it is as it was
    assert layer in dict(network.named_modules())


@pytest.mark.parametrize("name", ["lenet5", "small_cnn", "conv4"])
def test_our_own_networks_and_pictures_that_are_not_square(name):
    torch.manual_seed(0)
    network = builder(ModelChoice(name), 3, (3, 48, 32))()
    _, grid = layer_and_grid(network, torch.rand(1, 3, 48, 32))
    assert grid.layout == "maps"
    assert grid.rows > grid.columns
    x = torch.rand(4, 3, 48, 32)
    maps = [saliency(network, x, targets=torch.full((4,), target)) for target in range(3)]
    assert maps[0].shape == (4, 48, 32)
    assert max(map_.max() for map_ in maps) == 1  # something speaks for some class


def test_transformer_maps_are_found_and_in_place_layers_do_no_harm():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Corner()
            self.inner.last = nn.Sequential(nn.BatchNorm2d(1), nn.ReLU(inplace=True))

        def forward(self, x):
            return self.inner(x)

    network = Classifier(InPlace(), looks("maps").head)
    assert saliency(network, bright(4, 4), layer="features.inner.last.0")[0, 5, 5] > 0


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("features.lats", "unknown layer of Corner 'features.lats': did you mean 'features.last'"),
        ("head", "layer 'head' of Corner gives no maps"),
    ],
)
def test_a_layer_can_be_named_and_a_wrong_one_is_refused_in_one_sentence(layer, says):
    assert saliency(looks("maps"), bright(0, 0), layer="features.blur").max() == 1
    with pytest.raises(InputError, match=says):
        saliency(looks("maps"), bright(0, 0), layer=layer)


def test_networks_without_maps_say_so():
    flat = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), nn.Linear(4, 2))
    with pytest.raises(InputError, match="no layer that gives maps of the picture"):
        saliency(flat, torch.rand(1, 3, 4, 4))
    with pytest.raises(InputError, match="needs pictures"):
        saliency(flat, torch.rand(1, 48))
