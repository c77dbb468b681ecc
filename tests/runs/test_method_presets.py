"""Which part of a preset holds for a pair, and for a method that shares another's."""

from __future__ import annotations

import pytest

from spare.datasets import DATASETS, locate
from spare.methods import METHODS, method_named
from spare.runs.plan import make_plan


def test_a_pair_infers_by_one_preset_and_trains_by_the_other():
    source = locate("urbancars")
    pair = make_plan(source, method_named("spare+jtt"), {})
    spare, jtt = (make_plan(source, METHODS[name], {}) for name in ("spare", "jtt"))
    assert pair.options.k_max == spare.options.k_max == 4
    assert pair.options.early_lr == spare.options.early_lr
    assert pair.options.upweight == jtt.options.upweight == 100
    assert pair.settings == jtt.settings
    assert jtt.settings.lr != spare.settings.lr


@pytest.mark.parametrize("task", DATASETS)
def test_presets_of_spare_hold_for_bridge(task):
    spare, bridge = (make_plan(locate(task), METHODS[name], {}) for name in ("spare", "bridge"))
    assert spare.settings == bridge.settings
    assert vars(spare.options).items() <= vars(bridge.options).items()
