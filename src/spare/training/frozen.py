"""Frozen backbone: every image's features computed once and kept; then only a head is trained."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from spare.data.inputs import TensorInputs, shape_of
from spare.data.task import Split, Task
from spare.files import read_tensors, write_tensors
from spare.models import Classifier, ModelChoice, build, builder
from spare.training.checkpoint import State
from spare.training.outputs import outputs
from spare.training.settings import Settings
from spare.training.stages import Report

#: Of weights that are drawn, not loaded: the same for every seed, so that the features are too.
KEY = (0,)


def frozen_features(task: Task, choice: ModelChoice, settings: Settings, report: Report) -> Task:
    """The task with the backbone's features as inputs, standardized by the training split."""
    model = _backbone(task, choice)
    features = {name: _features(task, name, model, settings, report) for name in task.splits()}
    mean, deviation = _scale(features["train"])

    def standardized(name: str, split: Split | None) -> Split | None:
        if split is None:
            return None
        return replace(split, inputs=TensorInputs((features[name] - mean) / deviation))

    train = standardized("train", task.train)
    assert train is not None
    return replace(
        task,
        train=train,
        val=standardized("val", task.val),
        test=standardized("test", task.test),
    )


def thawed(
    task: Task, choice: ModelChoice, settings: Settings, head: State, report: Report
) -> Classifier:
    """Backbone and trained head as one network, which takes the task's own inputs."""
    model = _backbone(task, choice)
    mean, deviation = _scale(_features(task, "train", model, settings, report))
    weight = head["head.weight"] / deviation
    model.head = nn.Linear(weight.shape[1], weight.shape[0])
    model.head.load_state_dict({"weight": weight, "bias": head["head.bias"] - weight @ mean})
    return model


def _backbone(task: Task, choice: ModelChoice) -> Classifier:
    shape = shape_of(task.train.inputs)
    model = build(builder(choice, len(task.class_names), shape), KEY)
    assert isinstance(model, Classifier)
    return model


def _features(
    task: Task, name: str, model: Classifier, settings: Settings, report: Report
) -> Tensor:
    """Those of a split, kept or computed."""
    split = task.splits()[name]
    place = _place(task, name, model, split)
    if place is not None and place.exists():
        return read_tensors(place)[0]["features"]
    said = outputs(
        model,
        split,
        batch_size=min(settings.eval_batch_size, 250),
        workers=settings.workers,
        on_step=lambda done, total: report("features", done, total),
    )
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(place, {"features": said.features}, {})
    return said.features


def _scale(features: Tensor) -> tuple[Tensor, Tensor]:
    deviation = features.std(0)
    deviation[deviation == 0] = 1.0
    return features.mean(0), deviation


def _place(task: Task, name: str, model: Classifier, split: Split) -> Path | None:
    """Where these features are kept: a name made of the images, the weights and the split."""
    if not task.content:
        return None
    from spare.images.cache import cache_folder

    digest = hashlib.sha256(f"{task.content} {name} {len(split)}".encode())
    for key, value in model.features.state_dict().items():
        digest.update(key.encode())
        digest.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return cache_folder() / f"{digest.hexdigest()[:32]}.features"
