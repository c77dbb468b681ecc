"""The constants of the theory, against integrals by another library."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import quad

from spare.errors import InputError
from spare.theory.constants import ACTIVATIONS, NAMES, activation_named, by_quadrature, constants_of


def integral(function) -> float:
    """E function(g) for a normal g; a kink can only be at 0."""

    def integrand(g: float) -> float:
        return function(g) * math.exp(-g * g / 2) / math.sqrt(2 * math.pi)

    return sum(quad(integrand, *part, epsabs=1e-12)[0] for part in ((-14, 0), (0, 14)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_constants_agree_with_an_independent_integral(name):
    activation = activation_named(name)

    def value(g):
        return activation.value(torch.tensor(g, dtype=torch.float64)).item()

    def slope(g):
        return activation.slope(torch.tensor(g, dtype=torch.float64)).item()

    expected = {
        "zeta": integral(slope),
        "theta_0": integral(value),
        "theta_1": integral(lambda g: g * slope(g)),
        "theta_2": integral(lambda g: (g**3 / 2 - g) * slope(g)),
    }
    used, integrated = constants_of(name), by_quadrature(name)
    for each in NAMES:
        assert getattr(used, each) == pytest.approx(expected[each], abs=1e-8)
        assert integrated[each] == pytest.approx(expected[each], abs=1e-8)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_are_derivatives(name):
    activation = activation_named(name)
    x = torch.linspace(-3, 3, 41, dtype=torch.float64) + 0.01
    x.requires_grad_()
    activation.value(x).sum().backward()
    assert torch.allclose(x.grad, activation.slope(x.detach()))


def test_nu_is_theta_1_for_white_data():
    assert constants_of("relu").nu(covariance_squares=50.0, d=50) == pytest.approx(
        1 / math.sqrt(2 * math.pi)
    )


def test_an_unknown_activation_is_one_sentence():
    with pytest.raises(InputError, match=r"^unknown activation 'relo': did you mean 'relu'\?$"):
        activation_named("relo")
