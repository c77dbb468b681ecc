"""Correct-n-Contrast: what is in a sub-batch, and what its loss does to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from spare.errors import InputError, SpareWarning
from spare.models import Classifier
from spare.objectives.contrastive import contrast, correct_n_contrast, roles, unit_length
from spare.training.batches import contrast_pools, contrastive

SIZE = 4


def labels_and_slices(counts):
    """So many examples of class y that were taken for class s: counts[y][s]; in mixed order."""
    pairs = [(y, s) for y, row in enumerate(counts) for s, n in enumerate(row) for _ in range(n)]
    mixed = np.random.default_rng(0).permutation(pairs)
    return mixed[:, 0], mixed[:, 1]


#: The smallest pools: 5 anchors (class 2), 4 positives (class 2), 3 hard negatives (slice 0).
LABELS, SLICES = labels_and_slices([[8, 2, 3], [1, 6, 4], [2, 2, 5]])


def an_epoch(size=SIZE, share=1.0, seed=0):
    pools = contrast_pools(LABELS, SLICES)
    return contrastive(pools, size, share)(np.random.default_rng(seed))


def test_every_example_of_a_sub_batch_has_the_role_of_its_position():
    first_slices = set()
    for batch in an_epoch():
        assert len(batch) == 3 * 3 + SIZE  # cut to the 3 hard negatives of slice 0
        anchors, positives, hard, easy = np.split(batch, [3, 6, 9])
        c = LABELS[batch[0]]
        assert (LABELS[anchors] == c).all()
        assert (SLICES[anchors] == c).all()
        assert (LABELS[positives] == c).all()
        assert (SLICES[positives] != c).all()
        assert (LABELS[hard] != c).all()
        assert (SLICES[hard] == c).all()
        assert (SLICES[easy] == SLICES[positives[0]]).all()
        assert (LABELS[easy] == SLICES[easy]).all()
        for part in (anchors, positives, hard, easy):
            assert len(set(part.tolist())) == len(part)
        first_slices.add((int(c), int(SLICES[positives[0]])))
    assert len(first_slices) > 3  # not always the same slice beside a class


def test_the_objective_reads_the_same_roles_from_labels_and_slices():
    for batch in an_epoch():
        role = roles(torch.tensor(LABELS[batch]), torch.tensor(SLICES[batch]))
        position = np.arange(len(batch))
        assert (role.anchors.numpy() == (position < 3)).all()
        assert (role.positives.numpy() == ((position >= 3) & (position < 6))).all()
        assert (role.hard_negatives.numpy() == ((position >= 6) & (position < 9))).all()
        assert (role.easy_negatives.numpy() == (position >= 9)).all()


def test_easy_negatives_are_not_cut_and_repeat_only_where_they_are_too_few():
    repeats = {}
    for batch in an_epoch(size=6):
        assert len(batch) == 3 * 3 + 6
        easy = batch[9:]
        repeats.setdefault(int(SLICES[easy[0]]), []).append(len(set(easy.tolist())) < 6)
    assert set(repeats) == {0, 1, 2}
    assert not any(repeats[0] + repeats[1])  # 8 and 6 to choose from
    assert all(repeats[2])  # 5


def test_classes_take_turns_as_often_as_the_class_with_the_fewest_anchors():
    firsts = np.array([batch[0] for batch in an_epoch()])
    assert LABELS[firsts].tolist() == [0, 1, 2] * 5
    assert len(set(firsts.tolist())) == 15
    of_two = firsts[LABELS[firsts] == 2]
    assert sorted(of_two) == np.flatnonzero((LABELS == 2) & (SLICES == 2)).tolist()


def test_a_share_of_the_anchors_is_another_one_every_epoch():
    firsts = [[int(batch[0]) for batch in an_epoch(share=0.4, seed=seed)] for seed in range(3)]
    assert [len(epoch) for epoch in firsts] == [6, 6, 6]
    assert len({tuple(epoch) for epoch in firsts}) == 3
    assert len(an_epoch(share=0.001)) == 3  # never none


def test_the_probabilities_are_those_of_the_sampling():
    rows = [np.concatenate(an_epoch(size=6, seed=seed)) for seed in range(300)]
    counts = np.bincount(np.concatenate(rows), minlength=len(LABELS))
    expected = contrast_pools(LABELS, SLICES).probabilities(6)
    assert expected.sum() == pytest.approx(1)
    assert counts / counts.sum() == pytest.approx(expected, rel=0.1)


def test_a_positive_whose_slice_has_no_correct_example_is_not_sampled():
    labels, slices = labels_and_slices([[5, 2, 3], [2, 5, 1], [1, 1, 0]])
    pools = contrast_pools(labels, slices)
    assert pools.classes == [0, 1]
    for batch in contrastive(pools, SIZE)(np.random.default_rng(0)):
        assert set(slices[batch].tolist()) == {0, 1}


def test_a_reference_model_without_mistakes_is_refused():
    with pytest.raises(InputError, match="the reference model makes no mistake"):
        contrast_pools([0, 1, 0, 1], [0, 1, 0, 1])


def test_a_reference_model_that_predicts_one_class_only_is_refused():
    with pytest.raises(InputError, match="no class has all three"):
        contrast_pools([0, 1, 0, 1], [0, 0, 0, 0])


def test_few_classes_with_anchors_get_a_warning():
    five = np.diag([4] * 5)
    five[0, 1] = five[1, 0] = 2
    with pytest.warns(SpareWarning, match="only 2 of 5 classes"):
        pools = contrast_pools(*labels_and_slices(five))
    assert pools.classes == [0, 1]
    contrast_pools(*labels_and_slices(five[:4, :4]))  # half of them: no warning


class Points(nn.Module):
    """Features that are parameters themselves, one row per example."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows))

    def forward(self, x):
        return self.rows[x]


