"""A frozen backbone: the features of every image computed once and kept; only a head is trained."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from spare.data.inputs import TensorInputs, shape_of
from spare.data.task import Split, Task
from spare.errors import RunError
from spare.files.reading import read_tensors
from spare.files.writing import write_tensors
from spare.images.cache import cache_folder
from spare.models import Classifier, ModelChoice, build, builder
from spare.models.classifier import hash_state
from spare.progress import SILENT, Progress
from spare.training.device import HOST, to_host
from spare.training.outputs import outputs
from spare.training.settings import Settings

#: Seeds weights that are not loaded: the same for every run, so that the features are too.
KEY = (0,)
#: Images are larger than what is usually evaluated at once.
MAX_BATCH_SIZE = 250


def frozen_features(
    task: Task,
    choice: ModelChoice,
    settings: Settings,
    progress: Progress = SILENT,
    *,
    given: nn.Module | Callable[..., Any] | None = None,
) -> Task:
    """The task with the backbone's features as inputs, standardized by the training split.

    Parameters
    ----------
    given
        A backbone as a Python object; see `builder`.
    """
    model = _backbone(task, choice, settings, given)
    features = {name: _features(task, name, model, settings, progress) for name in task.splits()}
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


def full_network(
    task: Task,
    choice: ModelChoice,
    settings: Settings,
    head: Mapping[str, Tensor],
    progress: Progress = SILENT,
    *,
    given: nn.Module | Callable[..., Any] | None = None,
) -> Classifier:
    """Backbone and trained head as one network on the host, for the task's own inputs."""
    model = _backbone(task, choice, settings, given)
    mean, deviation = _scale(_features(task, "train", model, settings, progress))
    shapes = {name: tuple(value.shape) for name, value in head.items()}
    classes = len(task.class_names)
    if shapes != {"head.weight": (classes, len(mean)), "head.bias": (classes,)}:
        raise RunError("the stored weights do not fit the model: they are not those of its head.")
    weight = to_host(head["head.weight"]) / deviation
    model.head = nn.Linear(weight.shape[1], weight.shape[0])
    bias = to_host(head["head.bias"]) - weight @ mean
    model.head.load_state_dict({"weight": weight, "bias": bias})
    return model.to(HOST)


def _backbone(
    task: Task,
    choice: ModelChoice,
    settings: Settings,
    given: nn.Module | Callable[..., Any] | None,
) -> Classifier:
    shape = shape_of(task.train.inputs)
    model = build(builder(choice, len(task.class_names), shape, given), KEY)
    assert isinstance(model, Classifier)
    return model.to(settings.device)


def _features(
    task: Task, name: str, model: Classifier, settings: Settings, progress: Progress
) -> Tensor:
    """Those of a split, cached or computed."""
    split = task.splits()[name]
    path = _cache_path(task, name, model, split, settings)
    if path is not None and path.exists():
        stored = read_tensors(path)[0].get("features")
        if stored is not None and stored.ndim == 2 and len(stored) == len(split):
            return stored
    settings = replace(settings, eval_batch_size=min(settings.eval_batch_size, MAX_BATCH_SIZE))
    features = outputs(model, split, settings, on_step=progress.steps_of("features")).features
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, {"features": features}, {})
    return features


def _scale(features: Tensor) -> tuple[Tensor, Tensor]:
    deviation = features.std(0)
    deviation[deviation == 0] = 1.0
    return features.mean(0), deviation


def _cache_path(
    task: Task, name: str, model: Classifier, split: Split, settings: Settings
) -> Path | None:
    """A file name made of the images, the weights, the split and the precision."""
    if not task.content:
        return None
    content = f"{task.content} {name} {len(split)}"
    if settings.precision != "float32":
        content += f" {settings.precision}"
    digest = hashlib.sha256(content.encode())
    hash_state(digest, model.features.state_dict())
    return cache_folder() / f"{digest.hexdigest()[:32]}.features"
