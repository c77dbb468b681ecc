"""Where a split's pixels (or features) come from.

An `Inputs` answers one question: `take(indices, rng)` gives the float tensor for these examples.
With a generator it is the training view (augmented); without one, the fixed view used for
evaluation and for the outputs that are clustered. Everything random about a batch comes from that
generator, so a batch can be made again after a crash.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from spare.errors import DataError, InputError

Transform = Callable[[Tensor], Tensor]
RandomTransform = Callable[[Tensor, np.random.Generator], Tensor]


class Inputs(Protocol):
    #: True when `take` is so cheap that loading in worker processes would only cost time.
    in_memory: bool

    def __len__(self) -> int: ...

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor: ...


class TensorInputs:
    """All examples in one tensor: in memory, or mapped from a file.

    rows       which rows of the tensor are this split's, when splits share one; otherwise all.
    in_memory  False for a tensor that is read from a disk while it is used.
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
        rows: np.ndarray | None = None,
        in_memory: bool = True,
    ):
        self.tensor = tensor
        self.view = view
        self.augment = augment
        self.finish = finish
        self.rows = rows
        self.in_memory = in_memory

    def __len__(self) -> int:
        return len(self.tensor if self.rows is None else self.rows)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        if self.rows is not None:
            indices = self.rows[indices]
        return apply(
            _pick(self.tensor, torch.as_tensor(indices)), rng, self.view, self.augment, self.finish
        )


class SomeOf:
    """Some examples of other inputs, by their numbers there; -1 for those that are gone."""

    def __init__(self, inputs: Inputs, rows: np.ndarray):
        self.inputs = inputs
        self.rows = rows
        self.in_memory = inputs.in_memory

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return self.inputs.take(self.places(indices), rng)

    def places(self, indices: np.ndarray) -> np.ndarray:
        places = self.rows[indices]
        if (places < 0).any():
            raise DataError("this picture is not there any more.")
        return places


class Joined:
    """The examples of several inputs, numbered on from one to the next."""

    def __init__(self, *parts: Inputs):
        self.parts = parts
        self.starts = np.cumsum([0, *map(len, parts)])
        self.in_memory = all(part.in_memory for part in parts)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        indices = np.asarray(indices)
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        taken = [
            self.parts[number].take(indices[owner == number] - self.starts[number], rng)
            for number in np.unique(owner)
        ]
        # Taken one part after the other: back to the order that was asked for.
        place = np.argsort(np.argsort(owner, kind="stable"))
        return _pick(torch.cat(taken), torch.as_tensor(place))


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
        return apply(batch, rng, self.view, self.augment, self.finish)


def _pick(tensor: Tensor, indices: Tensor) -> Tensor:
    """These rows, in the memory layout of the tensor: ten times as fast as `tensor[indices]`."""
    if tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor.permute(0, 2, 3, 1).index_select(0, indices).permute(0, 3, 1, 2)
    return tensor.index_select(0, indices)


def apply(
    batch: Tensor,
    rng: np.random.Generator | None,
    view: Transform | None,
    augment: RandomTransform | None,
    finish: Transform | None,
) -> Tensor:
    """What every `Inputs` does with its raw batch: augment it or view it, then finish it."""
    if rng is not None and augment is not None:
        batch = augment(batch, rng)
    elif view is not None:
        batch = view(batch)
    return finish(batch) if finish is not None else batch


def shape_of(inputs: Inputs) -> tuple[int, ...]:
    """The shape of one example: that of the first that is there."""
    first = int(np.argmax(inputs.rows >= 0)) if isinstance(inputs, SomeOf) else 0
    return tuple(inputs.take(np.array([first])).shape[1:])


def pictures(inputs: Inputs, indices: np.ndarray) -> Tensor | None:
    """These examples as people see them: (n, 3, height, width) bytes; None if they are no images.

    What is done to pixels only for a network's sake (`finish`) is left out.
    """
    if isinstance(inputs, SomeOf):
        return pictures(inputs.inputs, inputs.places(indices))
    if isinstance(inputs, Joined):
        return _pictures_of_parts(inputs, indices)
    plain = inputs
    if getattr(inputs, "finish", None) is not None:
        plain = copy.copy(inputs)
        plain.finish = None  # type: ignore[attr-defined]
    seen = plain.take(indices)
    if seen.ndim != 4 or seen.shape[1] not in (1, 3):
        return None
    if seen.dtype != torch.uint8:
        low, high = seen.amin(dim=(1, 2, 3), keepdim=True), seen.amax(dim=(1, 2, 3), keepdim=True)
        if low.min() < 0 or high.max() > 1:  # in no range that is known
            seen = (seen - low) / (high - low).clamp(min=1e-6)
        seen = (seen * 255).round().to(torch.uint8)
    return seen.expand(-1, 3, -1, -1)


