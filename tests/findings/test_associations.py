"""Cramér's V as the paper defines it, within classes, with intervals, for any attribute."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association

from spare.findings.associations import MOST_VALUES, associations, cramers_v, parted

rng = np.random.default_rng(0)


def found_for(ids, labels, attributes, values=None, **more):
    values = values or {
        name: [f"v{i}" for i in range(max(codes) + 1)] for name, codes in attributes.items()
    }
    return associations(ids, labels, attributes, values, class_names=("cat", "dog"), **more)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 5), (4, 4)])
def test_v_is_scipys(shape):
    table = rng.integers(1, 50, shape)
    assert cramers_v(table) == pytest.approx(association(table, method="cramer"))


def test_an_attribute_that_goes_with_the_label_alone_does_not_go_with_the_clusters():
    labels = np.repeat([0, 1], 500)
    ids = labels * 2 + (rng.random(1000) < 0.1)
    place = np.where(ids % 2 == 1, 1 - labels, labels)  # the shortcut, broken in small clusters
    other = rng.integers(0, 3, 1000)
    ranked = found_for(ids, labels, {"other": other, "label": labels, "place": place})
    assert [one["attribute"] for one in ranked] == ["place", "other"]  # label varies in no class
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
        (one,) = found_for(ids, labels, {"a": codes})
        low, high = one["interval"]
        assert low <= one["v"] <= high
        return high - low

    assert interval(20_000) < interval(500) / 3


def test_thousands_of_values_and_missing_ones_are_lumped():
    labels = np.zeros(4000, dtype=int)
    ids = np.arange(4000) % 2
    many = np.arange(4000) % 3000
    many[:100] = -1
    (one,) = found_for(ids, labels, {"many": many}, {"many": [f"v{i}" for i in range(3000)]})
    named = {cluster["value"] for cluster in one["clusters"].values()}
    assert len(named) == 2
    assert one["v"] <= 1
    half = np.where(ids == 1, -1, 0)
    (one,) = found_for(ids, labels, {"half": half}, {"half": ["known"]})
    assert one["clusters"]["1"]["value"] == "(missing)"
    assert one["v"] == pytest.approx(1)
    nothing = np.full(4000, -1)
    assert found_for(ids, labels, {"nothing": nothing}, {"nothing": []}) == []
    assert MOST_VALUES < 3000


def test_numbers_become_a_few_values():
    codes, called = parted(np.array([0.0, 0.0, 0.0, 5.0, np.nan]))
    assert codes[-1] == -1
    assert codes[3] == max(codes) == len(called) - 1
    assert parted(np.full(5, np.nan))[1] == ()
    codes, called = parted(np.full(5, 2.0))
    assert called == ("2",)
    assert set(codes) == {0}
