"""A part of a class that is taken for another class as a whole, and looks like it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from spare.findings.describe import cluster_facts
from spare.findings.taken import taken_blocks
from spare.findings.verdict import NONE, WEAK, verdict_of
from spare.groups.blocks import Block
from spare.groups.result import groups_from_parts
from spare.methods.method import EarlyOutputs

NAMES = ("frog", "insect", "dog")
LABELS = np.repeat([0, 1, 2], 200)
#: Of the frogs, the last fifty are a cluster of their own.
PARTS = np.isin(np.arange(600), range(150, 200)).astype(int)


def certain(predicted):
    return EarlyOutputs(1, predicted, np.ones(len(predicted)))


def described(predicted, names=NAMES):
    groups = groups_from_parts(PARTS, LABELS)
    facts = cluster_facts(certain(predicted), groups, names)
    return groups, {
        names[label]: {"clusters": [facts[group] for group in evidence.ids]}
        for label, evidence in groups.evidence.items()
    }


def found(predicted, green, names=NAMES):
    groups, classes = described(predicted, names)
    return taken_blocks(groups, classes, names, {"green": np.asarray(green, dtype=float)})


PREDICTED = np.where(PARTS == 1, 1, LABELS)
GREEN = np.where((LABELS == 1) | (PARTS == 1), 0.9, 0.1)


def test_green_frogs_that_are_taken_for_insects_are_named():
    assert found(PREDICTED, GREEN) == {
        "frog": {
            "cluster": 2, "size": 50, "of": 200, "taken_for": "insect", "share": 1.0,
            "alike": [{"what": "green", "more": True, "by": pytest.approx(2.03, abs=0.01)}],
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("predicted", "green"),
    [
        (np.where((PARTS == 1) & (np.arange(600) % 2 == 0), 1, LABELS), GREEN),  # half are right
        (np.where(PARTS == 1, 1 + np.arange(600) % 2, LABELS), GREEN),  # two classes, half each
        (PREDICTED, np.where(LABELS == 1, 0.9, 0.1)),  # no greener than other frogs
        (PREDICTED, np.where(PARTS == 1, 0.9, 0.1)),  # greener, but insects are not
        (PREDICTED, np.full(600, 0.5)),
        (PREDICTED, np.full(600, np.nan)),
    ],
    ids=["half right", "two classes", "not green", "insects not green", "constant", "unknown"],
)
def test_anything_less_is_not(predicted, green):
    assert found(predicted, green) == {}


@pytest.mark.parametrize(("right", "named"), [(0.3, ["frog"]), (0.8, [])])
def test_a_part_that_is_only_learned_a_little_later_is_not(right, named):
    groups, classes = described(PREDICTED)
    looks = [{"epoch": 1, "accuracy": [1.0, 0.0]}, {"epoch": 2, "accuracy": [1.0, right]}]
    classes["frog"]["by_epoch"] = looks
    assert list(taken_blocks(groups, classes, NAMES, {"green": GREEN})) == named


def test_of_two_classes_every_mistake_is_the_other_and_says_nothing():
    groups = groups_from_parts(PARTS[:400], LABELS[:400])
    facts = cluster_facts(certain(PREDICTED[:400]), groups, NAMES[:2])
    classes = {
        name: {"clusters": [facts[group] for group in groups.evidence[label].ids]}
        for label, name in enumerate(NAMES[:2])
    }
    assert taken_blocks(groups, classes, NAMES[:2], {"green": GREEN[:400]}) == {}


def test_it_is_weak_evidence_where_no_block_is_clear():
    task = SimpleNamespace(class_names=NAMES)
    blocks = {label: Block(50, 0.25, 0.9, 1.0, 0.4) for label in range(3)}
    plain = verdict_of(task, blocks, 2)
    assert (plain["overall"], plain["classes"]["frog"]["verdict"]) == (NONE, NONE)
    verdict = verdict_of(task, blocks, 2, found(PREDICTED, GREEN))
    assert verdict["overall"] == WEAK
    assert {name: each["verdict"] for name, each in verdict["classes"].items()} == {
        "frog": WEAK, "insect": NONE, "dog": NONE,
    }  # fmt: skip
    assert verdict["classes"]["frog"]["taken"]["taken_for"] == "insect"
