from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import InputError, Interrupted, SpareWarning
from spare.methods import METHODS
from spare.methods import ssa as recipe
from spare.methods.ssa import SsaOptions, infer
from spare.models import Classifier
from spare.progress import Progress
from spare.training.batches import paired
from spare.training.selection import Rule
from spare.training.settings import Settings
from spare.training.stages import Stages
from tests.conftest import toy_task

SETTINGS = Settings(epochs=1, batch_size=16, lr=0.02)
QUICK = SsaOptions(attribute_steps=60, attribute_check=20, attribute_patience=2)


def stages_for(seed=0, folder=None, **more):
    return Stages(
        seed=seed,
        settings=SETTINGS,
        folder=folder,
        judge=lambda epoch: ({}, {}),
        **more,
    )


class Poison(Mapping):
    """Attributes that must not be looked at."""

    def __getitem__(self, name):
        raise AssertionError("training attributes were read")

    def __iter__(self):
        raise AssertionError("training attributes were read")

    def __len__(self):
        raise AssertionError("training attributes were read")


def poisoned(split: Split) -> Split:
    object.__setattr__(split, "attributes", Poison())
    return split


def test_the_attributes_of_training_are_never_read(toy):
    expected = infer(toy, stages_for(), QUICK)
    inferred = infer(
        replace(toy, train=poisoned(Split(toy.train.inputs, toy.train.labels))),
        stages_for(),
        QUICK,
    )
    assert (expected.groups.ids == inferred.groups.ids).all()


def test_predicted_groups_are_the_true_ones_for_most_of_the_minority(toy):
    inferred = infer(toy.as_seen_by("val"), stages_for(), QUICK)
    minority = toy.train.attributes["place"] != toy.train.labels
    assert (~inferred.groups.in_majority())[minority].mean() > 0.9
    assert inferred.groups.in_majority()[~minority].mean() > 0.9
    for name in ("val", "test"):
        split = getattr(toy, name)
        # Numbered as the training groups are: the largest of class 0, its other, then class 1's.
        true = 2 * split.labels + (split.attributes["place"] != split.labels)
        assert (inferred.held_out[name] == true).mean() > 0.9


def test_the_seed_decides_groups_halves_and_folds(toy):
    task = toy.as_seen_by("val")
    first, again = (infer(task, stages_for(), QUICK) for _ in range(2))
    assert (first.groups.ids == again.groups.ids).all()
    assert all((first.held_out[name] == again.held_out[name]).all() for name in first.held_out)
    rows = [recipe._halves(task, 2, seed)[0].split.inputs.rows.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]
    folds = [recipe._folds(task.train.labels, seed).tolist() for seed in (0, 0, 1)]
    assert folds[0] == folds[1] != folds[2]


def test_the_halves_are_disjoint_and_have_every_group(toy):
    true_groups = toy.groups(toy.val)
    halves = recipe._halves(toy, 2, 0)
    rows_of = [half.split.inputs.rows for half in halves]
    assert sorted(np.concatenate(rows_of).tolist()) == list(range(len(toy.val)))
    counts = [np.bincount(true_groups[rows], minlength=4) for rows in rows_of]
    assert abs(counts[0] - counts[1]).max() <= 1
    for half, rows in zip(halves, rows_of, strict=True):
        assert (half.groups == true_groups[rows]).all()
        assert (half.attributes == toy.val.attributes["place"][rows]).all()


def test_each_example_is_labeled_by_a_predictor_that_did_not_train_on_it(toy, monkeypatch):
    trained_on, labeled, learned_from, compared_on = {}, [], set(), set()
    train, outputs = Stages.train, Stages.outputs

    def spy_train(self, name, task, batches, **more):
        fitted = train(self, name, task, batches, **more)
        val, others = task.train.inputs.parts
        assert val.inputs is toy.val.inputs
        assert others.inputs is toy.train.inputs
        rows = np.concatenate(batches(np.random.default_rng(0)))
        assert rows.max() < len(task.train)
        learned_from.update(val.rows.tolist())
        compared_on.update(task.val.inputs.rows.tolist())
        trained_on[fitted.name] = set(others.rows.tolist())
        return fitted

    def spy_outputs(self, fitted, split):
        source = getattr(split.inputs, "inputs", None)
        if source is toy.train.inputs:
            rows = set(split.inputs.rows.tolist())
            assert not trained_on[fitted.name] & rows
            assert trained_on[fitted.name] | rows == set(range(len(toy.train)))
            labeled.extend(rows)
        return outputs(self, fitted, split)

    monkeypatch.setattr(Stages, "train", spy_train)
    monkeypatch.setattr(Stages, "outputs", spy_outputs)
    infer(toy.as_seen_by("val"), stages_for(), QUICK)
    assert sorted(labeled) == list(range(len(toy.train)))
    assert compared_on
    assert not learned_from & compared_on


def in_turn(monkeypatch, scores):
    """Let the checks have these scores, whatever the predictors say."""
    left = iter(scores)
    monkeypatch.setattr(recipe, "worst_accuracy", lambda correct, groups: next(left))


