"""Group DRO's weights: on the simplex, each moved by its own group's loss alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.objectives.group_dro import GroupDro


def losses_and_groups(rng, groups, size=32):
    return torch.tensor(rng.exponential(size=size), dtype=torch.float32), torch.tensor(
        rng.choice(groups, size)
    )


def test_weights_stay_on_the_simplex():
    rng = np.random.default_rng(0)
    objective = GroupDro(np.arange(100) % 5, eta=0.5, adjustment=1.0)
    for _ in range(300):
        objective.weighted(*losses_and_groups(rng, [0, 1, 2, 4]))
        assert objective.q.sum().item() == pytest.approx(1, abs=1e-5)
        assert (objective.q >= 0).all()


def test_absent_groups_count_as_a_loss_of_0():
    objective = GroupDro([0] * 50 + [1] * 5 + [2] * 20 + [3], eta=0.3)
    objective.weighted(torch.tensor([1.0, 3.0]), torch.tensor([0, 0]))
    q = objective.q
    # Only group 0 was there: its weight grew, the three others kept their ratio.
    assert q[0] > 0.25
    assert q[1] == q[2] == q[3]


def test_an_absent_group_still_gains_by_its_adjustment():
    objective = GroupDro([0] * 4 + [1] * 16 + [2], eta=0.5, adjustment=2.0)
    losses = torch.tensor([1.0, 3.0], requires_grad=True)
    loss = objective.weighted(losses, torch.tensor([0, 0]))
    grown = np.exp(0.5 * np.array([2 + 2 / 2, 2 / 4, 2 / 1]))
    assert objective.q.numpy() == pytest.approx(grown / grown.sum(), rel=1e-5)
    # It moves the weights alone: the loss is of the group that is there.
    assert loss.item() == pytest.approx(float(objective.q[0]) * 2, rel=1e-5)


def test_one_step_by_hand():
    objective = GroupDro([0, 0, 1, 1], eta=0.1)
    losses = torch.tensor([1.0, 3.0, 5.0], requires_grad=True)
    loss = objective.weighted(losses, torch.tensor([0, 0, 1]))
    grown = np.array([0.5 * np.exp(0.2), 0.5 * np.exp(0.5)])
    q = grown / grown.sum()
    assert objective.q.numpy() == pytest.approx(q, rel=1e-5)
    assert loss.item() == pytest.approx(q @ [2, 5], rel=1e-5)
    loss.backward()
    # No gradient through q: each example has its share of its group's weight.
    assert losses.grad.numpy() == pytest.approx([q[0] / 2, q[0] / 2, q[1]], rel=1e-5)


def test_the_adjustment_lifts_small_groups_and_adds_no_loss():
    losses, groups = torch.tensor([1.0, 1.0]), torch.tensor([0, 1])
    objective = GroupDro([0] * 99 + [1], eta=0.1, adjustment=2.0)
    loss = objective.weighted(losses, groups)
    assert objective.q[1] > objective.q[0]
    assert loss.item() == pytest.approx(1.0)


def test_group_numbers_may_have_gaps():
    objective = GroupDro([7, 7, 3, 30])
    model = torch.nn.Linear(2, 2)
    objective(model, torch.zeros(2, 2), torch.tensor([0, 1]), np.array([0, 3]))
    assert len(objective.q) == 3
