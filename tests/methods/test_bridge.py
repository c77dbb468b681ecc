"""Bridge: SPARE's groups and sampling, and features of a class's clusters that come together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spare.datasets import DATASETS, locate
from spare.errors import InputError, SpareWarning
from spare.methods import METHODS, method_named
from spare.methods.bridge import METHOD, BridgeOptions
from spare.models import Classifier
from spare.objectives.bridge import distance
from spare.runs.plan import plan
from tests.methods.test_methods import fit


def options(**more):
    return METHOD.options(separate_at=2, k=2, **more)


def spare_like(task):
    return fit(METHODS["spare"], task, METHODS["spare"].options(separate_at=2, k=2))[0]


def same_weights(one, two):
    return all(value.equal(two.trained.last[name]) for name, value in one.trained.last.items())


def test_without_weight_it_is_spare_to_the_bit_and_with_weight_it_is_not(toy):
    spare = spare_like(toy)
    assert same_weights(spare, fit(METHOD, toy, options(bridge_weight=0))[0])
    bridge, stages = fit(METHOD, toy, options(bridge_weight=1))
    assert not same_weights(spare, bridge)
    assert (spare.groups.ids == bridge.groups.ids).all()
    assert (spare.probabilities == bridge.probabilities).all()
    assert stages.examples_seen == 6 * len(toy.train)


def test_the_clusters_of_a_class_come_closer_than_without(toy):
    def apart(fitted):
        model = fitted.trained.model
        model.load_state_dict(fitted.trained.last)
        with torch.no_grad():
            hidden = model.features(toy.train.inputs.tensor)
        labels, parts = (
            torch.as_tensor(toy.train.labels),
            torch.as_tensor(fitted.groups.in_majority()),
        )
        return distance(hidden, labels, parts, 0.1).item()

    assert apart(fit(METHOD, toy, options(bridge_weight=1))[0]) < apart(spare_like(toy)) - 0.1


def test_a_bare_head_has_nothing_to_pull_and_says_so(toy):
    bare = replace(toy, build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(2, 2)))
    with pytest.warns(SpareWarning, match="does what spare does: choose a model with features"):
        bridge, _ = fit(METHOD, bare, options(bridge_weight=1))
    assert same_weights(spare_like(bare), bridge)


@pytest.mark.parametrize("task", DATASETS)
def test_presets_of_spare_hold_for_it(task):
    spare, bridge = (plan(locate(task), METHODS[name], {}) for name in ("spare", "bridge"))
    assert spare.settings == bridge.settings
    assert vars(spare.options).items() <= vars(bridge.options).items()


def test_it_goes_with_any_groups(toy):
    fitted, _ = fit(method_named("truth+bridge"), toy)
    assert len(set(fitted.groups.ids)) == 4
    with pytest.raises(InputError, match="name it bridge"):
        method_named("spare+bridge")


@pytest.mark.parametrize(
    ("given", "says"),
    [({"bridge_weight": -1.0}, "at least 0"), ({"bridge_temperature": 0.0}, "above 0")],
)
def test_options_out_of_range_are_one_sentence(given, says):
    with pytest.raises(InputError, match=says):
        BridgeOptions(**given)
