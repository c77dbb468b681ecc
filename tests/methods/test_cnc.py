"""CnC's recipe: slices from a first model, and a fresh second one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split
from spare.errors import InputError, SpareWarning
from spare.methods.cnc import METHOD, CncOptions
from spare.models import Classifier
from spare.training.settings import Settings
from spare.training.stages import Stages
from tests.methods.test_methods import SETTINGS, fit

QUICK = CncOptions(anchor_share=0.1)


def test_slices_are_the_first_models_predictions_without_augmentation(toy, stage_calls):
    def noisy(x, rng):
        return x + torch.tensor(rng.normal(0, 3, x.shape), dtype=x.dtype)

    inputs = TensorInputs(toy.train.inputs.tensor, augment=noisy)
    task = replace(toy, train=replace(toy.train, inputs=inputs))
    fitted, _ = fit(METHOD, task, QUICK)
    reference = stage_calls["early/reference"]["trained"]
    with torch.no_grad():
        predictions = reference.model(toy.train.inputs.tensor).argmax(1).numpy()
    wrong = predictions != toy.train.labels
    assert fitted.inferred.notes["mistakes"] == wrong.sum()
    assert (fitted.inferred.groups.in_majority() == ~wrong).all()
    each = fitted.notes["anchors_in_a_sub_batch"]
    for batch in stage_calls["train"]["batches"](np.random.default_rng(0)):
        anchors, positives, hard, easy = np.split(batch, [each, 2 * each, 3 * each])
        assert not wrong[anchors].any()
        assert wrong[positives].all()
        assert wrong[hard].all()
        assert not wrong[easy].any()
        assert (predictions[hard] == predictions[batch[0]]).all()


def test_the_second_model_is_a_fresh_one(toy, stage_calls):
    settings = replace(SETTINGS, lr=1e-9)  # so small a rate that weights stay put
    options = replace(QUICK, early_lr=0.05)
    fitted, stages = fit(METHOD, toy, options, settings=settings)
    untrained = stages.fresh(toy).state_dict()
    learned = stage_calls["early/reference"]["trained"].last
    for name, value in fitted.trained.last.items():
        assert value.allclose(untrained[name], atol=1e-6)
    assert not learned["head.weight"].allclose(untrained["head.weight"], atol=1e-3)


def test_every_image_of_every_sub_batch_is_counted(toy):
    fitted, stages = fit(METHOD, toy, replace(QUICK, contrast_epochs=2, reference_epochs=3))
    wrong = ~fitted.inferred.groups.in_majority()
    labels = toy.train.labels
    turns = max(1, round(0.1 * min(np.bincount(labels[~wrong]))))
    sub_batch = 3 * fitted.notes["anchors_in_a_sub_batch"] + 32
    assert stages.cost.examples_seen == 3 * len(labels) + 2 * 2 * turns * sub_batch


def test_the_second_training_has_its_own_epochs_and_steps(toy, stage_calls):
    options = replace(QUICK, contrast_epochs=2, sub_batches_per_step=5)
    fit(METHOD, toy, options, settings=replace(SETTINGS, ema=0.9))
    settings = stage_calls["train"]["settings"]
    assert (settings.epochs, settings.accumulate, settings.ema) == (2, 5, 0.9)
    reference = stage_calls["early/reference"]["settings"]
    assert (reference.epochs, reference.accumulate, reference.ema) == (1, 1, 0.0)


def test_the_same_seed_gives_the_same_sub_batches_and_weights(toy):
    first, again = (fit(METHOD, toy, QUICK)[0] for _ in range(2))
    another, _ = fit(METHOD, toy, QUICK, seed=1)
    for name, value in first.trained.last.items():
        assert value.equal(again.trained.last[name])
        assert not value.equal(another.trained.last[name])


def test_it_lifts_the_worst_group(toy, stage_calls):
    worst = {}
    settings = Settings(epochs=4, batch_size=16, lr=0.05)
    fit(METHOD, toy, CncOptions(anchor_share=0.3, sub_batches_per_step=1), settings=settings)
    for name, call in stage_calls.items():
        with torch.no_grad():
            predictions = call["trained"].model(toy.test.inputs.tensor).argmax(1).numpy()
        correct = predictions == toy.test.labels
        groups = toy.groups(toy.test)
        worst[name] = min(correct[groups == g].mean() for g in range(4))
    assert worst["train"] > worst["early/reference"] + 0.3


def test_epochs_can_be_selected_by_its_groups_of_validation(toy):
    judged = []

    def judge(epoch):
        judged.append(epoch.inferred_groups)
        return {}, {}

    stages = Stages(seed=0, settings=SETTINGS, judge=judge)
    fitted = METHOD.fit(toy.as_seen_by("none"), stages, replace(QUICK, contrast_epochs=2))
    assert len(judged) == 2
    assert all(groups is fitted.inferred.held_out["val"] for groups in judged)


def test_a_first_model_without_mistakes_is_refused(toy):
    labels = toy.train.labels
    points = torch.tensor(labels[:, None] * 20.0 - 10).float().repeat(1, 2)
    easy = replace(toy, train=Split(TensorInputs(points), labels))
    with pytest.raises(InputError, match="the reference model makes no mistake"):
        fit(METHOD, easy, replace(QUICK, reference_epochs=2))


def test_a_model_without_an_encoder_gets_a_warning(toy):
    headed = replace(
        toy, build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(2, 2))
    )
    with pytest.warns(SpareWarning, match="nothing before the model's head is trained"):
        fit(METHOD, headed, replace(QUICK, reference_epochs=4))


@pytest.mark.parametrize(
    "wrong",
    [
        {"contrast_size": 0},
        {"contrast_epochs": 0},
        {"sub_batches_per_step": 0},
        {"anchor_share": 0.0},
        {"anchor_share": 1.5},
        {"contrast_temperature": 0.0},
        {"contrast_weight": 1.0},
        {"reference_epochs": 0},
    ],
)
def test_impossible_options_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        CncOptions(**wrong)
