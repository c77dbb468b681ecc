"""Outputs that someone brings, and discoveries, which end with the groups."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.errors import InputError, SpareWarning
from spare.groups.clusters import infer_groups
from spare.groups.weights import importance_weights
from spare.methods import INFERENCES, METHODS, discovery_with, outputs
from spare.methods.outputs import ClusteringOptions
from tests.methods.test_methods import SETTINGS, SHORTER, fit, stages_for


@pytest.fixture
def brought(toy):
    """The toy task with the logits of a model that has learned the shortcut as its inputs."""
    rng = np.random.default_rng(0)

    def logits(split):
        place = split.attributes["place"]
        margins = (2 * place - 1) * 2.0 + rng.normal(0, 0.2, len(place))
        points = np.stack([-margins, margins], 1)
        return replace(split, inputs=TensorInputs(torch.tensor(points, dtype=torch.float32)))

    splits = {name: logits(split) for name, split in toy.splits().items()}
    return replace(toy, **splits, build_model=None, holds_outputs=True)


def points_of(split):
    return split.inputs.take(np.arange(len(split)))


@pytest.mark.parametrize("name", ["outputs", "spare"])
@pytest.mark.parametrize("output", ["softmax", "logits"])
def test_brought_outputs_are_clustered_as_they_are(brought, name, output, stage_calls):
    method = discovery_with(name)
    fitted, stages = fit(method, brought, method.options(k=2, output=output))
    given = {split: points_of(brought.splits()[split]) for split in ("train", "val", "test")}
    if output == "softmax":
        given = {split: points.softmax(1) for split, points in given.items()}
    groups = infer_groups(given["train"], brought.train.labels, k=2)
    inferred = fitted.inferred
    assert (inferred.groups.ids == groups.ids).all()
    assert inferred.groups.evidence == groups.evidence
    for split, ids in inferred.held_out.items():
        assert (ids == groups.assign(given[split], brought.splits()[split].labels)).all()
    assert inferred.notes == {"separated_at": None}
    (early,) = inferred.early_outputs
    assert early.epoch is None
    probabilities = points_of(brought.train).softmax(1)
    assert (early.predicted == probabilities.argmax(1).numpy()).all()
    assert early.confidence == pytest.approx(probabilities.amax(1).numpy())
    assert not stage_calls
    assert stages.cost.examples_seen == 0


def test_probabilities_stay_as_they_are_whatever_is_asked_for(brought):
    shares = points_of(brought.train).softmax(1)
    train = replace(brought.train, inputs=TensorInputs(shares))
    task = replace(brought, train=train, val=None, test=None)
    inferred = outputs.infer(task, stages_for(), ClusteringOptions(k=2))
    assert (inferred.groups.ids == infer_groups(shares, train.labels, k=2).ids).all()
    assert inferred.early_outputs[0].confidence == pytest.approx(shares.amax(1).numpy())


def test_warnings_name_the_class(brought):
    flat = torch.zeros(len(brought.train), 2)
    task = replace(brought, train=replace(brought.train, inputs=TensorInputs(flat)))
    with pytest.warns(SpareWarning) as caught:
        fit(discovery_with("outputs"), task)
    assert [str(warning.message) for warning in caught] == [
        f"class {name!r}: all outputs are identical: one cluster." for name in task.class_names
    ]


@pytest.mark.parametrize("name", ["jtt", "eiil", "george", "ssa", "xrm"])
def test_other_inferences_refuse_brought_outputs(brought, name):
    method = discovery_with(name)
    with pytest.raises(InputError, match="use --inference outputs") as caught:
        fit(method, brought, method.options())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cnc", "dfr", "dfr_val"])
def test_methods_with_an_early_model_refuse_brought_outputs(brought, name):
    with pytest.raises(InputError, match="use --inference outputs"):
        fit(METHODS[name], brought)


def test_inputs_are_not_outputs(toy):
    with pytest.raises(InputError, match=r"toy holds inputs.*use --inference spare"):
        fit(discovery_with("outputs"), toy)


def test_spare_has_the_options_of_clustering_too():
    shared = {field.name for field in fields(ClusteringOptions)}
    assert shared == {"output", "k", "k_max", "power", "weigh", "clusterer"}
    assert shared < {field.name for field in fields(METHODS["spare"].options)}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"clusterer": "kmean"}, "did you mean 'kmeans'"),
        ({"output": "sofmax"}, "did you mean 'softmax'"),
        ({"k": -1}, "k is from 0"),
        ({"k_max": 1}, "k_max is at least 2"),
    ],
)
def test_impossible_options_are_refused_before_anything_is_trained(wrong, says):
    for options in (ClusteringOptions, METHODS["spare"].options):
        with pytest.raises(InputError, match=says):
            options(**wrong)


@pytest.mark.parametrize("clusterer", ["gmm", "agglomerative", "sklearn.cluster:Birch"])
def test_spare_with_another_clusterer(toy, clusterer):
    options = METHODS["spare"].options(k=2, separate_at=3, clusterer=clusterer, output="logits")
    fitted, _ = fit(METHODS["spare"], toy, options)
    minority = toy.train.attributes["place"] != toy.train.labels
    assert (~fitted.inferred.groups.in_majority())[minority].mean() > 0.8
    assert set(fitted.inferred.held_out) == {"val", "test"}


def test_a_clusterer_that_cannot_be_imported_is_refused_before_anything_is_trained(
    toy, stage_calls
):
    with pytest.raises(InputError, match="cannot be imported"):
        fit(METHODS["spare"], toy, METHODS["spare"].options(clusterer="no_such_module:NAME"))
    assert not stage_calls


DISCOVERED = [name for name in INFERENCES if name not in ("given", "outputs")]


@pytest.mark.parametrize("name", DISCOVERED)
def test_a_discovery_infers_as_the_method_does_and_stops(toy, name, stage_calls):
    method = discovery_with(name)
    assert not method.trains
    assert method.name == ("spare" if name == "spare" else f"{name}+spare")
    options = method.options(**SHORTER.get(name, {}))
    fitted, _ = fit(method, toy, options)
    assert fitted.trained is None
    assert "train" not in stage_calls
    task = toy.as_seen_by(method.sees(options))
    inferred = INFERENCES[name].infer(task, stages_for(), options)
    assert (fitted.inferred.groups.ids == inferred.groups.ids).all()
    expected = importance_weights(inferred.groups, toy.train.labels)
    assert (fitted.probabilities == expected).all()


@pytest.mark.filterwarnings("ignore:the early model has learned next to nothing")
def test_a_discovery_weighs_classes_as_its_options_say(toy):
    uneven = toy.train.labels * (np.arange(400) % 8 < 2)  # 50 of class 1
    task = replace(toy, train=replace(toy.train, labels=uneven))
    method = discovery_with("spare")
    fitted, _ = fit(method, task, method.options(separate_at=1, class_mass="natural", power=(1.0,)))
    assert fitted.probabilities[uneven == 1].sum() == pytest.approx(0.125)


def test_an_unknown_inference_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="unknown inference 'spear': did you mean 'spare'"):
        discovery_with("spear")


def test_early_weights_are_those_of_the_epoch_that_is_named(toy, stage_calls):
    for name, options in (
        ("jtt", {"reference_epochs": 2}),
        ("eiil", {"reference_epochs": 3, "environment_steps": 0}),
        ("spare", {"separate_at": 2}),
    ):
        method = METHODS[name]
        inferred = fit(method, toy, method.options(**options))[0].inferred
        stage = "early/2" if name == "spare" else "early/reference"
        call = stage_calls[stage]
        assert inferred.early is call["trained"].last
        assert inferred.early_epoch == call["settings"].epochs != SETTINGS.epochs
