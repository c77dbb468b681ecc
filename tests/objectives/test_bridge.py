"""Bridge's loss: what is pulled to what, and that the loss falls when they come closer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spare.models import Classifier
from spare.objectives.bridge import distance, pulled_together

#: Two classes of two parts of two.
LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
PARTS = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])


def features(n=8, seed=0):
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))


def by_hand(hidden, labels, parts, temperature):
    terms = []
    unit = hidden / hidden.norm(dim=1, keepdim=True)
    for i in range(len(labels)):
        close = {j: float(unit[i] @ unit[j]) / temperature for j in range(len(labels))}
        positives = [j for j in close if labels[j] == labels[i] and parts[j] != parts[i]]
        others = [j for j in close if labels[j] != labels[i]]
        if positives:
            total = math.log(sum(math.exp(close[j]) for j in positives + others))
            terms.append(total - sum(close[j] for j in positives) / len(positives))
    return sum(terms) / len(terms)


def test_the_loss_is_what_the_formula_says():
    hidden = features()
    loss = distance(hidden, LABELS, PARTS, 0.5)
    assert loss.item() == pytest.approx(by_hand(hidden, LABELS, PARTS, 0.5), rel=1e-5)
    uneven = torch.tensor(
        [0, 0, 0, 0, 2, 2, 2, 2]
    )  # each class is one part: nothing to be pulled to
    loss = distance(hidden, LABELS, uneven // 2, 0.5)
    assert not loss.any()
    mixed = torch.tensor([0, 0, 1, 1, 2, 2, 2, 2])
    loss = distance(hidden, LABELS, mixed, 0.5)
    assert loss.item() == pytest.approx(by_hand(hidden, LABELS, mixed, 0.5), rel=1e-5)


def test_it_falls_as_the_parts_of_a_class_come_together_and_rises_as_classes_do():
    classes, parts = features(2, seed=1)[LABELS], features(4, seed=2)[PARTS]
    apart = distance(classes + 3 * parts, LABELS, PARTS, 0.1)
    assert distance(classes + 0.3 * parts, LABELS, PARTS, 0.1) < apart
    assert distance(0.1 * classes + 3 * parts, LABELS, PARTS, 0.1) > apart


def test_what_is_pulled_and_what_is_pushed():
    """All are orthogonal, so each component of the gradient concerns one other example."""
    labels, parts = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 2])
    hidden = torch.eye(4, requires_grad=True)
    distance(hidden, labels, parts, 0.1).backward()
    _, same_part, other_part, other_class = (-hidden.grad[0]).tolist()
    assert same_part == 0
    assert other_part > 0
    assert other_class < 0
    assert not hidden.grad[3, 3]


def test_a_batch_without_pairs_gives_plain_cross_entropy_and_finite_gradients():
    model = Classifier(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
    objective = pulled_together(np.zeros(8, dtype=int), weight=3.0, temperature=0.1)
    x = features()
    loss = objective(model, x, LABELS, np.arange(8))
    plain = torch.nn.functional.cross_entropy(model(x), LABELS)
    assert loss.item() == pytest.approx(plain.item())
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_parts_are_looked_up_by_row_and_the_weight_counts():
    model = Classifier(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
    x = features()
    rows = np.arange(8) + 100
    parts = np.zeros(200, dtype=int)
    parts[rows] = PARTS.numpy()
    plain = torch.nn.functional.cross_entropy(model(x), LABELS)
    pulled = distance(model.features(x), LABELS, PARTS, 0.2)
    for weight in (0.0, 1.0, 2.5):
        loss = pulled_together(parts, weight=weight, temperature=0.2)(model, x, LABELS, rows)
        assert loss.item() == pytest.approx((plain + weight * pulled).item(), rel=1e-5)
