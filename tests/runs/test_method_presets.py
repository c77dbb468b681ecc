"""Which part of a preset holds for a pair, and for a method that shares another's."""

from __future__ import annotations

import numpy as np
import pytest

from spare.datasets import DATASETS, locate
from spare.methods import METHODS, method_named
from spare.runs.grid import trained_unlike
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


def test_a_pair_whose_trainer_the_preset_does_not_know_trains_as_its_inference_does(tmp_path):
    np.savez(tmp_path / "own.npz", features=np.eye(4), label=np.arange(4) % 2)
    source = locate(tmp_path / "own.npz")
    plans = [make_plan(source, method_named(m), {}) for m in ("spare", "spare+jtt", "spare+gdro")]
    assert plans[0].settings == plans[1].settings == plans[2].settings
    assert plans[0].settings.weight_decay == 1
    assert plans[0].options.cross_fit == plans[1].options.cross_fit == 10
    assert plans[1].options.upweight == 50  # JTT's default: options are of the half that has them
    assert trained_unlike(plans) == []


def test_methods_that_share_groups_but_not_settings_are_named():
    source = locate("urbancars")

    def notes(overrides):
        names = ("spare", "spare+jtt", "erm", "jtt")
        return trained_unlike([make_plan(source, method_named(n), overrides) for n in names])

    (pair,) = notes({})
    assert "spare and spare+jtt use the same groups but are trained by settings that" in pair
    assert "lr 0.0001 and 0.001" in pair
    assert notes({"lr": "0.001", "weight_decay": "0.1"}) == []


@pytest.mark.parametrize("task", DATASETS)
def test_presets_of_spare_hold_for_bridge(task):
    spare, bridge = (make_plan(locate(task), METHODS[name], {}) for name in ("spare", "bridge"))
    assert spare.settings == bridge.settings
    assert vars(spare.options).items() <= vars(bridge.options).items()
