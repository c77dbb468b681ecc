"""EIIL's split is the sign rule, and on two classes the set of mistakes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from spare.errors import InputError
from spare.groups.environments import environments, scale_gradients
from spare.groups.mistakes import mistakes


def logits_and_labels(classes, n=1500, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return rng.normal(size=(n, classes)) * 2 + np.eye(classes)[labels], labels


@pytest.mark.parametrize("classes", [2, 5])
def test_optimizing_ends_at_the_sign_rule(classes):
    logits, labels = logits_and_labels(classes)
    optimized = environments(logits, labels, steps=10_000, lr=1e-3, seed=3)
    assert (optimized == (scale_gradients(logits, labels) > 0)).all()
    assert (environments(logits, labels, steps=0) == optimized).all()


def test_the_gradient_is_that_of_the_loss_in_the_scale():
    logits, labels = logits_and_labels(4, n=20)
    z, scale = torch.tensor(logits), torch.ones(20, dtype=torch.float64, requires_grad=True)
    losses = torch.nn.functional.cross_entropy(scale[:, None] * z, torch.tensor(labels))
    (expected,) = torch.autograd.grad(losses * 20, scale)
    assert scale_gradients(logits, labels) == pytest.approx(expected.numpy())


def test_on_two_classes_it_is_the_set_of_mistakes():
    logits, labels = logits_and_labels(2)
    assert (environments(logits, labels, steps=0) == mistakes(logits, labels)).all()


def test_on_more_classes_it_is_among_the_mistakes():
    logits, labels = logits_and_labels(5)
    split, wrong = environments(logits, labels, steps=0) == 1, mistakes(logits, labels)
    assert (wrong | ~split).all()
    assert split.sum() < wrong.sum()


def test_the_same_seed_gives_the_same_environments():
    logits, labels = logits_and_labels(3, n=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (environments(logits, labels, steps=50, seed=1) for _ in range(2))
    assert (first == second).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(InputError, match="3 examples but 2 labels"):
        environments(np.zeros((3, 2)), [0, 1])
