"""Scores by group, gaps, and how well minorities are recovered."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import InputError
from spare.groups.result import groups_from_parts
from spare.training.metrics import (
    gaps,
    group_scores,
    inferred_minority,
    minority_recovery,
    pattern_shares,
    true_minority,
    wilson_interval,
)


@given(st.integers(1, 500), st.data())
def test_the_interval_is_that_of_wilson(n, data):
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


def two_classes(labels, values, **more):
    """People who are not blond and who are, and whether they are men."""
    inputs = TensorInputs(torch.zeros(len(labels), 1))
    train = Split(inputs, np.array(labels), {"male": np.array(values)})
    names = (("dark", "blond"), {"male": ("women", "men")})
    return Task("people", train, None, None, *names, **more)


def test_the_minority_is_what_contradicts_the_shortcut_even_where_it_is_larger():
    # Dark women outnumber dark men, and blond men are rare: both contradict "blond is a woman".
    task = two_classes([0] * 5 + [1] * 4, [0, 0, 0, 1, 1, 0, 0, 0, 1], shortcuts={"male": (1, 0)})
    minority = true_minority(task, task.train)
    assert minority.tolist() == [True] * 3 + [False] * 2 + [False] * 3 + [True]
    # So the largest cluster of such a class is compared with the minority, not with the majority.
    clusters = groups_from_parts([0, 0, 0, 1, 1, 0, 0, 0, 1], task.train.labels)
    recovery = minority_recovery(task.train.labels, minority, inferred_minority(clusters, minority))
    assert [recovery[label]["recall"] for label in (0, 1)] == [1.0, 1.0]
    assert [recovery[label]["precision"] for label in (0, 1)] == [1.0, 1.0]
    # Mistakes are mistakes, however many.
    mistakes = groups_from_parts(
        minority.astype(int), task.train.labels, rank_names=("right", "mistaken")
    )
    assert (inferred_minority(mistakes, minority) == minority).all()


def test_a_shortcut_is_an_attribute_with_a_value_for_each_class():
    for wrong in ({"hair": (0, 1)}, {"male": (0, 1, 0)}):
        with pytest.raises(InputError, match="no attribute with one value for each of the 2"):
            two_classes([0, 1], [0, 1], shortcuts=wrong)
    task = two_classes([0, 1], [0, 1], shortcuts={"male": (1, 0)})
    assert task.as_seen_by("train").shortcuts == {}


def test_the_minority_is_everything_outside_the_largest_group_of_its_class():
    task = two_classes([0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 1, 0, 1])
    labels = task.train.labels
    minority = true_minority(task, task.train)
    assert minority.tolist() == [False, False, False, True, False, True, False]
    recovery = minority_recovery(labels, minority, np.array([0, 0, 1, 1, 0, 0, 0], dtype=bool))
    assert recovery[0] == {"minority": 1, "inferred": 2, "recall": 1.0, "precision": 0.5}
    assert recovery[1] == {"minority": 1, "inferred": 0, "recall": 0.0, "precision": None}


def test_gaps_are_those_of_the_paper():
    """UrbanCars' arithmetic by hand."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 4000)
    holds = {"bg": rng.random(4000) < 0.5, "co": rng.random(4000) < 0.5}
    truth = {(True, True): 0.9, (False, True): 0.7, (True, False): 0.8, (False, False): 0.4}
    correct = np.zeros(4000)
    for (bg, co), accuracy in truth.items():
        for label in (0, 1):
            rows = np.flatnonzero((holds["bg"] == bg) & (holds["co"] == co) & (labels == label))
            correct[rows[: round(accuracy * len(rows))]] = 1
    shares = {(True, True): 0.9025, (False, True): 0.0475, (True, False): 0.0475,
              (False, False): 0.0025}  # fmt: skip
    scores = gaps(correct, labels, holds, shares)
    expected = 0.9025 * 0.9 + 0.0475 * (0.7 + 0.8) + 0.0025 * 0.4
    assert scores["id_accuracy"] == pytest.approx(expected, abs=0.003)
    assert scores["gaps"]["bg"] == pytest.approx(0.7 - expected, abs=0.006)
    assert scores["gaps"]["co"] == pytest.approx(0.8 - expected, abs=0.006)
    assert scores["gaps"]["bg+co"] == pytest.approx(0.4 - expected, abs=0.006)
    assert scores["worst_pattern"] == pytest.approx(0.4, abs=0.003)


def test_the_accuracy_of_a_pattern_is_the_mean_over_classes_not_over_examples():
    labels = np.array([0] * 9 + [1])
    correct = np.array([1] * 9 + [0])
    scores = gaps(correct, labels, {"bg": labels >= 0}, {(True,): 1.0})
    assert scores["id_accuracy"] == 0.5
    assert scores["gaps"] == {}
    with pytest.raises(InputError, match="gaps are undefined"):
        gaps(correct, labels, {"bg": labels < 0}, {(True,): 1.0})


def test_pattern_shares():
    holds = {"a": np.array([True, True, True, False]), "b": np.array([True, False, True, False])}
    shares = pattern_shares(holds)
    assert shares == {(True, True): 0.5, (True, False): 0.25, (False, False): 0.25}


def test_groups_that_are_too_small_are_listed_but_not_the_worst():
    correct = np.array([1] * 8 + [0] * 2 + [0, 0] + [1] * 20)
    groups = np.array([0] * 10 + [1] * 2 + [2] * 20)
    every = group_scores(correct, groups, ["a", "b", "c"])
    assert (every["worst_group"], every["worst_group_name"]) == (0.0, "b")
    enough = group_scores(correct, groups, ["a", "b", "c"], smallest=10)
    assert (enough["worst_group"], enough["worst_group_name"]) == (0.8, "a")
    assert set(enough["groups"]) == {"a", "b", "c"}
    assert group_scores(correct, groups, ["a", "b", "c"], smallest=99)["worst_group_name"] == "c"
