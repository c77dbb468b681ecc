from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from spare.errors import InputError
from spare.metrics import group_scores, minority_recovery, true_minority, wilson_interval


@given(st.integers(1, 500), st.data())
def test_the_interval_is_wilsons(n, data):
    hits = data.draw(st.integers(0, n))
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson_interval(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_scores_by_group():
    groups = np.array([0, 0, 0, 0, 1, 1, 3, 3, 3, 3])
    correct = np.array([1, 1, 1, 1, 1, 0, 1, 1, 1, 0], dtype=bool)
    scores = group_scores(correct, groups, ["a", "b", "c", "d"], np.array([60, 20, 0, 20]))
    assert scores["worst_group"] == 0.5
    assert scores["worst_group_name"] == "b"
    assert scores["worst_group_size"] == 2
    assert scores["average"] == 0.8
    assert scores["adjusted_average"] == pytest.approx(0.6 * 1 + 0.2 * 0.5 + 0.2 * 0.75)
    assert scores["groups"] == {
        "a": {"accuracy": 1.0, "n": 4},
        "b": {"accuracy": 0.5, "n": 2},
        "d": {"accuracy": 0.75, "n": 4},
    }
    low, high = scores["worst_group_interval"]
    assert low < 0.5 < high


def test_an_absent_group_is_not_the_worst_and_nothing_to_score_is_refused():
    assert group_scores(np.ones(3), np.array([1, 1, 1]), ["a", "b"])["worst_group"] == 1
    with pytest.raises(InputError, match="no examples"):
        group_scores(np.ones(0), np.zeros(0, int), ["a"])
    with pytest.raises(InputError, match="lengths differ"):
        group_scores(np.ones(2), np.zeros(3, int), ["a"])


def test_the_minority_is_everything_outside_the_largest_group_of_its_class():
    labels = np.array([0, 0, 0, 0, 1, 1, 1])
    groups = np.array([5, 5, 5, 6, 8, 7, 8])  # in class 1 the larger group has the larger id
    minority = true_minority(labels, groups)
    assert minority.tolist() == [False, False, False, True, False, True, False]
    found = minority_recovery(labels, minority, np.array([0, 0, 1, 1, 0, 0, 0], dtype=bool))
    assert found[0] == {"minority": 1, "inferred": 2, "recall": 1.0, "precision": 0.5}
    assert found[1] == {"minority": 1, "inferred": 0, "recall": 0.0, "precision": None}
