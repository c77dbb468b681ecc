from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spare.errors import InputError, Interrupted
from spare.methods import METHODS
from spare.methods.lff import LffOptions, fit
from spare.models import Classifier
from spare.objectives.failure import LearningFromFailure
from spare.progress import Progress
from spare.training.selection import worst_accuracy
from spare.training.settings import Settings
from spare.training.stages import Stages
from tests.conftest import toy_task

SETTINGS = Settings(epochs=3, batch_size=32, lr=0.05)


def stages_for(folder=None, settings=SETTINGS, keep=None, **more):
    return Stages(
        seed=0,
        settings=settings,
        folder=folder,
        judge=lambda epoch: ({"average": float(epoch.correct.mean())}, {}),
        keep=(lambda trained: None) if keep is None else keep.append,
        **more,
    )


@pytest.fixture
def objectives(monkeypatch):
    """The objectives that are made, with both networks."""
    made = []
    original = LearningFromFailure.__init__

    def spy(self, *given):
        original(self, *given)
        made.append(self)

    monkeypatch.setattr(LearningFromFailure, "__init__", spy)
    return made


def with_dropout_and_batch_norm():
    features = torch.nn.Sequential(
        torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3)
    )
    return Classifier(features, torch.nn.Linear(16, 2))


@pytest.mark.parametrize("stop_at", [1, 13, 14, 30])
def test_continuing_from_a_checkpoint_is_the_same_to_the_bit(toy, tmp_path, stop_at, objectives):
    task = replace(toy, build_model=with_dropout_and_batch_norm)
    kept, kept_resumed, steps = [], [], iter(range(1, 100))
    fit(task, stages_for(keep=kept), LffOptions())
    stop = Progress(should_stop=lambda: next(steps) == stop_at)
    with pytest.raises(Interrupted):
        fit(task, stages_for(tmp_path, progress=stop), LffOptions())
    resumed_stages = stages_for(tmp_path, keep=kept_resumed)
    fit(task, resumed_stages, LffOptions())
    undisturbed, resumed = kept[-1], kept_resumed[-1]
    assert undisturbed.history == resumed.history
    for expected, state in (
        (undisturbed.last, resumed.last),
        (undisturbed.kept["average"].state, resumed.kept["average"].state),
        (objectives[0].state_dict(), objectives[2].state_dict()),
    ):
        assert expected.keys() == state.keys()
        assert all(expected[name].equal(state[name]) for name in expected)
    assert resumed_stages.cost.examples_seen == 2 * 3 * 400


def test_an_example_counts_twice_because_it_goes_through_both_networks(toy):
    stages = stages_for()
    fit(toy, stages, LffOptions())
    assert stages.cost.examples_seen == 2 * SETTINGS.epochs * len(toy.train)
    plain = stages_for()
    METHODS["erm"].fit(toy, plain, METHODS["erm"].options())
    assert plain.cost.examples_seen == SETTINGS.epochs * len(toy.train)


def test_the_networks_start_from_other_weights_and_the_debiased_one_is_kept(toy, objectives):
    settings = replace(SETTINGS, epochs=1, lr=1e-12)
    stages = stages_for(settings=settings)
    fitted = fit(toy, stages, LffOptions())
    name = "features.0.weight"
    first = stages.fresh(toy).state_dict()[name]
    assert fitted.trained.last[name].allclose(first)
    assert not objectives[0].biased.state_dict()[name].allclose(first)


def test_the_minority_counts_more_and_is_learned_once_the_shortcut_is(objectives):
    task = toy_task(share=0.95)
    settings = Settings(epochs=10, batch_size=16, lr=0.05)
    worst = {}
    for name in ("erm", "lff"):
        stages = stages_for(settings=settings)
        method = METHODS[name]
        fitted = method.fit(task.as_seen_by("none"), stages, method.options())
        predictions = stages.outputs(fitted.trained, task.test).logits.argmax(1).numpy()
        worst[name] = worst_accuracy(predictions == task.test.labels, task.groups(task.test))
    weights = objectives[0].weights(torch.arange(len(task.train))).numpy()
    minority = task.train.attributes["place"] != task.train.labels
    assert weights[minority].mean() > 3 * weights[~minority].mean()
    assert worst["lff"] > worst["erm"] + 0.3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"gce_q": 0.0}, "gce_q is above 0"), ({"loss_average": 1.0}, "loss_average is from 0")],
)
def test_impossible_options_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        LffOptions(**wrong)
