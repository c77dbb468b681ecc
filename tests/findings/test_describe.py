"""What the record says of every class and cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spare.findings.describe import describe_groups
from spare.groups.result import groups_from_parts
from spare.groups.weights import importance_weights
from spare.methods.outputs import early_outputs
from tests.conftest import toy_task


@pytest.fixture
def task():
    return toy_task(n=400)


def groups_of(task):
    """The true groups: the examples whose place is not their class's are the minority."""
    broken = task.train.attributes["place"] != task.train.labels
    return groups_from_parts(broken.astype(int), task.train.labels)


def test_each_class_has_its_sizes_shares_and_recovery(task):
    groups = groups_of(task)
    sampling = importance_weights(groups, task.train.labels)
    described = describe_groups(task, groups, sampling)
    assert list(described) == ["left", "right"]
    for label, class_groups in enumerate(described.values()):
        sizes = np.bincount(groups.ids)[2 * label : 2 * label + 2]
        assert class_groups["sizes"] == sizes.tolist()
        assert class_groups["shares"] == pytest.approx([0.5, 0.5])
        assert class_groups["minority"] == sizes[1]
        assert (class_groups["recall"], class_groups["precision"]) == (1.0, 1.0)
        assert "clusters" not in class_groups


def test_without_true_groups_there_is_nothing_to_score(task):
    groups = groups_of(task)
    blind = replace(task, train=replace(task.train, attributes=None))
    described = describe_groups(blind, groups, np.full(400, 1 / 400))
    assert "recall" not in described["left"]


def test_clusters_are_described_by_the_last_model_and_followed_over_epochs(task):
    groups = groups_of(task)
    place = task.train.attributes["place"]
    wrong = np.where(place[:, None] == np.arange(2), 0.9, 0.1)  # goes by the place
    right = np.where(task.train.labels[:, None] == np.arange(2), 0.8, 0.2)
    early = [early_outputs(1, wrong), early_outputs(2, right), early_outputs(1, wrong)]
    described = describe_groups(task, groups, np.full(400, 1 / 400), early)
    majority, minority = described["left"]["clusters"]
    assert (majority["accuracy"], majority["mistaken_for"]) == (1.0, None)
    assert (minority["accuracy"], minority["mistaken_for"]) == (0.0, "right")
    assert minority["confidence"] == pytest.approx(0.9)
    assert described["left"]["by_epoch"] == [
        {"epoch": 1, "accuracy": [1.0, 0.0], "confidence": pytest.approx([0.9, 0.9])},
        {"epoch": 2, "accuracy": [1.0, 1.0], "confidence": pytest.approx([0.8, 0.8])},
    ]


def test_components_tell_the_mistaken_from_the_rest():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 40)
    taken_for = np.where(np.arange(120) % 10 == 0, (labels + 1) % 3, labels)
    logits = rng.normal(0, 0.2, (120, 3)) + 4 * (taken_for[:, None] == np.arange(3))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    points = early_outputs(1, probabilities, labels).points
    for label in range(3):
        mistaken = (labels == label) & (taken_for != label)
        rest = (labels == label) & (taken_for == label)
        assert np.abs(points[mistaken, 0]).min() > np.abs(points[rest, 0]).max()
    of_two = probabilities[:, :2] / probabilities[:, :2].sum(1, keepdims=True)
    assert (np.abs(early_outputs(1, of_two, labels % 2).points[:, 1]) < 1e-5).all()
