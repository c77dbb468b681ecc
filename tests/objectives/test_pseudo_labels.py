"""Groups are class x attribute with two values of each: 0 and 1 in class 0, 2 and 3 in class 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from spare.objectives.pseudo_labels import confident, pseudo_label_loss

GROUPS = torch.arange(4)


def logits_for(guesses, sure):
    """Logits of `guesses` with these probabilities."""
    p = torch.tensor(sure)
    two = torch.stack([p.log(), (1 - p).log()], 1)
    return torch.where(torch.tensor(guesses)[:, None] == 0, two, two.flip(1))


def test_the_threshold_is_on_probabilities():
    # 0.818 sure with a logit above 0.95; 0.989 sure with one below.
    logits = torch.tensor([[1.5, 0.0], [0.5, -4.0]])
    rows, guesses = confident(
        logits, torch.tensor([0, 0]), GROUPS, torch.tensor([0, 9, 9, 9]), 0.95
    )
    assert rows.tolist() == [1]
    assert guesses.tolist() == [0]


def test_other_groups_take_their_surest_until_the_numbers_match():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 0])
    logits = logits_for(
        [1, 1, 1, 0, 0, 0, 1, 1, 0], [0.96, 0.6, 0.97, 0.55, 0.9, 0.8, 0.99, 0.99, 0.99]
    )
    # Group 1 is the rarest and adds two guesses to its one: three, and so three of every group.
    rows, guesses = confident(logits, labels, GROUPS, torch.tensor([3, 1, 2, 6]), 0.95)
    assert sorted(rows.tolist()) == [0, 2, 4]
    assert guesses.tolist() == [[1, 1, 1, 0, 0, 0, 1, 1, 0][row] for row in rows]
    # With fewer labeled ones of the others there is room for more, as far as there are guesses.
    rows, _ = confident(logits, labels, GROUPS, torch.tensor([2, 1, 1, 1]), 0.95)
    assert sorted(rows.tolist()) == [0, 2, 4, 5, 6, 7, 8]
    rows, _ = confident(logits, labels, GROUPS, torch.tensor([1, 0, 0, 0]), 0.95)
    assert sorted(rows.tolist()) == [0, 2, 4, 5, 6, 7, 8]


def test_the_rarest_is_a_group_and_not_an_attribute():
    # Attribute 1 is the rarer attribute, but (class 0, attribute 0) the rarest group.
    counts = torch.tensor([1, 2, 5, 2])
    labels = torch.tensor([0, 0, 0, 1])
    logits = logits_for([0, 1, 1, 1], [0.94, 0.99, 0.99, 0.99])
    assert confident(logits, labels, GROUPS, counts, 0.95)[0].tolist() == []
    assert sorted(confident(logits, labels, GROUPS, counts, 0.93)[0].tolist()) == [0]
    # Were (class 0, attribute 1) the rarest, its two would make three: one of groups 0 and 3 each.
    rows, _ = confident(logits, labels, GROUPS, torch.tensor([2, 1, 5, 2]), 0.95)
    assert sorted(rows.tolist()) == [0, 1, 2, 3]


class Given(nn.Module):
    """Returns its input."""

    def forward(self, x):
        return x


def batch(labeled, unlabeled):
    """Rows of a batch from 8 labeled and 6 unlabeled examples, and their logits."""
    index = np.array([*labeled, *(8 + row for row in unlabeled)])
    x = torch.randn(len(index), 2, generator=torch.Generator().manual_seed(0))
    return index, x


LABELS = np.array([0, 0, 0, 0, 0, 1, 1, 1])
ATTRIBUTES = np.array([0, 0, 0, 1, 1, 1, 1, 1])  # groups 0 (3), 1 (2), 3 (3); none of group 2


def loss_of(labeled, logits, y_unlabeled, threshold=0.95):
    """The loss, and the mean cross-entropy of the labeled alone."""
    index, x = batch(labeled, range(len(logits)))
    x[len(labeled) :] = logits
    x.requires_grad_()
    y = torch.tensor([*LABELS[labeled], *y_unlabeled])
    loss = pseudo_label_loss(LABELS, ATTRIBUTES, 2, threshold)(Given(), x, y, index)
    plain = nn.functional.cross_entropy(x[: len(labeled)], torch.as_tensor(ATTRIBUTES[labeled]))
    return loss, plain, x


def test_the_loss_is_that_of_the_labeled_and_that_of_the_chosen_guesses():
    logits = logits_for([1, 1, 0, 0, 1], [0.99, 0.7, 0.9, 0.8, 0.95])
    # Group 1 is the rarest; its sure guess makes two, which is one more of 0 and none of 3.
    loss, plain, x = loss_of([0, 3, 5, 6], logits, [0, 0, 0, 0, 1])
    expected = -(torch.tensor(0.99).log() + torch.tensor(0.9).log()) / 2
    assert (loss - plain).item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    moved = x.grad.abs().sum(1) > 0
    assert moved.tolist() == [True] * 4 + [True, False, True, False, False]


def test_without_a_sure_guess_only_the_labeled_count():
    logits = logits_for([1, 0], [0.7, 0.9])
    loss, plain, _ = loss_of([0, 3, 5, 6], logits, [0, 0])
    assert loss.item() == pytest.approx(plain.item())


def test_a_group_that_is_missing_from_the_batch_is_the_rarest():
    logits = logits_for([0, 0, 1], [0.7, 0.99, 0.99])
    # Of groups 0 and 1 none is in the batch; 1 is the rarer of the two in the labeled set, so its
    # one sure guess leaves room for one of group 0, the surest.
    loss, plain, _ = loss_of([5, 6, 7], logits, [0, 0, 0])
    assert (loss - plain).item() == pytest.approx(-np.log(0.99), abs=1e-5)
    # No sure guess of group 1: nothing is added, sure as group 0 may be.
    loss, plain, _ = loss_of([5, 6, 7], logits[:2], [0, 0])
    assert loss.item() == pytest.approx(plain.item())


def test_a_group_without_a_labeled_example_is_never_guessed():
    logits = logits_for([1, 0, 0], [0.99, 0.999, 0.999])
    # The last two would be of group 2 (class 1, attribute 0), if there were one.
    loss, plain, _ = loss_of([0, 3, 5], logits, [0, 1, 1])
    assert (loss - plain).item() == pytest.approx(-np.log(0.99), abs=1e-5)