#: Anchor, another anchor, two positives, a hard negative, two easy negatives.
ROLE_LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1])
ROLE_SLICES = [0, 0, 1, 1, 0, 1, 1]
POINTS = [[2.0, 0.5], [1.0, 1.0], [0.5, 1.5], [-1.0, 1.0], [3.0, 0.1], [0.2, -1.0], [-0.3, 2.0]]


def loss_of(model, **options):
    rows = np.arange(len(ROLE_LABELS))
    objective = correct_n_contrast(ROLE_SLICES, **options)
    return objective(model, torch.as_tensor(rows), ROLE_LABELS, rows)


def model_of(points=POINTS):
    model = Classifier(Points(points), nn.Linear(2, 2))
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[0.3, -0.2], [0.1, 0.4]]))
        model.head.bias.copy_(torch.tensor([0.05, -0.1]))
    return model


def test_the_loss_is_what_the_formula_gives_by_hand():
    tau, w = 0.5, 0.75

    def s(i, j):
        (a, b), (c, d) = POINTS[i], POINTS[j]
        return math.exp((a * c + b * d) / math.hypot(a, b) / math.hypot(c, d) / tau)

    def towards(i, positives, negatives):
        total = sum(s(i, j) for j in positives + negatives)
        return -sum(math.log(s(i, j) / total) for j in positives) / len(positives)

    crossed = 0.0
    for (a, b), label in zip(POINTS, ROLE_LABELS.tolist(), strict=True):
        logits = [0.3 * a - 0.2 * b + 0.05, 0.1 * a + 0.4 * b - 0.1]
        crossed -= logits[label] - math.log(sum(math.exp(z) for z in logits))
    expected = w * (towards(0, [2, 3], [4]) + towards(2, [0, 1], [5, 6])) + (1 - w) * crossed / 7
    assert loss_of(model_of(), temperature=tau, weight=w).item() == pytest.approx(expected)


def test_contrast_of_one_positive_and_no_negative_is_zero():
    example = torch.tensor([1.0, 0.0])
    assert contrast(example, torch.tensor([[0.0, 1.0]]), torch.empty(0, 2), 0.1).item() == 0


