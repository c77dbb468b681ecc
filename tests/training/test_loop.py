"""The training loop: learning, resuming to the bit, optimizers, precision."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import DatasetInputs, TensorInputs
from spare.data.task import Split
from spare.errors import InputError, Interrupted, RunError
from spare.groups.weights import GroupSampling
from spare.models import Classifier, build
from spare.progress import Progress
from spare.training.batches import shuffled, weighted
from spare.training.checkpoint import snapshot
from spare.training.loop import train
from spare.training.outputs import outputs
from spare.training.settings import SCHEDULES, Settings, learning_rate

SETTINGS = Settings(epochs=3, batch_size=32, lr=0.05)


def fit(task, settings=SETTINGS, **more):
    model = more.pop("model", None) or build(task.build_model, (0, 1))
    how = {"batches": shuffled(len(task.train), settings.batch_size), "key": (0, 2)} | more
    return train(model, task.train, settings, **how)


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def stop_after(count):
    """Progress that stops the work after so many steps."""
    steps = iter(range(1, 10_000))
    return Progress(should_stop=lambda: next(steps) == count)


def test_it_learns(toy):
    trained = fit(toy, replace(SETTINGS, epochs=10))
    losses = [record["loss"] for record in trained.history]
    assert losses[-1] < losses[0] / 2
    predictions = outputs(trained.model, toy.train, SETTINGS)
    assert (predictions.logits.argmax(1).numpy() == toy.train.labels).mean() > 0.85
    assert trained.examples_seen == 4000


def test_the_same_key_gives_the_same_weights_and_another_key_others(toy):
    assert same(fit(toy).last, fit(toy).last)
    assert not same(fit(toy).last, fit(toy, key=(0, 3)).last)


def test_global_generators_are_left_alone(toy):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    fit(toy)
    assert torch.equal(before, torch.get_rng_state())


class Dropout(torch.nn.Module):
    """Uses torch's own generator, whose state a checkpoint must hold."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.3),
            torch.nn.Linear(16, 2),
        )

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("stop_at", [1, 12, 13, 14, 30])
def test_resuming_from_a_checkpoint_is_exact_to_the_bit(toy, tmp_path, stop_at, ema):
    settings = replace(SETTINGS, ema=ema, schedule="cosine")
    task = replace(toy, build_model=Dropout)

    def validate(model, epoch):
        return {"up": [0.5, 0.9, 0.7][epoch - 1], "down": -epoch}, {"number": epoch}

    straight = fit(task, settings, validate=validate)
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(task, settings, validate=validate, checkpoint=file, progress=stop_after(stop_at))
    resumed = fit(task, settings, validate=validate, checkpoint=file)
    assert same(straight.last, resumed.last)
    for rule, epoch in (("up", 2), ("down", 1)):
        assert same(straight.kept[rule].state, resumed.kept[rule].state)
        assert not same(straight.kept[rule].state, straight.last)
        assert straight.kept[rule].epoch == resumed.kept[rule].epoch == epoch
    assert straight.history == resumed.history
    assert [record["number"] for record in straight.history] == [1, 2, 3]
    assert straight.examples_seen == resumed.examples_seen


def test_a_longer_training_continues_from_the_checkpoint_of_a_shorter_one(toy, tmp_path):
    short, long = tmp_path / "1", tmp_path / "3"
    fit(toy, replace(SETTINGS, epochs=1), checkpoint=short)
    continued = fit(toy, checkpoint=long, continue_from=short)
    assert same(continued.last, fit(toy).last)
    assert short.exists()


def test_the_first_of_equally_good_epochs_is_selected(toy):
    trained = fit(toy, validate=lambda model, epoch: ({"same": 1.0}, {}))
    assert trained.kept["same"].epoch == 1


def test_a_moving_average_is_what_is_evaluated(toy):
    evaluated = []
    trained = fit(
        toy,
        replace(SETTINGS, ema=0.99),
        validate=lambda model, epoch: evaluated.append(snapshot(model)) or ({}, {}),
    )
    plain = fit(toy)
    assert same(evaluated[-1], trained.last)
    assert not same(trained.last, plain.last)
    # Averages of the weights along the way stay between the start and the end.
    start = build(toy.build_model, (0, 1)).state_dict()
    for name, value in trained.last.items():
        far = (plain.last[name] - start[name]).norm()
        assert (value - start[name]).norm() <= far * 1.05


