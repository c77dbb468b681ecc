"""Layers that are not trained: what they make of every image is computed once and kept.

`frozen` keeps the features before the head, standardized by the training split, in float32; only a
linear head is trained. `frozen_until` keeps what passes into a layer (models/trunk.py), in float16;
that layer and those after it are trained, in float32. Either way the frozen layers see each image
as it is evaluated, in eval mode: batch normalization uses the statistics that it came with.

An augmentation would have to pass through the frozen layers again and again. Mirroring is the one
that can be kept: with `frozen_until`, `augment=flip` keeps every training image and its mirror
image, and a batch has either with the same probability. `frozen` has no augmentation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.inputs import Inputs, TensorInputs, augmented, shape_of
from spare.data.task import Split, Task
from spare.errors import InputError, Interrupted, RunError
from spare.images.cache import cache_folder
from spare.images.kept import kept_array
from spare.limits import ARRAY, half_of_memory
from spare.models import Classifier, ModelChoice, build, builder
from spare.models.classifier import device_of, hash_state
from spare.models.trunk import Cut, find_cut, rest_builder, rest_of, trunk_output
from spare.progress import SILENT, Progress
from spare.training.device import (
    HOST,
    device_named,
    enough_memory,
    in_precision,
    placed,
    to_host,
)
from spare.training.loading import evaluation_batches
from spare.training.outputs import evaluation_memory
from spare.training.settings import Settings

#: Seeds weights that are not loaded: the same for every run, so that the features are too.
KEY = (0,)
#: Images are larger than what is usually evaluated at once.
MAX_BATCH_SIZE = 250

Given = nn.Module | Callable[..., Any] | None


def with_frozen_layers(
    task: Task,
    choice: ModelChoice,
    settings: Settings,
    progress: Progress = SILENT,
    *,
    given: Given = None,
    augment: str = "",
) -> Task:
    """The task with what the frozen layers give as inputs, and with a model for those.

    Parameters
    ----------
    given
        A network as a Python object; see `builder`.
    augment
        What the data set calls the augmentation of its training batches, where it has a name.
    """
    model = _network(task, choice, settings, given)
    classes = len(task.class_names)
    if choice.frozen:
        features = {
            name: _frozen_outputs(task, name, model, None, settings, progress)
            for name in task.splits()
        }
        return task_of_features(task, features)
    flips = _flips(task, augment)
    shape = shape_of(task.train.inputs)
    cut = find_cut(model, shape, choice.frozen_until)
    inputs: dict[str, Inputs] = {}
    for name, split in task.splits().items():
        mirrored = flips and name == "train"
        values = _frozen_outputs(task, name, model, cut, settings, progress, mirrored)
        inputs[name] = TensorInputs(
            values, finish=_as_float, in_memory=values.nbytes < half_of_memory()
        )
        if mirrored:
            inputs[name] = _EitherSide(inputs[name], len(split))
    size = " x ".join(map(str, values.shape[1:]))
    progress.say(
        f"frozen until {cut.layer}: {100 * cut.share:.0f} % of the parameters before the head; "
        f"{size} values per image are kept in float16."
    )
    rest = rest_builder(builder(choice, classes, shape, given), cut)
    return replace(_with_inputs(task, inputs), build_model=rest)


def task_of_features(task: Task, features: Mapping[str, Tensor]) -> Task:
    """The task with features of every split as inputs, standardized, and a linear head as model."""
    mean, deviation = _scale(features["train"])
    inputs: dict[str, Inputs] = {
        name: TensorInputs((values - mean) / deviation) for name, values in features.items()
    }
    linear = builder(ModelChoice("linear"), len(task.class_names), (len(mean),))
    return replace(_with_inputs(task, inputs), build_model=linear)


def full_network(
    task: Task,
    choice: ModelChoice,
    settings: Settings,
    state: Mapping[str, Tensor],
    progress: Progress = SILENT,
    *,
    given: Given = None,
) -> Classifier:
    """Frozen layers and trained ones as one network on the host, for the task's own inputs."""
    model = _network(task, choice, settings, given)
    if choice.frozen:
        features = _frozen_outputs(task, "train", model, None, settings, progress)
        model.head = _unscaled(state, features, len(task.class_names))
        return model.to(HOST)
    cut = find_cut(model, shape_of(task.train.inputs), choice.frozen_until)
    expected = rest_of(model, cut).state_dict()
    if {name: value.shape for name, value in state.items()} != {
        name: value.shape for name, value in expected.items()
    }:
        raise RunError(
            f"the stored weights do not fit the model: they are not those from {cut.layer!r} on."
        )
    model.load_state_dict(dict(state), strict=False)
    return model.to(HOST)


