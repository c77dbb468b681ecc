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
    verdict_of,
)
from spare.groups.blocks import Block, believed, blocks_of
from spare.groups.clusters import cluster_class
from tests.conftest import toy_task


def verdict_on(size=100, right=0.0, silhouette=0.95, alike=None):
    block = Block(size, size / 1000, right, 1.0, silhouette, taken_for=1, taken_share=1 - right)
    return class_verdict(block, toy_task(), alike)


def test_a_mistaken_block_far_from_the_rest_is_a_shortcut():
    found = verdict_on()
    assert found["verdict"] == FOUND
    assert (found["block"], found["taken_for"], found["taken_share"]) == (100, "right", 1.0)


@pytest.mark.parametrize(
    "block",
    [
        {"right": 0.6},  # hard examples: many of them are right
        {"silhouette": 0.45},  # the mistakes shade into the rest
        {"size": 4, "silhouette": 0.99},  # too few to say
    ],
)
def test_a_block_that_is_partly_right_or_near_or_tiny_is_none(block):
    assert verdict_on(**block)["verdict"] == NONE


def test_a_near_miss_is_weak_evidence_and_one_cluster_is_none():
    assert verdict_on(right=0.42)["verdict"] == WEAK
    assert verdict_on(silhouette=0.52)["verdict"] == WEAK
    assert verdict_on(size=0) == {"verdict": NONE, "strength": None, "block": 0}


def test_a_block_that_looks_like_the_other_class_counts_for_more():
    assert verdict_on(silhouette=0.52, alike=0.75)["verdict"] == WEAK
    found = verdict_on(silhouette=0.52, alike=0.95)
    assert (found["verdict"], found["alike"]) == (FOUND, 0.95)


def test_two_classes_make_a_shortcut_and_one_does_not():
    def all_of(*strengths):
        classes = {
            str(i): {"verdict": in_words(strength), "strength": strength, "block": 9}
            for i, strength in enumerate(strengths)
        }
        return overall(classes)["overall"]

    assert all_of(1.0, 0.9) == FOUND
    assert all_of(0.9, 0.1, None) == WEAK
    assert all_of(0.5, 0.5, 0.1) == WEAK
    assert all_of(0.75, 0.1) == NONE
    assert all_of(0.95) == WEAK
    assert all_of(None) == NONE


def test_a_class_is_not_called_found_where_it_takes_two():
    task = toy_task()
    clear, hard = (Block(50, 0.25, right, 1.0, 0.9) for right in (0.2, 0.8))
    assert verdict_of(task, {0: clear, 1: clear}, 1)["classes"]["left"]["verdict"] == FOUND
    alone = verdict_of(task, {0: clear, 1: hard}, 1)
    assert (alone["overall"], alone["classes"]["left"]["verdict"]) == (NONE, WEAK)


def outputs_of(easy, hard, rng):
    """Outputs of a model that goes by `easy`, and is wrong at random about a share of `hard`."""
    sure = np.clip(rng.normal(0.97, 0.01, len(easy)), 0.9, 0.999)
    unsure = rng.random(len(easy)) < hard
    right = np.where(unsure, rng.uniform(0.3, 0.8, len(easy)), sure)
    first = np.where(easy == 0, right, 1 - right)
    return np.stack([first, 1 - first], 1)


def verdict_when(task, easy, hard):
    probabilities = outputs_of(easy, hard, np.random.default_rng(1))
    labels = task.train.labels
    clusters = {label: cluster_class(probabilities[labels == label]) for label in (0, 1)}
    blocks = blocks_of(clusters, labels, probabilities.argmax(1))
    return verdict_of(task, blocks, 1)["overall"]


def test_a_model_that_goes_by_the_place_is_caught_and_one_that_errs_is_not():
    task = toy_task(n=2000)
    assert verdict_when(task, task.train.attributes["place"], 0.02) == FOUND
    assert verdict_when(task, task.train.labels, 0.3) == NONE


def test_a_block_that_gets_more_samples_is_never_said_to_be_nothing():
    """One class that is clear and as deep as the other, which is not clear: its block is used."""
    clear, hard = (Block(50, 0.05, right, 1.0, 0.95, depth=0.3) for right in (0.1, 0.75))
    assert (clear.power, hard.power, believed([clear, hard])) == (1.0, 0.0, True)
    said = verdict_of(toy_task(), {0: clear, 1: hard}, 1)
    assert (said["overall"], [each["verdict"] for each in said["classes"].values()]) == (
        WEAK, [WEAK, NONE],
    )  # fmt: skip
