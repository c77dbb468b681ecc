"""Frozen backbone: every image's features computed once and kept; then only a head is trained."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from spare.files import read_tensors, write_tensors
from spare.inputs import TensorInputs
from spare.models import ModelChoice, build, builder
from spare.stages import Report
from spare.task import Split, Task
from spare.train import Settings, outputs

#: Of weights that are drawn, not loaded: the same for every seed, so that the features are too.
KEY = (0,)


def frozen_features(task: Task, choice: ModelChoice, settings: Settings, report: Report) -> Task:
    """The task with the backbone's features as inputs, standardised by the training split."""
    shape = tuple(task.train.inputs.take(np.arange(1)).shape[1:])
    model = build(builder(choice, len(task.class_names), shape), KEY)
    features: dict[str, Tensor] = {}
    for name, split in task.splits().items():
        place = _place(task, name, model, split)
        if place is not None and place.exists():
            features[name] = read_tensors(place)[0]["features"]
            continue
        said = outputs(
            model,
            split,
            batch_size=min(settings.eval_batch_size, 250),
            workers=settings.workers,
            on_step=lambda done, total: report("features", done, total),
        )
        features[name] = said.features
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(place, {"features": said.features}, {})
    mean = features["train"].mean(0)
    deviation = features["train"].std(0)
    deviation[deviation == 0] = 1.0

    def standardised(name: str, split: Split | None) -> Split | None:
        if split is None:
            return None
        return replace(split, inputs=TensorInputs((features[name] - mean) / deviation))

    train = standardised("train", task.train)
    assert train is not None
    return replace(
        task,
        train=train,
        val=standardised("val", task.val),
        test=standardised("test", task.test),
    )


def _place(task: Task, name: str, model: nn.Module, split: Split) -> Path | None:
    """Where these features are kept: a name made of the images, the weights and the split."""
    if not task.content:
        return None
    from spare.images.cache import cache_folder

    digest = hashlib.sha256(f"{task.content} {name} {len(split)}".encode())
    for key, value in model.features.state_dict().items():  # type: ignore[union-attr]
        digest.update(key.encode())
        digest.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return cache_folder() / f"{digest.hexdigest()[:32]}.features"
