"""Automatic feature reweighting: the weights, the pull to the plain last layer, who chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.errors import InputError, SpareWarning
from spare.methods import METHODS, afr
from spare.methods.afr import AfrOptions, example_weights, reweighted_layer, reweighted_rows
from spare.methods.dfr import Layer
from spare.models import Classifier
from spare.training.selection import RULES, worst_accuracy
from tests.conftest import sampled_rows, toy_task
from tests.methods.test_methods import SETTINGS, fit, stages_for

AFR = METHODS["afr"]


def test_weights_are_the_papers():
    p, labels = np.array([0.9, 0.2, 0.5, 0.5]), np.array([0, 0, 0, 1])
    weights = example_weights(p, labels, gamma=3.0)
    expected = np.exp(-3 * p) / [3, 3, 3, 1]
    assert weights == pytest.approx(expected / expected.sum())
    assert weights.sum() == pytest.approx(1)
    balanced = example_weights(p, labels, gamma=0.0)
    assert balanced[labels == 0].sum() == pytest.approx(balanced[labels == 1].sum())


def problem():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features = rng.normal(size=(60, 4)) + np.eye(4)[labels]
    plain = Layer(rng.normal(size=(3, 4)), rng.normal(size=3))
    return plain, features, labels, np.full(60, 1 / 60)


def distance(one: Layer, other: Layer) -> float:
    return float(((one.weight - other.weight) ** 2).sum() + ((one.bias - other.bias) ** 2).sum())


def test_the_penalty_pulls_to_the_plain_layer():
    plain, *examples = problem()
    fits = [reweighted_layer(plain, *examples, strength) for strength in (0.01, 0.1, 1.0, 1e6)]
    away = [distance(layer, plain) for layer, _ in fits]
    assert away == sorted(away, reverse=True)
    assert away[0] > 0.1
    assert away[-1] == pytest.approx(0, abs=1e-6)


def test_a_fit_is_the_optimum_that_torch_sees():
    plain, features, labels, weights = problem()
    layer, value = reweighted_layer(plain, features, labels, weights, 0.1)
    head = torch.tensor(layer.weight, requires_grad=True)
    bias = torch.tensor(layer.bias, requires_grad=True)
    logits = torch.tensor(features) @ head.T + bias
    losses = torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="none")
    away = ((head - torch.tensor(plain.weight)) ** 2).sum()
    away = away + ((bias - torch.tensor(plain.bias)) ** 2).sum()
    loss = (torch.tensor(weights) * losses).sum() + 0.1 * away
    loss.backward()
    assert value == pytest.approx(loss.item())
    assert head.grad.abs().max() < 1e-4
    assert bias.grad.abs().max() < 1e-4


def test_a_share_of_every_class_is_held_out_and_never_all_of_it():
    labels = np.repeat([0, 1, 2, 3], [50, 10, 2, 1])
    rows = reweighted_rows(labels, 0.2, np.random.default_rng(0))
    assert np.bincount(labels[rows], minlength=4).tolist() == [10, 2, 1, 0]
    assert len(set(rows.tolist())) == len(rows)
    with pytest.raises(InputError, match="every class has a single training example: add some"):
        reweighted_rows(np.arange(5), 0.2, np.random.default_rng(0))


def test_plain_training_never_sees_the_examples_of_the_last_layer(toy, stage_calls):
    fitted, stages = fit(AFR, toy)
    rows = sampled_rows(stage_calls["early/base"])
    held_out = np.setdiff1d(np.arange(len(toy.train)), rows)
    assert len(held_out) == fitted.notes["reweighted_examples"] == len(toy.train) / 5
    assert len(rows) == len(set(rows.tolist()))
    assert stages.cost.examples_seen == SETTINGS.epochs * len(rows)
    base = stage_calls["early/base"]["trained"]
    differ = {n for n, value in fitted.trained.last.items() if not value.equal(base.last[n])}
    assert differ == {"head.weight", "head.bias"}


def test_a_huge_lambda_gives_the_predictions_of_plain_training(toy, stage_calls):
    fitted, stages = fit(AFR, toy, AfrOptions(lambda_grid=(1e9,)))
    base = stage_calls["early/base"]["trained"]
    ours = stages.outputs(fitted.trained, toy.test).logits.argmax(1)
    assert torch.equal(ours, stages.outputs(base, toy.test).logits.argmax(1))


def judged_by(rule, task):
    """Stages whose judge is one rule, and what they kept."""
    kept = []
    groups = task.groups(task.val)

    def judge(epoch):
        return {"rule": RULES[rule].score(replace(epoch, groups=groups))}, {"score": 1.0}

    stages = stages_for(keep=kept.append)
    stages._judge = judge
    return stages, kept


@pytest.mark.parametrize("rule", ["val_worst_group", "val_worst_class", "last"])
def test_the_runs_rule_selects_gamma_and_lambda(rule, toy):
    options = AfrOptions()
    stages, kept = judged_by(rule, toy)
    fitted = AFR.fit(toy.as_seen_by("none"), stages, options)
    (trained,) = kept
    selected = trained.kept["rule"]
    pairs = [(record["gamma"], record["lambda"]) for record in trained.history]
    assert pairs == [(g, s) for g in options.gamma_grid for s in options.lambda_grid]
    if rule == "last":
        assert selected.epoch == len(pairs)
        assert pairs[-1] == (4.0, 0.1)
    assert fitted.trained.kept == {}  # the recipe does not learn which was selected,
    assert all("score" not in record for record in fitted.trained.history)  # nor how any did
    assert [record["epoch"] for record in trained.history] == list(range(1, len(pairs) + 1))


def test_without_validation_the_last_pair_counts(toy):
    fitted, _ = fit(AFR, replace(toy, val=None))
    alone, _ = fit(AFR, toy, AfrOptions(gamma_grid=(4.0,), lambda_grid=(0.1,)))
    for name, value in fitted.trained.last.items():
        assert value.equal(alone.trained.last[name])


def test_it_lifts_the_worst_group_above_plain_training():
    task = toy_task()

    def worst(fitted, state):
        outputs = stages_for().outputs(replace(fitted.trained, last=state), task.test)
        correct = outputs.logits.argmax(1).numpy() == task.test.labels
        return worst_accuracy(correct, task.groups(task.test))

    plain, _ = fit(METHODS["erm"], task)
    stages, kept = judged_by("val_worst_group", task)
    fitted = AFR.fit(task.as_seen_by("none"), stages, AfrOptions())
    state = kept[0].kept["rule"].state
    assert worst(fitted, state) > worst(plain, plain.trained.last) + 0.1


def test_fits_that_do_not_converge_are_one_warning(toy, monkeypatch):
    monkeypatch.setattr(afr, "MOST_STEPS", 1)
    with pytest.warns(SpareWarning, match="2 of 2 fits of the last layer were stopped"):
        fit(AFR, toy, AfrOptions(gamma_grid=(4.0,), lambda_grid=(0.1, 0.01)))


def test_what_cannot_be_fitted_is_refused(toy):
    headless = replace(
        toy, build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(2, 2, bias=False))
    )
    with pytest.raises(InputError, match="has a bias"):
        fit(AFR, headless)
    for wrong, says in (
        ({"gamma_grid": ()}, "gamma_grid needs at least one"),
        ({"lambda_grid": (-1.0,)}, "lambda_grid is from 0"),
        ({"reweighted_share": 1.0}, "reweighted_share is above 0 and below 1"),
    ):
        with pytest.raises(InputError, match=says):
            AfrOptions(**wrong)
