"""The moving average of the weights: the numbers of torch's own, without walking the modules."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from spare.training.average import MovingAverage


class Replacing(nn.Module):
    """Has a buffer that it replaces, one that is None at first, and a parameter of integers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("absent", None)
        self.fixed = nn.Parameter(torch.arange(3), requires_grad=False)

    def forward(self, x):
        self.seen = self.seen + len(x)
        return x


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), Replacing(), nn.Linear(8, 2))


def test_it_gives_the_bits_of_torchs_own_average():
    model = network()
    ours = MovingAverage(model, 0.9)
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD([w for w in model.parameters() if w.requires_grad], lr=0.1)
    for step in range(5):
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ours.update()
        theirs.update_parameters(model)
        expected = theirs.state_dict()
        expected["module.2.fixed"] = torch.arange(3)  # theirs rounds integers to others
        found = ours.state_dict()
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in found), step
    assert ours.module[2].seen == model[2].seen == 80
    assert not torch.equal(ours.module[0].weight, model[0].weight)


def test_an_average_of_a_model_without_weights_only_counts():
    average = MovingAverage(nn.Flatten(), 0.9)
    average.update()
    average.update()
    assert average.n_averaged == 2
