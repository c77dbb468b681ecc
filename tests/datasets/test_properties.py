"""The properties of the readers, for a few cases; the campaign tries many more."""

from __future__ import annotations

import pytest

from tests.datasets.properties import PROPERTIES
from tests.groups.properties import try_cases


@pytest.mark.parametrize("what", PROPERTIES, ids=lambda what: what.name)
def test_property(what):
    tried, error = try_cases(what, 25, seed=0)
    if error is not None:
        raise error
    assert tried > 0
