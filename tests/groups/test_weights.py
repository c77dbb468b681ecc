from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spare
from spare.errors import InputError
from spare.groups.weights import GroupSampling


@st.composite
def grouped(draw):
    """Group ids unique across classes, class labels with gaps and in any order."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    names = draw(st.lists(st.integers(-50, 50), min_size=1, max_size=4, unique=True))
    groups, labels, next_id = [], [], 0
    for name in names:
        for _ in range(draw(st.integers(1, 4))):
            size = draw(st.integers(1, 40))
            groups += [next_id] * size
            labels += [name] * size
            next_id += draw(st.integers(1, 3))
    order = rng.permutation(len(groups))
    return np.array(groups)[order], np.array(labels)[order]


@given(grouped(), st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]))
@settings(max_examples=100, deadline=None)
def test_weights_are_what_the_paper_says(case, power):
    groups, labels = case
    weights = spare.importance_weights(groups, labels, power)
    assert weights.sum() == pytest.approx(1)
    sizes = {g: int((groups == g).sum()) for g in set(groups.tolist())}
    classes = sorted(set(labels.tolist()))
    for label in classes:
        in_class = labels == label
        assert weights[in_class].sum() == pytest.approx(1 / len(classes))
        raw = np.array([sizes[g] ** -power for g in groups[in_class].tolist()])
        assert weights[in_class] == pytest.approx(raw / raw.sum() / len(classes))


def test_each_class_gets_its_own_power_in_any_order():
    """Powers belong to labels, not to the order in which labels appear."""
    groups = np.array([3, 3, 3, 4, 0, 0, 0, 1])
    labels = np.array([7, 7, 7, 7, 2, 2, 2, 2])  # the larger label comes first
    weights = spare.importance_weights(groups, labels, {2: 1.0, 7: 3.0})
    assert weights[labels == 2] == pytest.approx(np.array([1, 1, 1, 3]) / 6 / 2)
    assert weights[labels == 7] == pytest.approx(np.array([1, 1, 1, 27]) / 30 / 2)


def test_groups_bring_their_own_labels_and_powers():
    outputs = np.array([[0.0, 1.0]] * 9 + [[0.6, 0.4], [0.9, 0.1], [1.0, 0.0]])
    groups = spare.infer_groups(outputs, ["b"] * 12, k=2, power={"b": 2.0})
    by_groups = spare.importance_weights(groups, ["b"] * 12)
    by_hand = spare.importance_weights(groups.ids, ["b"] * 12, 2.0)
    assert by_groups == pytest.approx(by_hand)
    assert not np.allclose(by_groups, spare.importance_weights(groups.ids, ["b"] * 12, 1.0))


def test_a_high_power_does_not_overflow():
    groups = np.array([0] * 100_000 + [1])
    weights = spare.importance_weights(groups, np.zeros(100_001, int), 60)
    assert np.isfinite(weights).all()
    assert weights[-1] == pytest.approx(1)


def test_without_labels_every_group_has_the_same_mass():
    sampling = GroupSampling([5, 5, 5, 9])
    assert sampling.mass.tolist() == [0.5, 0.5]


@given(grouped(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_samples_follow_the_weights(case, seed):
    groups, labels = case
    sampling = GroupSampling(groups, labels, 1.5)
    n = 20_000
    rows = sampling.sample(n, np.random.default_rng(seed))
    expected = spare.importance_weights(groups, labels, 1.5)
    counts = np.bincount(rows, minlength=len(groups))
    # Five standard deviations of a binomial, for every example.
    assert (np.abs(counts - n * expected) <= 5 * np.sqrt(n * expected) + 5).all()


@pytest.mark.parametrize(
    ("groups", "labels", "power", "says"),
    [
        ([0, 1], [0, 0, 0], None, "lengths differ"),
        ([0, 0], [0, 1], None, "more than one class"),
        ([0.5, 1.0], [0, 1], None, "must be integers"),
        ([0, 1], [0.0, 1.0], None, "labels are floats"),
        ([0, 1], [0, 1], {0: 1.0}, "no power was given for class 1"),
        ([0, 1], [0, 1], -1, "at least 0"),
        ([0, 1], [0, 1], float("nan"), "at least 0"),
        ([], [], None, "non-empty"),
        ([0, 1], [None, "a"], None, "row 0"),
    ],
)
def test_bad_input_is_refused(groups, labels, power, says):
    with pytest.raises(InputError, match=says):
        spare.importance_weights(groups, labels, power)


def test_a_power_without_classes_is_refused():
    with pytest.raises(InputError, match="needs labels"):
        GroupSampling([0, 1], power=2)


def test_natural_class_mass_keeps_classes_as_frequent_as_they_are():
    groups = np.array([0] * 60 + [1] * 20 + [2] * 15 + [3] * 5)
    labels = np.array([0] * 80 + [1] * 20)
    natural = spare.importance_weights(groups, labels, class_mass="natural")
    assert natural.sum() == pytest.approx(1)
    masses = np.bincount(groups, weights=natural)
    assert masses == pytest.approx([0.4, 0.4, 0.1, 0.1])
    equal = np.bincount(groups, weights=spare.importance_weights(groups, labels))
    assert equal == pytest.approx([0.25] * 4)
    # One cluster per class: every example is as likely as any other, which is plain sampling.
    plain = spare.importance_weights(labels, labels, class_mass="natural")
    assert plain == pytest.approx([0.01] * 100)
    with pytest.raises(InputError, match="did you mean 'natural'"):
        spare.importance_weights(groups, labels, class_mass="naturel")
