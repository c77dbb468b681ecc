"""Stages: what a recipe gets back, what the runner gets, and that neither lacks anything."""

from __future__ import annotations

import pytest

from spare.training.batches import shuffled
from spare.training.settings import Settings
from spare.training.stages import Stages

SETTINGS = Settings(epochs=3, batch_size=64, lr=0.05)


def stages_and_kept():
    """Stages whose judge prefers the second epoch, and what the runner is given of them."""
    kept = {}

    def judge(epoch):
        return {"second": float(epoch.number == 2)}, {"secret": 1.0}

    stages = Stages(
        seed=0,
        settings=SETTINGS,
        judge=judge,
        keep=lambda trained: kept.update({trained.name: trained}),
    )
    return stages, kept


def train(stages, name, task, **more):
    return stages.train(name, task, shuffled(len(task.train), SETTINGS.batch_size), **more)


@pytest.mark.parametrize(
    ("name", "select", "rules"),
    [("early/only", "", set()), ("train", "val_average", {"val_average"})],
)
def test_a_stage_without_a_selected_epoch_has_all_that_a_runner_needs(toy, name, select, rules):
    stages, kept = stages_and_kept()
    trained = train(stages, name, toy, select=select)
    assert kept == {}
    of_runner = kept.get(trained.name, trained)
    assert set(of_runner.kept) == rules
    assert [record["epoch"] for record in of_runner.history] == [1, 2, 3]
    assert all(set(record) == {"epoch", "loss"} | rules for record in of_runner.history)
    of_runner.model.load_state_dict(of_runner.last)
    assert stages.cost.examples_seen == of_runner.examples_seen == 3 * len(toy.train)


def test_the_recipe_does_not_learn_which_epoch_is_selected_and_the_runner_does(toy):
    stages, kept = stages_and_kept()
    trained = train(stages, "train", toy)
    assert trained.kept == {}
    assert all(set(record) == {"epoch", "loss"} for record in trained.history)
    of_runner = kept.get(trained.name, trained)
    assert of_runner.kept["second"].epoch == 2
    assert [record["secret"] for record in of_runner.history] == [1.0] * 3


def test_weights_that_a_recipe_made_from_an_early_stage_are_the_runners_too(toy):
    stages, kept = stages_and_kept()
    base = train(stages, "early/base", toy)
    halved = {name: value / 2 for name, value in base.last.items()}
    adopted = stages.adopt(base, halved)
    assert kept[adopted.name].last is halved
    assert kept[adopted.name].kept == {}
