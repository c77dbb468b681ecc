from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.cli import main
from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import InputError, Interrupted, SpareWarning
from spare.methods import METHODS, method_named
from spare.methods import xrm as recipe
from spare.methods.xrm import XrmOptions, infer, val_groups
from spare.models import Classifier
from spare.progress import Progress
from spare.training.checkpoint import snapshot
from spare.training.loop import Trained
from spare.training.settings import Settings
from spare.training.stages import Stages

SETTINGS = Settings(epochs=6, batch_size=16, lr=0.02)


def stages_for(folder=None, seed=0, settings=SETTINGS, **more):
    return Stages(
        seed=seed,
        settings=settings,
        folder=folder,
        judge=lambda epoch: ({"average": float(epoch.correct.mean())}, {}),
        **more,
    )


def test_the_environments_are_the_mistakes_of_the_twin_that_did_not_learn_the_example():
    """The inputs are what the first twin says, then what the second says."""
    says = torch.tensor([[2, 0, 0, 2], [0, 2, 2, 0], [2, 0, 0, 2], [0, 2, 2, 0], [2, 0, 2, 0.0]])
    split = Split(TensorInputs(says), np.array([0, 0, 1, 1, 1]))
    task = Task("said", split, split, None, ("a", "b"), {})

    def twin(columns):
        head = torch.nn.Linear(4, 2, bias=False)
        head.weight.data = torch.eye(4)[columns]
        model = Classifier(torch.nn.Identity(), head)
        return Trained(model, snapshot(model), {}, [], 0.0, 0)

    trained = recipe._Trained(
        (twin([0, 1]), twin([2, 3])), held_by=np.array([0, 0, 1, 1, 0]), labels=split.labels
    )
    # The first says 0 1 0 1 0 and the second 1 0 1 0 0; rows 0, 1 and 4 are the second's to judge.
    assert trained.mistakes_of_training(task, stages_for()).tolist() == [1, 0, 1, 0, 1]
    assert trained.mistakes_of_held_out(split, stages_for()).tolist() == [1, 1, 1, 1, 1]
    either = recipe._groups(split, trained.mistakes_of_held_out(split, stages_for()))
    assert either.tolist() == [1, 1, 3, 3, 3]
    agreed = split.subset(np.array([4]))
    agreed = replace(agreed, labels=np.array([0]))
    assert trained.mistakes_of_held_out(agreed, stages_for()).tolist() == [0]


def test_every_example_is_held_in_for_one_twin_and_judged_by_the_other(toy, monkeypatch):
    held, judged = [], []
    twins, outputs = recipe.Twins, Stages.outputs

    def spy_twins(second, labels, held_by):
        held.append(np.asarray(held_by))
        return twins(second, labels, held_by)

    def spy_outputs(self, trained, split):
        if len(split) < len(toy.train) and split.inputs.rows is not None:
            judged.append((trained, split.inputs.rows))
        return outputs(self, trained, split)

    monkeypatch.setattr(recipe, "Twins", spy_twins)
    monkeypatch.setattr(Stages, "outputs", spy_outputs)
    task = replace(toy.as_seen_by("none"), val=None, test=None)
    infer(task, stages_for(), XrmOptions(twin_epochs=1))
    (held_by,) = held
    for number, (_, rows) in enumerate(judged):
        assert (held_by[rows] != number).all()
    rows = np.concatenate([rows for _, rows in judged])
    assert sorted(rows.tolist()) == list(range(len(toy.train)))
    first, second = (trained.last for trained, _ in judged)
    assert not all(first[name].equal(second[name]) for name in first)
    for label in (0, 1):  # each class is in half
        assert abs(np.diff(np.bincount(held_by[toy.train.labels == label]))[0]) <= 1


def test_the_minority_is_cross_mistaken_and_the_longer_the_more_so(toy):
    shorter, inferred = (
        infer(toy.as_seen_by("none"), stages_for(), XrmOptions(twin_epochs=epochs))
        for epochs in (3, 30)
    )
    minority = toy.train.attributes["place"] != toy.train.labels
    mistaken = ~inferred.groups.in_majority()
    assert mistaken[minority].mean() > 0.95
    assert minority[mistaken].mean() > 0.95
    assert inferred.notes["cross_mistakes"] == mistaken.sum()
    assert inferred.notes["flipped_labels"] > 0.9 * minority.sum()
    assert inferred.notes["flipped_labels"] > shorter.notes["flipped_labels"] > 0
    assert inferred.groups.names(toy.class_names)[:2] == ["left right", "left cross-mistaken"]
    for name in ("val", "test"):
        split = getattr(toy, name)
        true = 2 * split.labels + (split.attributes["place"] != split.labels)
        assert (inferred.held_out[name] == true).mean() > 0.9


@pytest.mark.parametrize(
    ("epochs", "asked", "trained"), [(6, 0, 3), (5, 0, 3), (1, 0, 1), (6, 4, 4)]
)
def test_the_twins_cost_about_one_plain_training_unless_asked_otherwise(
    toy, epochs, asked, trained
):
    stages = stages_for(settings=replace(SETTINGS, epochs=epochs))
    inferred = infer(toy.as_seen_by("none"), stages, XrmOptions(twin_epochs=asked))
    assert inferred.notes["twin_epochs"] == trained
    assert stages.cost.examples_seen == 2 * trained * len(toy.train)


