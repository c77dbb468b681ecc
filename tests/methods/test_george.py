"""GEORGE: whose features are clustered, and what the second training takes the worst case over."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.errors import InputError, SpareWarning
from spare.groups.strata import infer_strata
from spare.methods import METHODS, george
from spare.objectives.group_dro import GroupDro
from spare.training.outputs import outputs
from tests.methods.test_methods import SETTINGS, fit, stages_for

GEORGE = METHODS["george"]


def options(**more):
    return GEORGE.options(**{"reduction": "pca", "strata_max": 4} | more)


@pytest.fixture
def strata_calls(monkeypatch):
    """What `infer_strata` was called with."""
    calls = []

    def spy(*arguments, **more):
        calls.append((arguments, more))
        return infer_strata(*arguments, **more)

    monkeypatch.setattr(george, "infer_strata", spy)
    return calls


def test_the_worst_case_is_over_the_clusters_all_sampled_with_the_same_mass(toy, stage_calls):
    fitted, stages = fit(GEORGE, toy, options(eta=0.5))
    batches, objective = stage_calls["train"]["batches"], stage_calls["train"]["objective"]
    assert isinstance(objective, GroupDro)
    groups = fitted.inferred.groups.ids
    assert (objective._codes.numpy() == groups).all()
    assert objective.eta == 0.5
    assert len(objective.q) == groups.max() + 1 >= 4
    assert objective.q.std() > 0  # they have moved
    rows = np.concatenate([np.concatenate(batches(np.random.default_rng(i))) for i in range(20)])
    shares = np.bincount(groups[rows]) / len(rows)
    assert shares == pytest.approx(np.full(len(shares), 1 / len(shares)), abs=0.03)
    assert fitted.probabilities.sum() == pytest.approx(1)
    # A whole plain training, then a whole one with Group DRO: twice the cost.
    assert stages.cost.examples_seen == 2 * SETTINGS.epochs * len(toy.train)


@pytest.mark.parametrize("best_average", [False, True])
def test_the_features_are_those_of_the_last_epoch_or_of_the_best_average(
    toy, stage_calls, best_average
):
    # With this rate the best epoch is not the last, so that the two can be told apart.
    settings = replace(SETTINGS, epochs=6, lr=0.3)
    fitted, _ = fit(GEORGE, toy, options(best_average=best_average), settings=settings)
    inferred = fitted.inferred
    trained = stage_calls["early/reference"]["trained"]
    assert stage_calls["early/reference"]["select"] == ("val_average" if best_average else "")
    state, epoch = trained.last, 6
    if best_average:
        best = trained.kept["val_average"]
        assert best.epoch < 6
        state, epoch = best.state, best.epoch
    assert inferred.notes["separated_at"] == inferred.early_epoch == epoch
    trained.model.load_state_dict(state)
    of_split = {
        name: outputs(trained.model, split, settings, features=True)
        for name, split in toy.splits().items()
    }
    expected = infer_strata(
        of_split["train"].features,
        toy.train.labels,
        torch.nn.functional.cross_entropy(
            of_split["train"].logits, torch.tensor(toy.train.labels), reduction="none"
        ),
        val=(of_split["val"].features, toy.val.labels),
        reduction="pca",
        strata_max=4,
    )
    assert (inferred.groups.ids == expected.ids).all()
    assert set(inferred.held_out) == {"val", "test"}
    for name, ids in inferred.held_out.items():
        split = toy.splits()[name]
        assert (ids == expected.assign(of_split[name].features, split.labels)).all()


def test_pieces_are_chosen_by_losses_and_by_validation(toy, strata_calls):
    fit(GEORGE, toy, options())
    fit(GEORGE, toy, options(overcluster=False))
    (features, labels, losses), more = strata_calls[0]
    assert len(features) == len(losses) == len(toy.train)
    assert losses.min() >= 0
    assert (labels == toy.train.labels).all()
    assert len(more["val"][0]) == len(toy.val)
    assert (more["val"][1] == toy.val.labels).all()
    assert more["overcluster"]
    assert strata_calls[1][0][2] is None
    assert not strata_calls[1][1]["overcluster"]


def test_without_validation_the_last_weights_are_used(toy, stage_calls):
    alone = replace(toy, val=None, test=None)
    fitted, _ = fit(GEORGE, alone, options(best_average=True))
    assert fitted.inferred.notes["separated_at"] == SETTINGS.epochs
    assert fitted.inferred.held_out == {}
    assert stage_calls["early/reference"]["trained"].kept == {}
    assert fitted.inferred.groups.ids.max() >= 3


def test_it_finds_the_minorities(toy):
    fitted, _ = fit(GEORGE, toy, options(strata_max=2), settings=replace(SETTINGS, epochs=8))
    minority = toy.train.attributes["place"] != toy.train.labels
    assert (~fitted.inferred.groups.in_majority())[minority].mean() > 0.9


def test_the_boundary_of_two_classes_is_that_of_the_clustered_model(toy, stage_calls, strata_calls):
    fitted, _ = fit(GEORGE, toy, options(reduction="boundary"))
    trained = stage_calls["early/reference"]["trained"]
    weight = trained.last["head.weight"]
    assert strata_calls[0][1]["normal"].equal(weight[1] - weight[0])
    assert strata_calls[0][1]["reduction"] == "boundary"
    assert fitted.inferred.notes["reduction"] == "boundary"


def test_the_boundary_of_three_classes_is_refused_before_anything_is_trained(toy, stage_calls):
    labels = np.arange(len(toy.train)) % 3
    three = replace(
        toy,
        train=replace(toy.train, labels=labels),
        val=None,
        test=None,
        class_names=("left", "middle", "right"),
    )
    with pytest.raises(InputError, match="for two classes, and toy has 3"):
        fit(GEORGE, three, options(reduction="boundary"))
    assert not stage_calls


def test_a_missing_umap_is_one_warning_and_a_note(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    task = toy.as_seen_by("none")
    with pytest.warns(SpareWarning, match="umap-learn is not installed") as caught:
        inferred = george.INFERENCE.infer(task, stages_for(), GEORGE.options(strata_max=2))
    assert len(caught) == 1
    assert inferred.notes["reduction"] == "pca"


def test_its_paper_selects_by_the_worst_cluster_on_validation():
    assert GEORGE.paper_rule == "val_inferred_groups"
    assert GEORGE.sees(GEORGE.options()) == "none"
    assert GEORGE.cost == "2x"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"reduction": "pac"}, "did you mean 'pca'"), ({"strata_max": 1}, "strata_max is from 2")],
)
def test_impossible_options_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        GEORGE.options(**wrong)
