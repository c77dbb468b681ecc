from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.models import build
from spare.objectives.twins import Twins, flip_probabilities
from tests.conftest import toy_task


class Says(torch.nn.Module):
    """A network that says the same of every example, and can be taught."""

    def __init__(self, *logits: float):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, x):
        return self.logits.expand(len(x), -1)


def step(objective, model, labels):
    loss = objective(model, torch.zeros(len(labels), 1), torch.tensor(labels), np.arange(4))
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_label_is_flipped_as_often_as_the_held_out_twin_is_sure_above_chance(classes):
    for surest in (1 / classes, 0.6, 0.9, 1.0):
        others = (1 - surest) / (classes - 1)
        probabilities = torch.tensor([[others] * (classes - 1) + [surest]])
        expected = (surest - 1 / classes) * classes / (classes - 1)
        assert flip_probabilities(probabilities.log()).item() == pytest.approx(expected, abs=1e-6)
    assert flip_probabilities(torch.zeros(1, classes)).item() == pytest.approx(0, abs=1e-6)


def test_labels_are_flipped_that_often_to_what_the_held_out_twin_says():
    count = 20_000
    objective = Twins(Says(0.0, 0.0), np.zeros(count, dtype=int), np.zeros(count, dtype=int))
    torch.manual_seed(0)
    logits = torch.tensor([0.2, 0.8]).log().expand(count, -1)
    objective.imitate(logits, torch.arange(count))
    assert objective.labels.float().mean().item() == pytest.approx(0.6, abs=0.02)
    # A flipped label is there to stay, and one can be flipped back.
    objective.imitate(torch.zeros(count, 2), torch.arange(count))
    assert objective.labels.float().mean().item() == pytest.approx(0.6, abs=0.02)
    objective.imitate(torch.tensor([99.0, 0.0]).expand(count, -1), torch.arange(count))
    assert not objective.labels.any()


@pytest.mark.parametrize("holder", [0, 1])
def test_a_twin_learns_what_it_holds_in_and_nothing_else(holder):
    model, second = Says(0.3, -0.3), Says(0.1, 0.0)
    objective = Twins(second, [0, 1, 0, 1], [holder] * 4)
    step(objective, model, [0, 1, 0, 1])
    taught, other = ((model, second), (second, model))[holder]
    assert taught.logits.grad.abs().sum() > 0
    assert other.logits.grad.abs().sum() == 0


def test_the_held_out_twin_decides_about_the_label_and_the_held_in_one_does_not():
    """Rows 0 and 1 are held in for the model, so the second twin, sure of 1, flips their labels."""
    objective = Twins(Says(0.0, 99.0), [0, 1, 0, 1], [0, 0, 1, 1])
    step(objective, Says(99.0, 0.0), [0, 1, 0, 1])
    assert objective.labels.tolist() == [1, 1, 0, 0]


def test_the_loss_is_that_of_the_labels_as_they_are_now_and_classes_have_the_same_mass():
    def loss(labels, now):
        objective = Twins(Says(0.0, 0.0), labels, [0] * 4)
        objective.labels[:] = torch.tensor(now)
        return step(objective, Says(1.0, 0.0), labels)

    of_0, of_1 = np.log(1 + np.exp(-1)), np.log(1 + np.exp(1))
    assert loss([0, 0, 0, 1], [0, 0, 0, 1]) == pytest.approx((of_0 + of_1) / 2)
    # The mass is that of the real class, whatever the label became.
    assert loss([0, 0, 0, 1], [0, 0, 0, 0]) == pytest.approx(of_0)
    assert loss([0, 0, 0, 1], [1, 0, 0, 0]) == pytest.approx((of_0 * 2 / 3 + of_1 / 3 + of_0) / 2)


def test_the_given_labels_are_not_changed_and_a_checkpoint_has_those_of_now():
    task = toy_task(n=20)
    labels = np.zeros(20, dtype=np.int64)
    objective = Twins(build(task.build_model, (1,)), labels, np.arange(20) % 2)
    objective.labels[:] = 1
    assert not labels.any()
    state = objective.state_dict()
    assert state["labels"].all()
    assert {name.partition(".")[0] for name in state} == {"second", "labels"}
