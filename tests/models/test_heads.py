"""The head of any network is found, or refused in one sentence."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from spare.errors import InputError
from spare.models import ModelChoice, as_classifier, build, builder
from spare.models.classifier import device_of
from tests.networks import SMALL, Net, batch


def test_the_head_may_be_named():
    model = as_classifier(Net(), 4, SMALL, head="fc")
    assert model.head.in_features == 10
    with pytest.raises(
        InputError, match="unknown linear layer of Net 'midle': did you mean 'middle'"
    ):
        as_classifier(Net(), 4, SMALL, head="midle")
    with pytest.raises(InputError, match="unknown linear layer of lenet5 'fc': known: head"):
        builder(ModelChoice("lenet5", head="fc"), 2, (3, 32, 32))


def test_the_head_is_fresh_or_kept():
    fc = Net().fc
    for fresh, classes, kept in ((False, 4, True), (True, 4, False), (False, 3, False)):
        network = Net()
        network.fc = fc
        head = as_classifier(network, classes, SMALL, fresh_head=fresh).head
        assert (head is fc) == kept
        assert head.out_features == classes


def test_finding_the_head_changes_nothing():
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


def test_everything_is_where_the_network_is():
    network = Net()
    with torch.device("meta"):  # what does not follow the network ends up there, and fails
        model = as_classifier(network, 4, SMALL)
    assert device_of(model) == device_of(network) == torch.device("cpu")
    assert device_of(nn.Identity()) == torch.device("cpu")


def test_a_head_with_two_names_is_removed_under_both():
    network = Net()
    network.alias = network.fc
    model = as_classifier(network, 4, SMALL)
    assert [k for k in model.features.state_dict() if k.startswith(("fc", "alias"))] == []


@pytest.mark.parametrize("head", ["", "fc"])
@pytest.mark.parametrize(
    "after", [lambda z: z.log_softmax(1), lambda z: z.relu_(), lambda z: 2 * z]
)
def test_a_network_that_does_more_after_its_head_is_refused_and_left_unchanged(after, head):
    network = build(lambda: Net(after=after), (0,))
    fc = network.fc
    with pytest.raises(InputError, match=r"return the output of .*the loss applies the softmax"):
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
def test_networks_that_return_no_tensor_are_refused(after, says):
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


def test_a_network_that_needs_the_contiguous_layout_keeps_it():
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
