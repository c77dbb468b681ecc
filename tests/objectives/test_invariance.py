"""PGI's penalty: a mean over all classes whose gradient reaches the features alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.models import Classifier
from spare.objectives.invariance import GroupInvariance


def network(classes=3):
    torch.manual_seed(0)
    return Classifier(torch.nn.Linear(4, 5), torch.nn.Linear(5, classes))


def batch(n=24, classes=3):
    torch.manual_seed(1)
    return torch.randn(n, 4), torch.arange(n) % classes, torch.arange(n) // classes % 2 == 0


def divergence(model, x, y, minority, label):
    probabilities = model(x).softmax(1)
    q1, q0 = (probabilities[(y == label) & rows].mean(0) for rows in (minority, ~minority))
    return (q1 * (q1 / q0).log()).sum()


def test_the_penalty_is_the_mean_over_all_classes():
    model, (x, y, minority) = network(), batch()
    penalty = GroupInvariance.penalty(model.head, model.features(x), y, minority)
    expected = sum(divergence(model, x, y, minority, label) for label in range(3)) / 3
    assert penalty.item() == pytest.approx(expected.item(), rel=1e-5)
    assert penalty > 0


def test_a_class_without_a_minority_has_no_term():
    model, (x, y, minority) = network(), batch()
    minority = minority & (y != 1)
    penalty = GroupInvariance.penalty(model.head, model.features(x), y, minority)
    expected = sum(divergence(model, x, y, minority, label) for label in (0, 2)) / 3
    assert penalty.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_penalty_reaches_only_the_features():
    model, (x, y, minority) = network(), batch()
    GroupInvariance.penalty(model.head, model.features(x), y, minority).backward()
    assert model.head.weight.grad is None
    assert model.head.bias.grad is None
    assert model.features.weight.grad.abs().max() > 0


def test_its_weight_grows_from_0():
    model, (x, y, minority) = network(), batch()
    objective = GroupInvariance(minority.numpy(), weight=4.0, grow_steps=2)
    rows = np.arange(24)
    plain = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
    halves = (plain[minority].mean() + plain[~minority].mean()) / 2
    penalty = GroupInvariance.penalty(model.head, model.features(x), y, minority)
    for grown in (0, 0.5, 1, 1):
        expected = halves + 4 * grown * penalty
        assert objective(model, x, y, rows).item() == pytest.approx(expected.item(), rel=1e-5)