def _pictures_of_parts(inputs: Joined, indices: np.ndarray) -> Tensor | None:
    found = []
    for index in indices:
        part = int(np.searchsorted(inputs.starts, index, side="right")) - 1
        one = pictures(inputs.parts[part], np.array([index - inputs.starts[part]]))
        if one is None:
            return None
        found.append(one)
    return torch.cat(found)


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


def compose(*transforms: RandomTransform) -> RandomTransform:
    """One after the other, all drawing from the same generator."""

    def composed(batch: Tensor, rng: np.random.Generator) -> Tensor:
        for transform in transforms:
            batch = transform(batch, rng)
        return batch

    return composed


def random_flip() -> RandomTransform:
    """Left and right swapped, for every image with probability 1/2."""

    def flip(batch: Tensor, rng: np.random.Generator) -> Tensor:
        flipped = batch.clone()
        for i in np.flatnonzero(rng.random(len(batch)) < 0.5):
            flipped[i] = batch[i].flip(2)
        return flipped

    return flip


def random_resized_crop(
    size: int,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> RandomTransform:
    """For every image a window of its own, resized to `size` x `size` (bilinear, antialiased).

    scale  the window's share of the image's area, evenly drawn.
    ratio  its width by its height, evenly drawn in the logarithm.
    """

    def crop(batch: Tensor, rng: np.random.Generator) -> Tensor:
        boxes = _windows(len(batch), batch.shape[2], batch.shape[3], scale, ratio, rng)
        # Images resized one by one with their channels last are the fastest way: half the time of
        # channels first, a tenth of that of sampling the whole batch on a grid.
        crops = [
            image[:, :, top : top + height, left : left + width]
            for image, (top, left, height, width) in zip(batch.split(1), boxes, strict=True)
        ]
        return torch.cat([_resize(crop, size) for crop in crops])

    return crop


def _resize(image: Tensor, size: int) -> Tensor:
    image = image.contiguous(memory_format=torch.channels_last)
    return nn.functional.interpolate(image, (size, size), mode="bilinear", antialias=True)


#: How many windows are drawn for an image; if none of them fits into it, all of it is used.
_TRIES = 10


def _windows(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    rng: np.random.Generator,
) -> list[list[int]]:
    """(top, left, height, width) of a random window for each of `n` images of one size."""
    area = rng.uniform(*scale, (n, _TRIES)) * height * width
    shape = np.exp(rng.uniform(np.log(ratio[0]), np.log(ratio[1]), (n, _TRIES)))
    widths = np.rint(np.sqrt(area * shape)).astype(int)
    heights = np.rint(np.sqrt(area / shape)).astype(int)
    fits = (widths >= 1) & (widths <= width) & (heights >= 1) & (heights <= height)
    first = (np.arange(n), fits.argmax(1))
    found = fits.any(1)
    heights = np.where(found, heights[first], height)
    widths = np.where(found, widths[first], width)
    top = rng.integers(0, height - heights + 1)
    left = rng.integers(0, width - widths + 1)
    return np.stack([top, left, heights, widths], 1).tolist()


def scale_bytes(
    mean: float | Sequence[float] = 0.5, std: float | Sequence[float] = 0.5
) -> Transform:
    """uint8 0..255 to float, then (x - mean) / std; channels last, which CPUs convolve faster.

    `mean` and `std` are numbers, or one number for each channel.
    """
    if isinstance(mean, Sequence) or isinstance(std, Sequence):
        return _scale_channels(mean, std)

    def scale(batch: Tensor) -> Tensor:
        floats = batch.to(torch.float32, memory_format=torch.channels_last)
        return floats.mul_(1 / (255 * std)).sub_(mean / std)

    return scale


def _scale_channels(mean: float | Sequence[float], std: float | Sequence[float]) -> Transform:
    means, stds = torch.broadcast_tensors(
        torch.as_tensor(mean, dtype=torch.float64), torch.as_tensor(std, dtype=torch.float64)
    )
    factor = (1 / (255 * stds)).float()
    shift = (-means / stds).float()

    def scale(batch: Tensor) -> Tensor:
        n, channels, height, width = batch.shape
        if channels != len(factor):
            raise InputError(
                f"the images have {channels} channels, but their mean and standard deviation "
                f"{len(factor)}: give one number for each channel."
            )
        pixels = batch.permute(0, 2, 3, 1)
        floats = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        # Whole lines of pixels at a time: three numbers at a time would be slow.
        lines = floats.view(n, height, width * channels)
        torch.addcmul(shift.repeat(width), lines, factor.repeat(width), out=lines)
        return floats.permute(0, 3, 1, 2)

    return scale
