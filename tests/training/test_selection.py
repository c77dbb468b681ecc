from __future__ import annotations

import numpy as np
import pytest

from spare.errors import InputError
from spare.training.selection import RULES, rule_named

CORRECT = np.array([1] * 18 + [0] * 2 + [1] * 3 + [0] * 7 + [0], dtype=bool)
GROUPS = np.array([0] * 20 + [1] * 10 + [2])


def test_each_rule_looks_at_what_it_says():
    score = {name: rule.score(4, CORRECT, GROUPS) for name, rule in RULES.items()}
    assert score["val_average"] == pytest.approx(21 / 31)
    assert score["val_worst_group"] == 0.0  # the single example of group 2
    assert score["val_inferred_groups"] == pytest.approx(0.3)  # too small a group does not choose
    assert score["last"] == 4


def test_only_small_inferred_groups_fall_back_to_the_average():
    groups = np.arange(31)
    assert RULES["val_inferred_groups"].score(1, CORRECT, groups) == pytest.approx(21 / 31)


def test_a_rule_without_its_groups_and_an_unknown_rule_are_refused():
    with pytest.raises(InputError, match="needs groups"):
        RULES["val_worst_group"].score(1, CORRECT, None)
    with pytest.raises(InputError, match="did you mean 'val_average'"):
        rule_named("val_avrage")