@pytest.mark.parametrize(("row", "towards", "sign"), [(3, 0, -1), (4, 0, 1), (1, 2, -1), (6, 2, 1)])
def test_the_loss_falls_with_near_positives_and_rises_with_near_negatives(row, towards, sign):
    """A positive and a hard negative moved to the anchor; an anchor and an easy negative moved to
    the first positive."""
    points = [list(point) for point in POINTS]
    points[4] = [0.3, -3.0]  # the hard negative is far away to begin with
    options = {"temperature": 0.5, "weight": 1.0}
    before = loss_of(model_of(points), **options)
    points[row] = [a + 0.3 * (b - a) for a, b in zip(points[row], points[towards], strict=True)]
    change = (loss_of(model_of(points), **options) - before).item()
    assert change * sign > 1e-3


def test_a_step_pulls_positives_nearer_and_pushes_both_kinds_of_negatives_away():
    model = model_of()

    def cosines():
        h = nn.functional.normalize(model.features.rows.detach())
        return h @ h.T

    before = cosines()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of(model, temperature=0.5, weight=1.0).backward()
    assert (model.features.rows.grad.abs().sum(1) > 0).all()  # of every role
    optimizer.step()
    change = cosines() - before
    assert change[0, 2] > 0  # the anchor and the first positive
    assert change[0, 3] > 0
    assert change[0, 4] < 0  # the anchor and its hard negative
    assert change[2, 1] > 0  # the first positive and the other anchor
    assert change[2, 6] < 0  # the first positive and an easy negative


def test_the_gradient_is_that_of_the_whole_formula():
    """Against finite differences: every role contributes."""
    model = model_of().double()
    rows = model.features.rows
    options = {"temperature": 0.5, "weight": 1.0}
    loss_of(model, **options).backward()
    for entry in np.ndindex(*rows.shape):
        with torch.no_grad():
            rows[entry] += 1e-5
            above = loss_of(model, **options)
            rows[entry] -= 2e-5
            below = loss_of(model, **options)
            rows[entry] += 1e-5
        assert rows.grad[entry].item() == pytest.approx((above - below).item() / 2e-5, abs=1e-6)


def test_the_head_learns_from_cross_entropy_alone():
    model = model_of()
    loss_of(model, weight=1.0).backward()
    assert model.head.weight.grad.abs().max() == 0
    loss_of(model, weight=0.75).backward()
    assert model.head.weight.grad.abs().max() > 0


def test_batch_normalization_keeps_the_statistics_it_came_with():
    encoder = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.9))
    model = Classifier(encoder, nn.Linear(3, 2)).train()
    rows = np.arange(7)
    objective = correct_n_contrast(ROLE_SLICES)
    losses = [objective(model, torch.tensor(POINTS), ROLE_LABELS, rows) for _ in range(2)]
    assert losses[0].equal(losses[1])  # no dropout
    assert encoder[1].running_mean.tolist() == [0, 0, 0]
    assert model.training  # the loop's business


@pytest.mark.parametrize(
    ("labels", "slices"),
    [
        ([0, 0, 1], [1, 0, 0]),  # the first is no correct example
        ([0, 0, 1], [0, 0, 0]),  # no positive
        ([0, 0, 1, 2], [0, 1, 0, 2]),  # someone of a slice that no positive is first in
        ([0, 0, 1, 2], [0, 1, 0, 1]),  # someone who is neither right nor of the anchor's slice
    ],
)
def test_other_batches_are_refused(labels, slices):
    with pytest.raises(InputError, match="has a correct example first"):
        roles(torch.tensor(labels), torch.tensor(slices))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_of_zeros_has_no_direction_in_any_precision(dtype):
    rows = unit_length(torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype))
    assert rows.dtype == dtype
    assert rows[0].tolist() == [0.0, 0.0]
    assert rows[1].float().norm() == pytest.approx(1, abs=0.01)
