"""Data as the theory has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.errors import InputError
from spare.theory.mixtures import Mixture, check_features, orthogonal_features, sampled


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_groups_have_their_sizes_and_inputs_are_sums():
    mixture = Mixture(d=60, n=2000, core=2.0, spurious=3.0, correlation=0.9, alone=0.5)
    examples = sampled(mixture, generator())
    assert np.bincount(examples.spurious_of[:1000]).tolist() == [900, 50, 50]
    assert np.bincount(examples.spurious_of[1000:]).tolist() == [50, 900, 50]
    assert examples.excess(0) == pytest.approx(850 / 2000)
    assert examples.excess(2) == 0
    core = examples.core[(examples.y < 0).long()]
    spurious = examples.spurious[torch.from_numpy(examples.spurious_of)]
    assert torch.allclose(examples.x, core + spurious + examples.noise)
    assert (examples.x**2).sum(1).mean().item() == pytest.approx(60, rel=0.03)


def test_noise_along_a_feature_is_as_wanted():
    mixture = Mixture(d=40, n=8000, core=2.0, spurious=2.0, core_noise=1.5, spurious_noise=0.1)
    examples = sampled(mixture, generator())
    along = examples.noise @ (examples.core[0] / examples.core[0].norm())
    assert along.std().item() == pytest.approx(1.5, rel=0.05)
    along = examples.noise @ (examples.spurious[1] / examples.spurious[1].norm())
    assert along.std().item() == pytest.approx(0.1, rel=0.05)


def test_features_are_at_right_angles():
    features = orthogonal_features([1.0, 2.0, 3.0, 4.0], 9, generator())
    assert torch.allclose(features @ features.T, torch.diag(torch.tensor([1.0, 4, 9, 16]).double()))
    check_features(features, 9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f[:3], r"^features are four vectors of d=9 numbers .*\(3, 9\)\.$"),
        (lambda f: f * torch.tensor([[1.0], [0], [1], [1]]), r"^a feature is zero or not finite"),
        (lambda f: f + 0.5 * f[0], r"^features \d and \d are not orthogonal \(their cosine is"),
    ],
)
def test_features_that_the_theory_says_nothing_about_are_refused(change, said):
    features = orthogonal_features([1.0] * 4, 9, generator())
    with pytest.raises(InputError, match=said):
        check_features(change(features), 9)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"correlation": 1.2}, r"^correlation is from 0 to 1, not 1\.2\.$"),
        ({"correlation": -0.1}, r"^correlation is from 0 to 1, not -0\.1\.$"),
        ({"core": 0.0}, r"^core is above 0 .*, not 0\.0\.$"),
        ({"d": 50, "spurious": 8.0}, r"^features of norms 4 and 8 leave no room for noise in 50 "),
    ],
)
def test_mixtures_that_cannot_be_are_one_sentence(settings, said):
    with pytest.raises(InputError, match=said):
        Mixture(**settings)
