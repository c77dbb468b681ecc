"""Groups and their evidence: what is derived from what."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.errors import InputError
from spare.groups.result import ClassClusters, groups_from_clusters, groups_from_parts


def test_a_named_part_keeps_its_rank_where_it_is_empty():
    groups = groups_from_parts([1, 1, 0, 1], ["a", "a", "b", "b"], rank_names=("right", "mistaken"))
    assert groups.names() == ["a right", "a mistaken", "b right", "b mistaken"]
    assert groups.ids.tolist() == [1, 1, 2, 3]
    evidence = groups.evidence["a"]
    assert (evidence.k, evidence.sizes, evidence.shares) == (1, [0, 2], [0.0, 1.0])
    assert groups.in_majority().tolist() == [False, False, True, False]


def test_other_powers_change_the_shares_and_nothing_else():
    groups = groups_from_parts([0, 0, 0, 1, 0, 1], ["a"] * 4 + ["b"] * 2)
    changed = groups.with_powers({"a": 2.0})
    assert changed.powers() == {"a": 2.0, "b": 1.0}
    assert changed.evidence["a"].shares == pytest.approx([0.25, 0.75])
    assert changed.evidence["b"] == groups.evidence["b"]
    assert groups.powers() == {"a": 1.0, "b": 1.0}


def test_evidence_derives_what_can_be_derived():
    evidence = spare.ClassEvidence(sizes=[6, 2], scores={2: 0.7, 3: 0.8}, first_id=5)
    assert (evidence.k, evidence.silhouette, evidence.ids) == (2, 0.8, [5, 6])
    assert spare.ClassEvidence(sizes=[3]).silhouette is None


def test_classes_follow_each_other_in_ids():
    clusters = {9: ClassClusters(np.array([0, 1])), 2: ClassClusters(np.array([0]))}
    groups = groups_from_clusters(clusters, np.array([9, 2, 9]), powers={9: 2.0, 2: 1.0})
    assert groups.ids.tolist() == [0, 2, 1]
    assert groups.powers() == {9: 2.0, 2: 1.0}


def test_groups_that_were_not_made_from_outputs_take_no_other_example():
    with pytest.raises(InputError, match="not made from outputs"):
        groups_from_parts([0, 1], ["a", "a"]).assign([[0.1]], ["a"])