def test_the_weights_of_the_best_check_are_the_ones_that_predict(toy, monkeypatch, stage_calls):
    in_turn(monkeypatch, [0.6, 0.8, 0.8, 0.9, 0.7, 0.6, 0.6, 0.7, 0.8])
    used = []
    outputs = Stages.outputs

    def spy(self, fitted, split):
        if getattr(split.inputs, "inputs", None) is toy.train.inputs:
            used.append(fitted)
        return outputs(self, fitted, split)

    monkeypatch.setattr(Stages, "outputs", spy)
    with pytest.warns(SpareWarning, match="becoming better"):
        inferred = infer(toy.as_seen_by("val"), stages_for(), QUICK)
    for fold, (fitted, epoch) in enumerate(zip(used, [2, 1, 3], strict=True)):
        kept = stage_calls[f"early/attribute-{fold}"]["trained"].kept[recipe.RULE]
        assert kept.epoch == epoch
        assert all(fitted.last[name].equal(kept.state[name]) for name in kept.state)
    notes = inferred.notes["attribute_predictors"]
    assert [note["steps"] for note in notes] == [40, 20, 60]
    assert [note["worst_group"] for note in notes] == [0.8, 0.9, 0.8]


def test_a_predictor_ends_when_it_has_converged_and_one_that_has_not_gets_a_warning(
    toy, monkeypatch
):
    # The best of the first is its second check; the two others become better to the end.
    rising = [0.6, 0.7, 0.8, 0.85, 0.9]
    in_turn(monkeypatch, [0.6, 0.9, 0.8, 0.9, *rising, *rising])
    stages = stages_for()
    options = replace(QUICK, attribute_steps=100)
    with pytest.warns(SpareWarning, match=r"of fold \d was still becoming better") as caught:
        inferred = infer(toy.as_seen_by("val"), stages, options)
    assert [str(warning.message).split()[5] for warning in caught] == ["2", "3"]
    notes = inferred.notes["attribute_predictors"]
    assert [note["converged"] for note in notes] == [True, False, False]
    # 20 steps of 16 examples with and 16 without the attribute at every check.
    assert stages.cost.examples_seen == (4 + 5 + 5) * 20 * 32


def test_a_predictor_is_compared_by_its_worst_group(toy, monkeypatch):
    checks = []

    def spy(correct, groups):
        checks.append(groups)
        return 1.0

    monkeypatch.setattr(recipe, "worst_accuracy", spy)
    infer(toy.as_seen_by("val"), stages_for(), QUICK)
    half = recipe._halves(toy, 2, 0)[1]
    assert len(checks) == 9  # three per fold: two after the best
    assert all((groups == half.groups).all() for groups in checks)


def test_an_interrupted_run_resumes_to_the_same_predictors(toy, tmp_path, monkeypatch):
    train_predictor = recipe._train_predictor
    weights = []

    def spy(*given):
        best, note = train_predictor(*given)
        weights.append(best.last)
        return best, note

    def rule(name, description, needs, score):
        scores = (0.6, 0.8, 0.7)  # the best is neither the first nor the last
        return Rule(name, description, needs, lambda epoch: scores[epoch.number - 1])

    def run(stages):
        # By how far they are, and not by a count that an interruption would lose.
        monkeypatch.setattr(recipe, "Rule", rule)
        weights.clear()
        options = replace(QUICK, attribute_patience=1)
        inferred = infer(toy.as_seen_by("val"), stages, options)
        return inferred, list(weights)

    monkeypatch.setattr(recipe, "_train_predictor", spy)
    undisturbed, expected = run(stages_for())
    steps = iter(range(1000))
    stop = Progress(should_stop=lambda: next(steps) >= 90)
    with pytest.raises(Interrupted):  # in the middle of the second predictor
        run(stages_for(folder=tmp_path, progress=stop))
    stages = stages_for(folder=tmp_path)
    resumed, states = run(stages)
    for wanted, state in zip(expected, states, strict=True):
        assert all(wanted[name].equal(state[name]) for name in wanted)
    assert resumed.notes == undisturbed.notes
    assert (resumed.groups.ids == undisturbed.groups.ids).all()
    assert stages.cost.examples_seen == 3 * 60 * 32


def two_attributes(n: int, rng: np.random.Generator) -> Split:
    labels, place, color = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 3, n)
    points = rng.normal(0, 0.3, (n, 3)) + np.stack([labels, place * 4, color * 4], 1)
    inputs = TensorInputs(torch.tensor(points, dtype=torch.float32))
    return Split(inputs, labels, {"place": place, "color": color})


