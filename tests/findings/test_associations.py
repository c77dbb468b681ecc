"""Cramér's V as the paper defines it, within classes, with intervals, for any attribute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats.contingency import association

from spare.data.inputs import TensorInputs
from spare.findings.associations import (
    MOST_VALUES,
    associations,
    associations_of,
    binned,
    picture_statistics,
    pooled_v,
)
from spare.groups.result import groups_from_parts
from tests.conftest import toy_task

rng = np.random.default_rng(0)


def ranked_for(ids, labels, attributes, values=None, **more):
    values = values or {
        name: [f"v{i}" for i in range(max(codes) + 1)] for name, codes in attributes.items()
    }
    return associations(ids, labels, attributes, values, class_names=("cat", "dog"), **more)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 5), (4, 4)])
def test_v_equals_scipys(shape):
    table = rng.integers(1, 50, shape)
    assert pooled_v([table]) == pytest.approx(association(table, method="cramer"))


def test_an_attribute_that_goes_with_the_label_alone_does_not_go_with_the_clusters():
    labels = np.repeat([0, 1], 500)
    ids = labels * 2 + (rng.random(1000) < 0.1)
    place = np.where(ids % 2 == 1, 1 - labels, labels)  # the shortcut, broken in small clusters
    other = rng.integers(0, 3, 1000)
    ranked = ranked_for(ids, labels, {"other": other, "label": labels, "place": place})
    assert [each["attribute"] for each in ranked] == ["place", "other"]  # label varies in no class
    assert ranked[0]["v"] == pytest.approx(1)
    assert ranked[0]["classes"] == {"cat": pytest.approx(1), "dog": pytest.approx(1)}
    assert ranked[0]["clusters"]["1"]["value"] == "v1"
    assert ranked[0]["clusters"]["1"]["share"] == 1
    assert ranked[0]["clusters"]["1"]["class_share"] == pytest.approx(0.1, abs=0.04)
    assert ranked[1]["v"] < 0.15


def test_the_interval_holds_v_and_narrows_with_examples():
    def interval(n):
        labels = np.zeros(n, dtype=int)
        ids = (np.arange(n) % 10 == 0).astype(int)
        codes = np.where(np.random.default_rng(1).random(n) < 0.7, ids, 1 - ids)
        (only,) = ranked_for(ids, labels, {"a": codes})
        low, high = only["interval"]
        assert low <= only["v"] <= high
        return high - low

    assert interval(20_000) < interval(500) / 3


def test_thousands_of_values_and_missing_ones_are_lumped():
    labels = np.zeros(4000, dtype=int)
    ids = np.arange(4000) % 2
    many = np.arange(4000) % 3000
    many[:100] = -1
    (only,) = ranked_for(ids, labels, {"many": many}, {"many": [f"v{i}" for i in range(3000)]})
    values = {cluster["value"] for cluster in only["clusters"].values()}
    assert len(values) == 2
    assert only["v"] <= 1
    half = np.where(ids == 1, -1, 0)
    (only,) = ranked_for(ids, labels, {"half": half}, {"half": ["known"]})
    assert only["clusters"]["1"]["value"] == "(missing)"
    assert only["v"] == pytest.approx(1)
    nothing = np.full(4000, -1)
    assert ranked_for(ids, labels, {"nothing": nothing}, {"nothing": []}) == []
    assert MOST_VALUES < 3000


def test_numbers_become_a_few_values():
    codes, names = binned(np.array([0.0, 0.0, 0.0, 5.0, np.nan]))
    assert codes[-1] == -1
    assert codes[3] == max(codes) == len(names) - 1
    assert binned(np.full(5, np.nan))[1] == ()
    codes, names = binned(np.full(5, 2.0))
    assert names == ("2",)
    assert set(codes) == {0}


def test_a_task_is_compared_with_its_attributes_and_with_what_its_pictures_show():
    task = toy_task(n=200)
    place = task.train.attributes["place"]
    pixels = torch.randint(0, 50, (200, 3, 6, 6), dtype=torch.uint8)
    pixels[torch.as_tensor(place == 1), 2] += 150  # one place is blue
    task = replace(task, train=replace(task.train, inputs=TensorInputs(pixels)))
    groups = groups_from_parts((place != task.train.labels).astype(int), task.train.labels)
    ranked = associations_of(task, groups, 0, picture_statistics(task))
    strength = {each["attribute"]: each["v"] for each in ranked}
    assert ranked[0]["attribute"] == "place"
    assert strength["place"] == pytest.approx(1)
    assert strength["image: blue"] > 0.5 > strength["image: sharpness"]
    assert ranked == associations_of(task, groups, 0, picture_statistics(task))
    assert "image: size" not in strength  # the sizes of these pictures are not known
    heights = np.where(place, 10, 200) + np.arange(200) % 10
    known = replace(task, sizes=np.stack([heights, np.full(200, 5)], 1))
    strength = {
        each["attribute"]: each["v"]
        for each in associations_of(known, groups, 0, picture_statistics(known))
    }
    assert strength["image: size"] > 0.8


def test_data_without_pictures_has_only_its_attributes():
    task = toy_task(n=200)
    minority = (task.train.attributes["place"] != task.train.labels).astype(int)
    groups = groups_from_parts(minority, task.train.labels)
    assert [
        each["attribute"] for each in associations_of(task, groups, 0, picture_statistics(task))
    ] == ["place"]


def test_facts_are_compared_too_and_over_all_examples_as_in_the_paper():
    task = toy_task(n=200)
    labels, place = task.train.labels, task.train.attributes["place"]
    minority = (place != labels).astype(int)
    facts = {"label again": labels, "minority": minority, "noise": np.arange(200) % 3}
    names = {"label again": ("a", "b"), "minority": ("no", "yes"), "noise": ("0", "1", "2")}
    task = replace(task, facts=facts, fact_values=names)
    groups = groups_from_parts(minority, labels)
    found = {each["attribute"]: each for each in associations_of(task, groups, 0, {})}
    assert set(found) == {"place", *facts}
    assert found["minority"]["v"] == found["minority"]["over_all"] == pytest.approx(1)
    # Within a class the label says nothing; over all examples it says what scipy says.
    assert found["label again"]["v"] == 0
    table = np.zeros((2, 2), dtype=int)
    np.add.at(table, (minority, labels), 1)
    expected = association(table, method="cramer")
    assert found["label again"]["over_all"] == pytest.approx(expected)
    assert found["noise"]["over_all"] < 0.3
    assert task.as_seen_by("train").facts == {}
