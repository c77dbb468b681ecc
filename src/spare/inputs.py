"""Where a split's pixels (or features) come from.

An `Inputs` answers one question: `take(indices, rng)` gives the float tensor for these examples.
With a generator it is the training view (augmented); without one, the fixed view used for
evaluation and for the outputs that are clustered. Everything random about a batch comes from that
generator, so a batch can be made again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

Transform = Callable[[Tensor], Tensor]
RandomTransform = Callable[[Tensor, np.random.Generator], Tensor]


class Inputs(Protocol):
    #: True when `take` is so cheap that loading in worker processes would only cost time.
    in_memory: bool

    def __len__(self) -> int: ...

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor: ...


class TensorInputs:
    """All examples in one tensor: a few hundred megabytes at most."""

    in_memory = True

    def __init__(
        self,
        tensor: Tensor,
        *,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
    ):
        self.tensor = tensor
        self.view = view
        self.augment = augment
        self.finish = finish

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        batch = self.tensor[torch.as_tensor(indices)]
        return _apply(batch, rng, self.view, self.augment, self.finish)


class DatasetInputs:
    """Any map-style dataset whose items are tensors, loaded in worker processes.

    Items that are `(input, label)` pairs are accepted: the label is ignored, because the labels of
    a split are known before anything is loaded.
    """

    in_memory = False

    def __init__(
        self,
        dataset: Sequence,
        *,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
    ):
        self.dataset = dataset
        self.view = view
        self.augment = augment
        self.finish = finish

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        items = [self.dataset[int(index)] for index in indices]
        batch = torch.stack([item[0] if isinstance(item, tuple) else item for item in items])
        return _apply(batch, rng, self.view, self.augment, self.finish)


def _apply(
    batch: Tensor,
    rng: np.random.Generator | None,
    view: Transform | None,
    augment: RandomTransform | None,
    finish: Transform | None,
) -> Tensor:
    if rng is not None and augment is not None:
        batch = augment(batch, rng)
    elif view is not None:
        batch = view(batch)
    return finish(batch) if finish is not None else batch


def random_crop(size: int) -> RandomTransform:
    """A crop at a place of its own for every image of the batch."""

    def crop(batch: Tensor, rng: np.random.Generator) -> Tensor:
        n, _, height, width = batch.shape
        top = torch.from_numpy(rng.integers(0, height - size + 1, n))
        left = torch.from_numpy(rng.integers(0, width - size + 1, n))
        windows = batch.unfold(2, size, 1).unfold(3, size, 1)  # a view: nothing is copied yet
        return windows[torch.arange(n), :, top, left]

    return crop


def centre_crop(size: int) -> Transform:
    def crop(batch: Tensor) -> Tensor:
        top = (batch.shape[2] - size) // 2
        left = (batch.shape[3] - size) // 2
        return batch[:, :, top : top + size, left : left + size]

    return crop


def scale_bytes(mean: float = 0.5, std: float = 0.5) -> Transform:
    """uint8 0..255 to float, then (x - mean) / std; channels last, which CPUs convolve faster."""

    def scale(batch: Tensor) -> Tensor:
        floats = batch.to(torch.float32, memory_format=torch.channels_last)
        return floats.mul_(1 / (255 * std)).sub_(mean / std)

    return scale
