"""The verdict: what makes a class look like one with a shortcut, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from spare.findings.verdict import (
    FOUND,
    NONE,
    WEAK,
    class_verdict,
    in_words,
    overall,
    strongest,
    verdict_of,
)
from spare.groups.clusters import infer_groups
from spare.methods.method import EarlyOutputs
from tests.conftest import toy_task


def cluster(size, accuracy):
    return {
        "size": size,
        "accuracy": accuracy,
        "confidence": None if accuracy is None else 0.9,
        "mistaken_for": None,
        "mistaken_share": 0.0,
    }


LARGE = cluster(900, 1.0)


def verdict_on(*small, large=LARGE, silhouette=0.95):
    clusters = [large, *(cluster(size, accuracy) for size, accuracy in small)]
    return class_verdict(clusters, silhouette)["verdict"]


def test_a_mistaken_block_far_from_the_rest_is_a_shortcut():
    assert verdict_on((100, 0.0)) == FOUND
    assert verdict_on((60, 0.0), (40, 0.1)) == FOUND
    assert verdict_on((90, 0.0), (10, 1.0)) == FOUND  # the block as a whole
    assert verdict_on((40, 0.0), (60, 1.0)) == NONE


@pytest.mark.parametrize(
    ("small", "large", "silhouette"),
    [
        ((100, 0.6), LARGE, 0.95),  # hard examples: many of them are right
        ((100, 0.0), cluster(900, 0.7), 0.95),  # the rest is not learned either
        ((100, 0.0), LARGE, 0.7),  # the mistakes shade into the rest
        ((4, 0.0), LARGE, 0.99),  # too few to say
        ((400, 0.0), LARGE, 0.99),  # a large part of the class: two kinds, not a shortcut
    ],
)
def test_a_class_that_fails_one_condition_has_no_shortcut(small, large, silhouette):
    assert verdict_on(small, large=large, silhouette=silhouette) == NONE


def test_a_near_miss_is_weak_evidence_and_one_cluster_is_none():
    assert verdict_on((100, 0.45)) == WEAK
    assert verdict_on((200, 0.0)) == WEAK
    assert verdict_on((100, 0.0), silhouette=0.85) == WEAK
    assert class_verdict([LARGE], None) == {"verdict": NONE, "strength": None, "block": 0}
    assert class_verdict([LARGE, cluster(0, None)], 0.9)["verdict"] == NONE


def test_a_majority_without_examples_says_nothing_of_a_shortcut():
    """As when groups are right and mistaken, and an early model gets nothing right."""
    empty = class_verdict([cluster(0, None), cluster(100, 0.0)], 0.9)
    assert empty == {"verdict": NONE, "strength": None, "block": 100}


def test_the_strength_is_that_of_the_condition_that_is_met_least():
    half = class_verdict([LARGE, cluster(100, 0.425)], 0.95)
    assert half["strength"] == pytest.approx(0.5)
    assert class_verdict([LARGE, cluster(100, 0.35)], 0.875)["strength"] >= 1


def test_two_classes_make_a_shortcut_and_one_does_not():
    def all_of(*strengths):
        classes = {
            str(i): {"verdict": in_words(strength), "strength": strength, "block": 9}
            for i, strength in enumerate(strengths)
        }
        return overall(classes)["overall"]

    assert all_of(1.0, 1.0) == FOUND
    assert all_of(1.2, -1.0, None) == WEAK
    assert all_of(0.5, 0.1, -1.0) == WEAK
    assert all_of(0.5, -0.1) == NONE
    assert all_of(1.5) == WEAK
    assert all_of(None) == NONE


def test_the_strongest_of_several_epochs_counts():
    words = ((NONE, None), (FOUND, 1.1), (FOUND, 1.3), (WEAK, 0.2))
    verdicts = [
        {"overall": word, "strength": strength, "epoch": i}
        for i, (word, strength) in enumerate(words, start=1)
    ]
    assert strongest(verdicts)["epoch"] == 3
    assert strongest([verdicts[0], verdicts[0] | {"epoch": 9}])["epoch"] == 9


def outputs_of(easy, hard, rng):
    """Outputs of a model that goes by `easy`, and is wrong at random about a share of `hard`."""
    sure = np.clip(rng.normal(0.97, 0.01, len(easy)), 0.9, 0.999)
    unsure = rng.random(len(easy)) < hard
    right = np.where(unsure, rng.uniform(0.3, 0.8, len(easy)), sure)
    first = np.where(easy == 0, right, 1 - right)
    return np.stack([first, 1 - first], 1)


def verdict_when(task, easy, hard):
    probabilities = outputs_of(easy, hard, np.random.default_rng(1))
    groups = infer_groups(probabilities, task.train.labels)
    return verdict_of(task, [EarlyOutputs(1, probabilities, groups)])["overall"]


def test_a_model_that_goes_by_the_place_is_caught_and_one_that_errs_is_not():
    task = toy_task(n=2000)
    assert verdict_when(task, task.train.attributes["place"], 0.02) == FOUND
    assert verdict_when(task, task.train.labels, 0.3) == NONE
