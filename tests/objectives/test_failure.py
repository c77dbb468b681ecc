"""LfF's loss: the weight of an example, by hand, and which network each term trains."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spare.objectives.failure import LearningFromFailure


class Constant(torch.nn.Module):
    """A network whose outputs are these logits for any input; they can be trained."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, x):
        return self.logits[: len(x)]


def losses(logits, labels):
    return torch.nn.functional.cross_entropy(
        torch.tensor(logits), torch.tensor(labels), reduction="none"
    ).numpy()


def remembered(objective, b, d, rows):
    objective.remember(torch.tensor([b, d]), torch.tensor(rows))
    return objective.averages.numpy()


def test_the_first_visit_sets_the_average_and_later_ones_move_it():
    objective = LearningFromFailure(torch.nn.Linear(1, 2), [0, 0, 1], decay=0.7)
    first = remembered(objective, [2.0, 4.0], [1.0, 3.0], [0, 2]).copy()
    assert first == pytest.approx(np.array([[2, 0, 4], [1, 0, 3]]))
    second = remembered(objective, [1.0, 5.0], [2.0, 6.0], [0, 1])
    assert second == pytest.approx(np.array([[1.7, 5, 4], [1.3, 6, 3]]))


def test_averages_are_divided_by_the_largest_of_all_examples_of_the_class():
    objective = LearningFromFailure(torch.nn.Linear(1, 2), [0, 1, 0, 1, 1])
    remembered(objective, [1.0, 6.0, 4.0, 3.0], [2.0, 1.0, 1.0, 5.0], [0, 1, 2, 3])
    # Example 0 alone is in the batch; the largest of its class are example 2's b and its own d.
    b, d = 1 / 4, 2 / 2
    assert objective.weights(torch.tensor([0])).item() == pytest.approx(b / (b + d))
    b, d = 3 / 6, 5 / 5
    assert objective.weights(torch.tensor([3])).item() == pytest.approx(b / (b + d))


def test_the_largest_is_of_the_current_averages_and_not_of_earlier_ones():
    objective = LearningFromFailure(torch.nn.Linear(1, 2), [0, 0], decay=0.0)
    remembered(objective, [9.0, 1.0], [1.0, 1.0], [0, 1])
    remembered(objective, [2.0], [1.0], [0])
    b, d = 1 / 2, 1
    assert objective.weights(torch.tensor([1])).item() == pytest.approx(b / (b + d))


def test_examples_that_fit_exactly_are_no_division_by_zero():
    objective = LearningFromFailure(torch.nn.Linear(1, 2), [0, 1])
    remembered(objective, [0.0, 0.0], [0.0, 0.0], [0, 1])
    assert objective.weights(torch.tensor([0, 1])).tolist() == [0, 0]


def test_the_loss_by_hand():
    biased = [[2.0, 0.0], [1.0, 0.0], [0.0, 0.5]]
    debiased = [[0.0, 0.0], [0.5, 0.0], [0.0, 3.0]]
    labels = [0, 1, 1]
    objective = LearningFromFailure(Constant(biased), [1, 0, 1, 1], q=0.6)
    x, y = torch.zeros(3, 1), torch.tensor(labels)
    loss = objective(Constant(debiased), x, y, np.array([1, 2, 3])).item()
    l_b, l_d = losses(biased, labels), losses(debiased, labels)
    p = [math.exp(2) / (math.exp(2) + 1), 1 / (math.e + 1), math.exp(0.5) / (math.exp(0.5) + 1)]
    b = [1, 1, l_b[2] / l_b[1]]
    d = [1, 1, l_d[2] / l_d[1]]
    w = np.array(b) / (np.array(b) + d + 1e-8)
    expected = np.mean(0.6 * np.array(p) ** 0.6 * l_b) + np.mean(w * l_d)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_no_gradient_through_the_weights_or_from_one_network_to_the_other():
    rng = np.random.default_rng(0)
    biased, debiased = (Constant(rng.normal(size=(6, 3)).astype(np.float32).tolist()) for _ in "12")
    labels = np.array([0, 1, 2, 2, 1, 0])
    objective = LearningFromFailure(biased, labels, q=0.7)
    y = torch.tensor(labels)
    objective(debiased, torch.zeros(6, 1), y, np.arange(6)).backward()
    weights = objective.weights(torch.arange(6))
    assert not weights.requires_grad
    one_hot = torch.eye(3)[y]
    for network, factor in (
        (debiased, weights),
        (biased, 0.7 * biased.logits.detach().softmax(1)[torch.arange(6), y] ** 0.7),
    ):
        # The gradient of an example's cross-entropy, times its weight, a constant.
        expected = (network.logits.detach().softmax(1) - one_hot) * factor[:, None] / 6
        torch.testing.assert_close(network.logits.grad, expected)


def test_what_the_biased_network_finds_easy_counts_less():
    objective = LearningFromFailure(torch.nn.Linear(1, 2), [0] * 4)
    remembered(objective, [0.1, 0.5, 1.0, 3.0], [1.0] * 4, list(range(4)))
    before = objective.weights(torch.arange(4))
    assert (before.diff() > 0).all()
    for _ in range(5):
        remembered(objective, [0.05], [1.0], [2])
    assert objective.weights(torch.tensor([2])) < before[2] / 2


def test_the_state_is_all_that_is_remembered():
    original = LearningFromFailure(torch.nn.Linear(1, 2), [0, 1, 0])
    remembered(original, [2.0, 1.0], [1.0, 3.0], [0, 1])
    copy = LearningFromFailure(torch.nn.Linear(1, 2), [0, 1, 0])
    copy.load_state_dict(original.state_dict())
    for objective in (original, copy):
        remembered(objective, [1.0, 4.0], [2.0, 2.0], [0, 2])
    assert original.averages.equal(copy.averages)
    assert original.weights(torch.arange(3)).equal(copy.weights(torch.arange(3)))