def _unscaled(head: Mapping[str, Tensor], features: Tensor, classes: int) -> nn.Linear:
    """The head for features that are not standardized."""
    mean, deviation = _scale(features)
    shapes = {name: tuple(value.shape) for name, value in head.items()}
    if shapes != {"head.weight": (classes, len(mean)), "head.bias": (classes,)}:
        raise RunError("the stored weights do not fit the model: they are not those of its head.")
    weight = to_host(head["head.weight"]) / deviation
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    bias = to_host(head["head.bias"]) - weight @ mean
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def _network(task: Task, choice: ModelChoice, settings: Settings, given: Given) -> Classifier:
    shape = shape_of(task.train.inputs)
    model = build(builder(choice, len(task.class_names), shape, given), KEY)
    assert isinstance(model, Classifier)
    return placed(model, device_named(settings.device))


def _with_inputs(task: Task, inputs: Mapping[str, Inputs]) -> Task:
    splits: dict[str, Any] = {
        name: replace(split, inputs=inputs[name]) for name, split in task.splits().items()
    }
    return replace(task, **splits)


def _frozen_outputs(
    task: Task,
    name: str,
    model: Classifier,
    cut: Cut | None,
    settings: Settings,
    progress: Progress,
    mirrored: bool = False,
) -> Tensor:
    """What the layers before the head, or before the cut, make of a split: kept, or computed.

    mirrored    append what they make of the mirror images
    """
    split = task.splits()[name]
    count = len(split) * (1 + mirrored)
    make = partial(_parts, split, model, cut, settings, progress, mirrored)
    if task.content:
        key = _key(task, name, model, cut, settings, mirrored)
        array = kept_array(cache_folder(), key, count, make)
    else:
        array = _joined(make(), count)
    values = torch.from_numpy(array)
    # Kept with their channels last, which CPUs convolve faster.
    return values.permute(0, 3, 1, 2) if values.ndim == 4 else values


def _parts(
    split: Split,
    model: Classifier,
    cut: Cut | None,
    settings: Settings,
    progress: Progress,
    mirrored: bool,
) -> Iterator[np.ndarray]:
    """The rows of an array, a few at a time."""
    size, device = min(settings.eval_batch_size, MAX_BATCH_SIZE), device_of(model)
    model.eval()
    done = 0
    for mirror in (False, True)[: 1 + mirrored]:
        steps, batches = evaluation_batches(split, size, settings.workers, device)
        with enough_memory(device, *evaluation_memory(size)):
            for x in batches:
                with torch.inference_mode(), in_precision(settings.precision, device):
                    x = x.flip(3) if mirror else x
                    values = model.features(x) if cut is None else trunk_output(model, cut, x)
                    values = to_host(values.clone())
                yield _array(values, cut)
                done += 1
                progress.report("features", done, steps * (1 + mirrored))
                if progress.should_stop():
                    raise Interrupted("stopped; the same command computes the frozen layers again.")


def _array(values: Tensor, cut: Cut | None) -> np.ndarray:
    if values.ndim == 4:
        values = values.permute(0, 2, 3, 1)
    if cut is None:
        return np.asarray(values.numpy())
    half = values.half()
    if not half.isfinite().all():
        raise InputError(
            f"what passes into {cut.layer!r} is too large to be kept in float16: name another "
            f"layer in frozen_until."
        )
    return np.asarray(half.numpy())


def _joined(parts: Iterator[np.ndarray], count: int) -> np.ndarray:
    first = next(parts)
    ARRAY.check(count * first[:1].nbytes, "what the frozen layers give")
    return np.concatenate([first, *parts])


def _as_float(batch: Tensor) -> Tensor:
    return batch.float()


class _EitherSide:
    """Images and, after all of them, their mirror images: training takes either at random."""

    def __init__(self, both: Inputs, count: int):
        self.both = both
        self.count = count
        self.in_memory = both.in_memory

    def __len__(self) -> int:
        return self.count

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        if rng is not None:
            indices = indices + self.count * (rng.random(len(indices)) < 0.5)
        return self.both.take(indices)


def _flips(task: Task, augment: str) -> bool:
    """Whether training batches are mirrored; an error if more is done to them."""
    if augment == "flip":
        return True
    if augment != "none" and augmented(task.train.inputs):
        raise InputError(
            f"frozen layers see each image once, so the training batches of {task.name} cannot be "
            f"changed at random{f' (augment={augment})' if augment else ''}: use augment=flip or "
            f"none, or train all layers."
        )
    return False


def _scale(features: Tensor) -> tuple[Tensor, Tensor]:
    deviation = features.std(0)
    deviation[deviation == 0] = 1.0
    return features.mean(0), deviation


def _key(
    task: Task,
    name: str,
    model: Classifier,
    cut: Cut | None,
    settings: Settings,
    mirrored: bool,
) -> str:
    """Made of the images, the weights, the split, the precision, the device and the layer."""
    about = f"{task.content} {name} {len(task.splits()[name])} {settings.precision}"
    if cut is not None:
        about += f" {cut.layer} {mirrored}"
    if (kind := device_of(model).type) != HOST.type:  # whose last bits are others
        about += f" {kind}"
    digest = hashlib.sha256(about.encode())
    hash_state(digest, model.features.state_dict())
    return digest.hexdigest()[:32]