def test_the_twins_have_a_learning_rate_and_a_decay_of_their_own(toy, stage_calls):
    options = XrmOptions(twin_epochs=1, twin_lr=0.5, twin_weight_decay=0.25)
    infer(toy.as_seen_by("none"), stages_for(), options)
    settings = stage_calls["early/twins"]["settings"]
    assert (settings.lr, settings.weight_decay) == (0.5, 0.25)
    infer(toy.as_seen_by("none"), stages_for(), XrmOptions())
    settings = stage_calls["early/twins"]["settings"]
    assert (settings.lr, settings.weight_decay) == (SETTINGS.lr, SETTINGS.weight_decay)


def with_dropout_and_batch_norm():
    features = torch.nn.Sequential(
        torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3)
    )
    return Classifier(features, torch.nn.Linear(16, 2))


@pytest.mark.parametrize("stop_at", [1, 25, 26, 60, 90])
def test_continuing_from_a_checkpoint_is_the_same_to_the_bit(toy, tmp_path, stop_at):
    """Stopped among the twins' 75 steps or in Group DRO's training after them."""
    task = replace(toy.as_seen_by("none"), build_model=with_dropout_and_batch_norm)
    method, steps = METHODS["xrm"], iter(range(1, 1000))
    undisturbed = method.fit(task, stages_for(), method.options())
    stop = Progress(should_stop=lambda: next(steps) == stop_at)
    with pytest.raises(Interrupted):
        method.fit(task, stages_for(tmp_path, progress=stop), method.options())
    stages = stages_for(tmp_path)
    resumed = method.fit(task, stages, method.options())
    assert undisturbed.inferred.notes == resumed.inferred.notes
    assert (undisturbed.inferred.groups.ids == resumed.inferred.groups.ids).all()
    for name, groups in undisturbed.inferred.held_out.items():
        assert (groups == resumed.inferred.held_out[name]).all()
    for name, value in undisturbed.trained.last.items():
        assert value.equal(resumed.trained.last[name])
    assert stages.cost.examples_seen == (2 * 3 + 6) * len(toy.train)


def test_twins_that_are_asked_for_twice_in_a_run_are_trained_once(toy, tmp_path):
    task, stages = toy.as_seen_by("none"), stages_for(tmp_path)
    groups = val_groups(task, stages, XrmOptions())
    alone = stages.cost.examples_seen
    inferred = infer(task, stages, XrmOptions())
    assert (inferred.held_out["val"] == groups).all()
    assert stages.cost.examples_seen == alone == 2 * 3 * len(toy.train)


def with_rare_class(toy, count):
    """A third class with one or two training examples, and none in validation."""
    points = torch.cat([toy.train.inputs.take(np.arange(400)), torch.full((count, 2), -9.0)])
    train = Split(TensorInputs(points), np.concatenate([toy.train.labels, [2] * count]))
    return replace(
        toy.as_seen_by("none"),
        train=train,
        class_names=("left", "right", "rare"),
        build_model=lambda: Classifier(torch.nn.Linear(2, 8), torch.nn.Linear(8, 3)),
    )


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["xrm", "xrm+spare"])
def test_a_class_of_one_or_two_examples_is_no_obstacle(toy, count, name):
    method, task = method_named(name), with_rare_class(toy, count)
    fitted = method.fit(task, stages_for(), method.options())
    evidence = fitted.inferred.groups.evidence[2]
    assert sum(evidence.sizes) == count
    if count == 1:  # the twin that judges it was never taught its class
        assert evidence.sizes == [0, 1]
    assert fitted.probabilities.sum() == pytest.approx(1)
    assert fitted.inferred.held_out["val"].max() < 4


def test_twins_without_mistakes_are_worth_a_warning(toy):
    easy = torch.tensor(toy.train.labels * 20.0 - 10)[:, None].float().repeat(1, 2)
    task = replace(toy, train=Split(TensorInputs(easy), toy.train.labels))
    with pytest.warns(SpareWarning, match="the two get wrong only 0 of 400 training examples"):
        infer(task.as_seen_by("none"), stages_for(), XrmOptions())


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match="twin_epochs is from 0"):
        XrmOptions(twin_epochs=-1)
    with pytest.raises(InputError, match="twin_lr"):
        XrmOptions(twin_lr=-0.1)


def test_it_goes_with_spares_trainer_from_the_command_line(tmp_path, capsys):
    words = ["train", "digits", "--method", "xrm+spare", "--set", "epochs=4"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--set", "twin_epochs=6", "--out", str(tmp_path / "x"), "--json"])
    assert ended.value.code == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sees"] == "none"
    assert record["notes"]["twin_epochs"] == record["options"]["twin_epochs"] == 6
    assert record["examples_seen"] == (4 + 2 * 6) * record["splits"]["train"]
    assert set(record["discovery"]) == {"0-4", "5-9"}