def test_data_that_is_not_in_memory_goes_through_loader_processes_with_the_same_result(toy):
    points = toy.train.inputs.tensor
    loaded = replace(toy, train=replace(toy.train, inputs=DatasetInputs(list(points))))
    settings = replace(SETTINGS, epochs=1, workers=2)
    assert same(fit(toy, settings).last, fit(loaded, settings).last)
    model = build(toy.build_model, (0, 1))
    small = replace(settings, eval_batch_size=64)
    in_memory = outputs(model, toy.train, small, features=True)
    from_loaders = outputs(model, loaded.train, small)
    assert torch.equal(in_memory.logits, from_loaders.logits)
    assert in_memory.features.shape == (400, 8)


def test_outputs_are_computed_in_eval_mode_in_order_and_leave_the_mode_unchanged(toy):
    model = build(Dropout, (0, 1)).train()
    one = outputs(model, toy.train, replace(SETTINGS, eval_batch_size=7))
    two = outputs(model, toy.train, SETTINGS)
    torch.testing.assert_close(one.logits, two.logits)
    assert model.training
    torch.testing.assert_close(two.probabilities.sum(1), torch.ones(400))
    with pytest.raises(InputError, match="did you mean 'logits'"):
        two.named("logit")


def test_weighted_batches_sample_by_group(toy):
    groups = toy.groups(toy.train)
    batches = weighted(GroupSampling(groups), 4000, 32)(np.random.default_rng(0))
    assert [len(batch) for batch in batches] == [32] * 125
    counts = np.bincount(groups[np.concatenate(batches)])
    assert counts / 4000 == pytest.approx([0.25] * 4, abs=0.03)
    last = shuffled(70, 32)(np.random.default_rng(0))
    assert [len(batch) for batch in last] == [32, 32, 6]
    assert sorted(np.concatenate(last).tolist()) == list(range(70))


def test_a_loss_that_is_not_finite_stops_and_names_the_step(toy):
    with pytest.raises(RunError, match=r"loss became (nan|inf) at epoch \d+, step \d+ .*1e\+09"):
        fit(toy, replace(SETTINGS, lr=1e9))


def test_schedules():
    assert {learning_rate(replace(SETTINGS, lr=1.0), p) for p in (0, 1.5, 3)} == {1.0}
    cosine = replace(SETTINGS, lr=1.0, schedule="cosine")
    assert [learning_rate(cosine, p) for p in (0, 1.5, 3)] == pytest.approx([1, 0.5, 0])
    linear = replace(SETTINGS, lr=1.0, schedule="linear")
    assert learning_rate(linear, 0.75) == pytest.approx(0.75)
    step = replace(SETTINGS, lr=1.0, schedule="step", lr_steps=(1, 2))
    assert [learning_rate(step, p) for p in (0, 1, 2.5)] == pytest.approx([1, 0.1, 0.01])
    warm = replace(SETTINGS, lr=1.0, warmup_epochs=2.0)
    assert learning_rate(warm, 1.0) == pytest.approx(0.5, abs=0.01)
    assert learning_rate(warm, 2.0) == 1.0
    assert all(math.isfinite(learning_rate(replace(SETTINGS, schedule=s), 1)) for s in SCHEDULES)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"epochs": 0}, "epochs is from 1"),
        ({"lr": 0.0}, "lr is above 0"),
        ({"ema": 1.0}, "ema is from 0"),
        ({"optimizer": "adam"}, "unknown optimizer 'adam': did you mean 'adamw'"),
        ({"device": "gpu"}, "unknown device 'gpu': use auto, cpu, cuda"),
        ({"device": "meta"}, "unknown device 'meta'"),
        ({"precision": "bfloat"}, "did you mean 'bfloat16'"),
    ],
)
def test_impossible_settings_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        Settings(**wrong)


def test_resuming_is_exact_for_weights_in_another_memory_layout(toy, tmp_path):
    """A fused step with momentum in another order than the weights would mix them up."""
    pixels = torch.rand(64, 3, 8, 8)
    split = Split(TensorInputs(pixels), np.arange(64) % 2)

    def convolution():
        features = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten())
        model = Classifier(features, torch.nn.Linear(180, 2))
        return model.to(memory_format=torch.channels_last)

    task = replace(toy, train=split, build_model=convolution)
    straight = fit(task)
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(task, checkpoint=file, progress=stop_after(4))
    assert same(straight.last, fit(task, checkpoint=file).last)


