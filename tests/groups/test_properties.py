"""The properties of the public functions, for a few cases; the campaign tries many more."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from campaign.properties import run
from tests.groups.properties import PROPERTIES, Property, try_cases

CASES = {"documented errors only": 120, "groups are whole": 6, "clear clusters": 4}


@pytest.mark.parametrize("what", PROPERTIES, ids=lambda what: what.name)
def test_property(what):
    tried, error = try_cases(what, CASES.get(what.name, 30), seed=0)
    if error is not None:
        raise error
    assert tried > 0


def test_a_property_that_does_not_hold_is_found_and_counted():
    result = run(50, properties=[Property("small", st.integers(), _must_be_small)])
    assert result["failures"] == 1
    assert result["cases"] >= 1
    assert "AssertionError" in result["details"]["small"]["problem"]


def _must_be_small(number):
    assert number < 10