def test_several_attributes_are_predicted_as_one():
    rng = np.random.default_rng(0)
    task = Task(
        name="two",
        train=two_attributes(300, rng),
        val=two_attributes(300, rng),
        test=None,
        class_names=("a", "b"),
        attribute_values={"place": ("land", "water"), "color": ("red", "green", "blue")},
        build_model=lambda: Classifier(
            torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU()), torch.nn.Linear(32, 2)
        ),
    )
    options = SsaOptions(attribute_steps=200, attribute_check=200, attribute_lr=0.05)
    groups = infer(task.as_seen_by("val"), stages_for(), options).groups
    true_groups = task.groups(task.train)
    pairs = np.unique(np.stack([true_groups, groups.ids]), axis=1, return_counts=True)[1]
    assert len(np.unique(groups.ids)) == 12
    # One inferred group for each true one.
    assert np.sort(pairs)[-12:].sum() > 0.9 * len(true_groups)
    for evidence in groups.evidence.values():
        assert evidence.sizes == sorted(evidence.sizes, reverse=True)


def test_held_out_examples_are_in_groups_that_training_has(toy):
    # In training, class 0 is on land only: a held-out example of it on water goes to that group.
    rows = np.flatnonzero((toy.train.labels == 1) | (toy.train.attributes["place"] == 0))
    task = replace(toy, train=toy.train.subset(rows))
    inferred = infer(task.as_seen_by("val"), stages_for(), QUICK)
    assert len(inferred.groups.evidence[0].ids) == 1
    for name in ("val", "test"):
        labels = getattr(task, name).labels
        assert set(inferred.held_out[name][labels == 0].tolist()) == {0}
        assert set(inferred.held_out[name][labels == 1].tolist()) == {1, 2}


def test_no_validation_groups_is_one_sentence(toy):
    for val in (None, replace(toy.val, attributes=None)):
        with pytest.raises(InputError, match=r"group labels of a validation split, .* has none"):
            infer(replace(toy, val=val), stages_for(), QUICK)


def test_a_validation_group_of_one_example_is_one_sentence(toy):
    true = toy.groups(toy.val)
    rows = np.sort(np.concatenate([np.flatnonzero(true != 2), np.flatnonzero(true == 2)[:1]]))
    with pytest.raises(InputError, match="'right/land' has one example"):
        infer(replace(toy, val=toy.val.subset(rows)), stages_for(), QUICK)


def test_a_single_attribute_value_is_one_sentence(toy):
    rows = np.flatnonzero(toy.val.attributes["place"] == 1)
    with pytest.raises(InputError, match="have the same attribute"):
        infer(replace(toy, val=toy.val.subset(rows)), stages_for(), QUICK)


def test_fewer_examples_than_folds_is_one_sentence(toy):
    with pytest.raises(InputError, match="3 folds, and there are 2 examples"):
        infer(replace(toy, train=toy.train.subset(np.arange(2))), stages_for(), QUICK)


def test_a_predictor_that_only_guesses_gets_a_warning(toy):
    task = toy_task()
    noise = torch.tensor(np.random.default_rng(0).normal(size=(120, 2)), dtype=torch.float32)
    blurred = replace(task.val, inputs=TensorInputs(noise))
    with pytest.warns(SpareWarning, match=r"only \d+% of a validation group right"):
        infer(replace(task, val=blurred), stages_for(), QUICK)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"attribute_check": 0}, "attribute_check is from 1"),
        ({"attribute_patience": 0}, "attribute_patience is from 1"),
        ({"attribute_confidence": 1.5}, "from 0 to 1"),
        ({"attribute_lr": -1.0}, "attribute_lr is from 0"),
    ],
)
def test_impossible_options_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        METHODS["ssa"].options(**wrong)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (SETTINGS.lr, SETTINGS.weight_decay)),
        ({"attribute_lr": 0.3, "attribute_weight_decay": 0.0}, (0.3, 0.0)),
    ],
)
def test_rate_and_decay_are_the_settings_or_the_options(toy, monkeypatch, given, expected):
    used = []
    original = Stages.train

    def spy(self, name, task, batches, **more):
        if name.startswith("early/attribute"):
            used.append((more["settings"].lr, more["settings"].weight_decay))
        return original(self, name, task, batches, **more)

    monkeypatch.setattr(Stages, "train", spy)
    options = SsaOptions(attribute_steps=2, attribute_check=2, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpareWarning)
        recipe.infer(toy.as_seen_by("val"), stages_for(), options)
    assert used == [expected] * 3


def test_every_batch_has_rows_of_both_kinds():
    plan = paired(10, 25, 4, 15)(np.random.default_rng(0))
    assert len(plan) == 15
    first, others = np.stack(plan)[:, :4], np.stack(plan)[:, 4:]
    assert first.max() < 10 <= others.min()
    assert others.shape == (15, 4)
    assert np.bincount(first.ravel()).tolist() == [6] * 10
    times = np.bincount(others.ravel() - 10, minlength=25)
    assert sorted(np.unique(times).tolist()) == [2, 3]
    again = paired(10, 25, 4, 15)(np.random.default_rng(0))
    assert (np.stack(again) == np.stack(plan)).all()


def test_a_kind_smaller_than_a_batch_is_in_every_batch_entirely():
    for rows in paired(3, 25, 8, 5)(np.random.default_rng(0)):
        assert sorted(rows[:3].tolist()) == [0, 1, 2]
        assert len(rows) == 3 + 8