class Remembering(torch.nn.Module):
    """An objective with a number and a network of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.second = torch.nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, model, x, y, index):
        self.calls += 1
        loss = torch.nn.functional.cross_entropy
        return loss(model(x), y) * (1 + 0.01 * self.calls) + loss(self.second(x), y)


@pytest.mark.parametrize("stop_at", [1, 13, 20])
def test_what_an_objective_remembers_is_in_the_checkpoint(toy, tmp_path, stop_at):
    objective = Remembering()
    start = snapshot(objective)
    trained = fit(toy, objective=objective)
    assert objective.calls == 3 * 13
    assert not objective.second.weight.equal(start["second.weight"])  # trained along
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(toy, objective=Remembering(), checkpoint=file, progress=stop_after(stop_at))
    again = Remembering()
    resumed = fit(toy, objective=again, checkpoint=file)
    assert same(trained.last, resumed.last)
    assert same(snapshot(objective), snapshot(again))


def test_accumulated_gradients_make_one_step_of_many_batches(toy):
    """Two batches of 8 averaged are one batch of 16."""

    def halves(rng):
        return [part for rows in shuffled(400, 16)(rng) for part in (rows[:8], rows[8:])]

    small = fit(toy, replace(SETTINGS, accumulate=2), batches=halves)
    large = fit(toy, replace(SETTINGS), batches=shuffled(400, 16))
    for name, value in large.last.items():
        assert value.allclose(small.last[name], atol=1e-5)
    uneven = fit(toy, replace(SETTINGS, accumulate=7), batches=halves)
    assert not same(uneven.last, small.last)


def test_a_stop_within_accumulated_batches_waits_for_the_step(toy, tmp_path):
    settings = replace(SETTINGS, accumulate=4)
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(toy, settings, checkpoint=file, progress=stop_after(1))
    assert same(fit(toy, settings, checkpoint=file).last, fit(toy, settings).last)


@pytest.mark.parametrize("stop_at", [1, 13, 20])
def test_adamw_resumes_exactly_and_trains_differently_from_sgd(toy, tmp_path, stop_at):
    settings = replace(SETTINGS, optimizer="adamw", lr=0.01)
    straight = fit(toy, settings)
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(toy, settings, checkpoint=file, progress=stop_after(stop_at))
    assert same(straight.last, fit(toy, settings, checkpoint=file).last)
    assert not same(straight.last, fit(toy, replace(settings, optimizer="sgd")).last)
    assert straight.history[-1]["loss"] < straight.history[0]["loss"]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_biases_can_be_left_out_of_the_decay_and_resume_exactly(toy, tmp_path, optimizer):
    strong = replace(SETTINGS, weight_decay=1.0, lr=0.01, optimizer=optimizer)
    free = replace(strong, decay_biases=False)
    # Nearly all examples are of one class, so that a bias that is free to do so grows.
    labels = np.where(np.arange(len(toy.train)) < 8, 1, 0)
    task = replace(toy, train=replace(toy.train, labels=labels))
    biases = {
        settings.decay_biases: fit(task, replace(settings, epochs=20)).last["head.bias"].abs().max()
        for settings in (strong, free)
    }
    assert biases[False] > 2 * biases[True]
    whole = fit(toy, free).last
    assert (
        whole["head.weight"].norm()
        < fit(toy, replace(free, weight_decay=0)).last["head.weight"].norm()
    )
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        fit(toy, free, checkpoint=checkpoint, progress=stop_after(5))
    assert same(fit(toy, free, checkpoint=checkpoint).last, whole)


def test_bfloat16_trains_almost_as_float32_does_with_weights_in_float32(toy, tmp_path):
    settings = replace(SETTINGS, precision="bfloat16")
    trained, exact = fit(toy, settings), fit(toy)
    assert all(value.dtype == torch.float32 for value in trained.last.values())
    assert not same(trained.last, exact.last)
    losses = [record["loss"] for record in trained.history]
    assert losses == pytest.approx([record["loss"] for record in exact.history], rel=0.1)
    evaluated = outputs(trained.model, toy.train, settings, features=True)
    assert evaluated.logits.dtype == evaluated.features.dtype == torch.float32
    file = tmp_path / "x.checkpoint"
    with pytest.raises(Interrupted):
        fit(toy, settings, checkpoint=file, progress=stop_after(14))
    assert same(trained.last, fit(toy, settings, checkpoint=file).last)


def test_progress_is_told_of_every_step(toy):
    steps = []
    fit(toy, phase="early", progress=Progress(lambda *step: steps.append(step)))
    assert steps == [("early", step, 39) for step in range(1, 40)]
