"""The network of the theory: its gradient, its symmetry, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch

from spare.errors import InputError
from spare.theory import network as module
from spare.theory.constants import ACTIVATIONS
from spare.theory.linear_model import fitted, largest_eigenvalue, transformed
from spare.theory.network import TwoLayers, check_memory, check_step, check_width, symmetric


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(n: int = 30, d: int = 6, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, d, generator=generator(seed), dtype=torch.float64)
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0).double()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_step_follows_the_gradient_of_the_loss(activation, monkeypatch):
    monkeypatch.setattr(module, "PORTION", 7 * 10)  # several portions
    x, y = data()
    net = symmetric(activation, 10, 6, generator(), torch.float64)
    net.step(x, y, 0.3)  # away from the start, where outputs are 0
    hidden, head = net.hidden.clone().requires_grad_(), net.head.clone().requires_grad_()
    outputs = net.activation.value(x @ hidden.T / math.sqrt(6)) @ head / math.sqrt(10)
    loss = ((outputs - y) ** 2).mean() / 2
    loss.backward()
    before = net.step(x, y, 0.1)
    assert torch.allclose(before, outputs.detach())
    assert torch.allclose(net.hidden, (hidden - 0.1 * hidden.grad).detach())
    assert torch.allclose(net.head, (head - 0.1 * head.grad).detach())


def test_outputs_begin_at_zero_and_halves_mirror_each_other():
    net = symmetric("softplus", 12, 5, generator(), torch.float64)
    x, _ = data(d=5)
    assert net(x).abs().max() < 1e-14
    assert torch.equal(net.hidden[:6], net.hidden[6:])
    assert torch.equal(net.head[:6], -net.head[6:])


def test_several_networks_at_once_are_each_as_if_alone():
    nets = [symmetric("tanh", 8, 6, generator(seed), torch.float64) for seed in (3, 4)]
    pairs = [data(seed=seed) for seed in (5, 6)]
    both = TwoLayers(
        nets[0].activation,
        torch.stack([net.hidden for net in nets]),
        torch.stack([net.head for net in nets]),
    )
    x, y = (torch.stack(each) for each in zip(*pairs, strict=True))
    for _ in range(3):
        both.step(x, y, 0.5)
        for net, pair in zip(nets, pairs, strict=True):
            net.step(*pair, 0.5)
    outputs = both(x)
    for number, net in enumerate(nets):
        assert torch.allclose(outputs[number], net(pairs[number][0]))


def test_the_linear_model_at_any_step_is_gradient_descent():
    x, y = data(40, 5)
    psi = transformed(x, "softplus")
    weights = torch.zeros(psi.shape[1], dtype=torch.float64)
    model = fitted(x, y, "softplus", 0.7)
    for step in range(1, 8):
        weights = weights - 0.7 / len(y) * psi.T @ (psi @ weights - y)
        assert torch.allclose(model.weights(step), weights)
        assert torch.allclose(model(x, step), psi @ weights)


def test_psi_is_as_the_paper_has_it():
    x, _ = data(200, 8)
    psi = transformed(x, "relu")
    covariance = torch.cov(x.T, correction=0)
    constant = 1 / math.sqrt(2 * math.pi)
    assert torch.allclose(psi[:, :8], math.sqrt(2 / 8) * 0.5 * x)
    nu = constant * torch.sqrt((covariance**2).sum() / 8)
    assert torch.allclose(psi[:, 8], (math.sqrt(3 / 16) * nu).expand(200))
    assert torch.allclose(psi[:, 9], constant * x.norm(dim=1) / math.sqrt(8))


def test_the_largest_eigenvalue_is_found():
    psi = torch.randn(50, 7, generator=generator(), dtype=torch.float64)
    expected = torch.linalg.eigvalsh(psi.T @ psi / 50)[-1].item()
    assert largest_eigenvalue(psi) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_training_is_stable_up_to_the_step_size_that_is_refused(activation):
    x, y = data(400, 40)
    most = check_step(x, activation, 0.1)
    with pytest.raises(InputError, match=r"^a step size \(lr\) of .* is beyond stability: .*\.$"):
        check_step(x, activation, 1.05 * most)

    def losses(lr: float) -> list[float]:
        net = symmetric(activation, 200, 40, generator(), torch.float64)
        return [float(((net.step(x, y, lr) - y) ** 2).mean()) for _ in range(60)]

    assert losses(0.8 * most)[-1] < 1
    assert max(losses(2 * most)) > 10


def test_an_odd_width_is_refused():
    with pytest.raises(InputError, match=r"^the width is an even number .*, not 7\.$"):
        check_width(7)


def test_what_does_not_fit_in_memory_is_said_with_its_size():
    with pytest.raises(InputError, match=r"need 40,0\d\d\.\d GB, and half of this machine's"):
        check_memory(10**6, 10**6, 10**3)
