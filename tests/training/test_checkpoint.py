"""Checkpoints that are damaged, or of another training: one sentence each."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spare.errors import RunError
from spare.files.reading import read_tensors
from spare.files.writing import write_tensors
from spare.training.batches import shuffled
from spare.training.loop import train
from spare.training.settings import Settings


def position(**changes):
    def change(tensors, about):
        about["position"] = json.dumps(json.loads(about["position"]) | changes)

    return change


def tensor(name, value):
    def change(tensors, about):
        tensors[name] = value
        if value is None:
            del tensors[name]

    return change


@pytest.fixture
def checkpoint(toy, tmp_path):
    """Trained for two epochs of three; what continues from it."""
    path = tmp_path / "train.checkpoint"

    def run(epochs=3, optimizer="sgd"):
        torch.manual_seed(0)
        settings = Settings(epochs=epochs, lr=0.1, optimizer=optimizer, selection="last")
        validate = lambda model, epoch: ({"last": float(epoch)}, {})  # noqa: E731
        return train(
            toy.build_model(), toy.train, settings, batches=shuffled(len(toy.train), 100), key=(0,),
            validate=validate, checkpoint=path,
        )  # fmt: skip

    run(epochs=2)
    return path, run


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (position(epoch=-1), "Expected `int` >= 0"),
        (position(epoch=99), "it is after epoch 99 of 3"),
        (position(epoch="two"), "Expected `int`, got `str`"),
        (position(step=-5), "Expected `int` >= 0"),
        (position(history=[]), "its history is not that of its epochs"),
        (position(history=[{"epoch": 1, "loss": 1.0}, {"epoch": 2}]), "without a loss"),
        (position(best={"last": [1.0, 7]}), "an epoch that is not there yet"),
        (position(best=None), "Expected `object`"),
        (position(seconds=float("nan")), "NaN is no number"),
        (lambda tensors, about: about.update(position="{"), "Expecting property name"),
        (tensor("model/head.weight", None), "its tensors of the model have other names"),
        (tensor("model/extra", torch.zeros(1)), "its tensors of the model have other names"),
        (tensor("model/head.weight", torch.zeros(3, 3)), "has another shape or type"),
        (tensor("model/head.bias", torch.zeros(2, dtype=torch.int64)), "another shape or type"),
        (tensor("best/last/head.bias", torch.zeros(9)), "of the best has another shape or type"),
        (tensor("optimizer/0/momentum_buffer", torch.zeros(1)), "memory has another shape"),
        (tensor("optimizer/0/exp_avg", torch.zeros(1)), "memory is of another optimizer"),
        (tensor("torch_rng", None), "no state of the random numbers"),
        (tensor("torch_rng", torch.zeros(5, dtype=torch.uint8)), "no state of the random"),
    ],
)
def test_finding_6_a_checkpoint_of_other_types_or_shapes_is_one_sentence(checkpoint, change, why):
    path, run = checkpoint
    tensors, about = read_tensors(path)
    change(tensors, about)
    write_tensors(path, tensors, about)
    with pytest.raises(RunError) as refused:
        run()
    assert why in str(refused.value)
    assert str(refused.value).startswith(f"{path} is no checkpoint of this training (")
    assert str(refused.value).endswith("delete it and run the same command again.")


def test_a_checkpoint_without_the_memory_of_one_parameter_is_continued(checkpoint):
    """A parameter that no step has used yet has none, and no optimizer may stumble over it."""
    path, run = checkpoint
    tensors, about = read_tensors(path)
    del tensors["optimizer/1/momentum_buffer"]
    write_tensors(path, tensors, about)
    assert len(run().history) == 3


def test_a_checkpoint_of_another_optimizer_is_refused_and_a_good_one_continued(checkpoint):
    path, run = checkpoint
    before = path.read_bytes()
    with pytest.raises(RunError, match="memory is of another optimizer"):
        run(optimizer="adamw")
    path.write_bytes(before)
    history = run().history
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3]
    assert all(type(epoch["epoch"]) is int for epoch in history)
    assert np.isfinite([epoch["loss"] for epoch in history]).all()
