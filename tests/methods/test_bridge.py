"""Bridge: SPARE's groups and sampling, and features of a class's clusters that come together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spare.errors import InputError, SpareWarning
from spare.methods import METHODS, method_named
from spare.methods.bridge import METHOD, BridgeOptions
from spare.models import Classifier
from spare.objectives.bridge import distance
from tests.methods.test_methods import fit


def options(**more):
    return METHOD.options(separate_at=2, k=2, **more)


def spare_like(task):
    return fit(METHODS["spare"], task, METHODS["spare"].options(separate_at=2, k=2))[0]


def same_weights(fitted, expected):
    last = fitted.trained.last
    return all(value.equal(last[name]) for name, value in expected.trained.last.items())


def test_without_weight_it_is_spare_to_the_bit_and_with_weight_it_is_not(toy):
    spare = spare_like(toy)
    assert same_weights(fit(METHOD, toy, options(bridge_weight=0))[0], spare)
    bridge, stages = fit(METHOD, toy, options(bridge_weight=1))
    assert not same_weights(bridge, spare)
    assert (spare.inferred.groups.ids == bridge.inferred.groups.ids).all()
    assert (spare.probabilities == bridge.probabilities).all()
    assert stages.cost.examples_seen == 6 * len(toy.train)


def test_the_clusters_of_a_class_come_closer_than_without(toy):
    def apart(fitted):
        model = fitted.trained.model
        model.load_state_dict(fitted.trained.last)
        with torch.no_grad():
            hidden = model.features(toy.train.inputs.tensor)
        labels, parts = (
            torch.as_tensor(toy.train.labels),
            torch.as_tensor(fitted.inferred.groups.in_majority()),
        )
        return distance(hidden, labels, parts, 0.1).item()

    assert apart(fit(METHOD, toy, options(bridge_weight=1))[0]) < apart(spare_like(toy)) - 0.1


def test_a_bare_head_is_trained_as_by_spare_with_a_warning(toy):
    bare = replace(toy, build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(2, 2)))
    with pytest.warns(SpareWarning, match="does what spare does: choose a model whose features"):
        bridge, _ = fit(METHOD, bare, options(bridge_weight=1))
    assert same_weights(bridge, spare_like(bare))


def test_it_trains_with_any_groups(toy):
    fitted, _ = fit(method_named("truth+bridge"), toy)
    assert len(set(fitted.inferred.groups.ids)) == 4
    with pytest.raises(InputError, match="call it bridge"):
        method_named("spare+bridge")


@pytest.mark.parametrize(
    ("given", "says"),
    [({"bridge_weight": -1.0}, "from 0"), ({"bridge_temperature": 0.0}, "above 0")],
)
def test_options_out_of_range_are_one_sentence(given, says):
    with pytest.raises(InputError, match=says):
        BridgeOptions(**given)
