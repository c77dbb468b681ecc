"""Where a split's pixels (or features) come from.

An `Inputs` answers one question: `take(indices, rng)` gives the float tensor for these examples.
With a generator it is the training view (augmented); without one, the fixed view used for
evaluation and for the outputs that are clustered. Everything random about a batch comes from that
generator, so a batch can be made again after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from spare.data.transforms import RandomTransform, Transform
from spare.errors import DataError


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


class SubsetInputs:
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


class ConcatInputs:
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
    first = int(np.argmax(inputs.rows >= 0)) if isinstance(inputs, SubsetInputs) else 0
    return tuple(inputs.take(np.array([first])).shape[1:])
