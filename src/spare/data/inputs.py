"""Where a split's pixels (or features) come from.

An `Inputs` answers one question: `take(indices, rng)` returns the tensor of these examples. With a
generator it is the training view (augmented); without one, the fixed view used for evaluation and
for the outputs that are clustered. Everything random about a batch comes from that generator, so a
batch can be made again after a crash.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from spare.data.transforms import RandomTransform, Transform
from spare.errors import DataError, InputError, SpareError, reason


class Inputs(Protocol):
    """What a split is read from."""

    @property
    def in_memory(self) -> bool:
        """True when `take` is so cheap that loading in worker processes would only cost time."""

    def __len__(self) -> int: ...

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor: ...


class MapStyle(Protocol):
    """A map-style data set, such as a `torch.utils.data.Dataset` with a length."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class TensorInputs:
    """All examples in one tensor: in memory, or mapped from a file.

    Set `in_memory` to False for a tensor that is read from disk while it is used.
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
        in_memory: bool = True,
    ):
        self.tensor = tensor
        self.view = view
        self.augment = augment
        self.finish = finish
        self.in_memory = in_memory

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        batch = _select(self.tensor, torch.as_tensor(indices))
        return transformed(batch, rng, self.view, self.augment, self.finish)


class SubsetInputs:
    """Some rows of other inputs, in any order; -1 stands for an example that no longer exists."""

    def __init__(self, inputs: Inputs, rows: np.ndarray):
        self.inputs = inputs
        self.rows = rows
        self.in_memory = inputs.in_memory

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return self.inputs.take(self.rows_of(indices), rng)

    def rows_of(self, indices: np.ndarray) -> np.ndarray:
        """The rows of these examples in the inputs that they are a subset of."""
        rows: np.ndarray = self.rows[indices]
        if (rows < 0).any():
            raise DataError("this example is no longer part of the data.")
        return rows


class ConcatInputs:
    """The examples of several inputs, one after the other."""

    def __init__(self, *parts: Inputs):
        self.parts = parts
        self.starts = np.cumsum([0, *map(len, parts)])
        self.in_memory = all(part.in_memory for part in parts)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        indices = np.asarray(indices)
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        batches = [
            self.parts[number].take(indices[owner == number] - self.starts[number], rng)
            for number in np.unique(owner)
        ]
        # Taken part by part: back to the order of the indices.
        order = np.argsort(np.argsort(owner, kind="stable"))
        return _select(torch.cat(batches), torch.as_tensor(order))


class DatasetInputs:
    """Any map-style data set whose items are tensors or arrays, loaded in worker processes.

    Of items that are `(input, label)` pairs the label is ignored: the labels of a split are known
    before anything is loaded. Whatever is random inside the data set itself is beyond the reach of
    the generator that makes runs repeatable; use `augment` instead.
    """

    in_memory = False

    def __init__(
        self,
        dataset: MapStyle,
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
        batch = [self._input(int(index)) for index in indices]
        shapes = {tuple(item.shape): index for item, index in zip(batch, indices, strict=True)}
        if len(shapes) > 1:
            listed = ", ".join(f"{shape} (item {index})" for shape, index in shapes.items())
            raise InputError(
                f"the items of the {type(self.dataset).__name__} differ in shape: {listed}; give "
                f"the data set a transform that makes tensors of one shape."
            )
        return transformed(torch.stack(batch), rng, self.view, self.augment, self.finish)

    def _input(self, index: int) -> Tensor:
        item = item_of(self.dataset, index)
        value = item[0] if isinstance(item, tuple | list) and item else item
        if not isinstance(value, Tensor | np.ndarray):
            raise InputError(
                f"item {index} of the {type(self.dataset).__name__} is a {type(value).__name__}: "
                f"give the data set a transform that makes tensors of one shape."
            )
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError) as error:  # text, objects, another order of bytes
            raise InputError(
                f"item {index} of the {type(self.dataset).__name__} is an array of {value.dtype}: "
                f"let it return numbers."
            ) from error


def item_of(dataset: MapStyle, index: int) -> Any:
    """An item of someone's data set; what its code raises becomes an error that names the item."""
    try:
        return dataset[index]
    except SpareError:
        raise
    except Exception as error:  # someone's own code may raise anything
        raise InputError(
            f"item {index} of {len(dataset)} of the {type(dataset).__name__} cannot be read: "
            f"{type(error).__name__}: {reason(error)}."
        ) from error


def _select(tensor: Tensor, indices: Tensor) -> Tensor:
    """These rows, in the memory layout of the tensor: ten times as fast as `tensor[indices]`."""
    if tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor.permute(0, 2, 3, 1).index_select(0, indices).permute(0, 3, 1, 2)
    return tensor.index_select(0, indices)


def transformed(
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


#: What is left to do to a raw batch, wherever it is; with a generator, for training.
Rest = Callable[[Tensor, np.random.Generator | None], Tensor]


def in_two_steps(inputs: Inputs) -> tuple[Inputs, Rest]:
    """The same inputs without what is done to a batch, and that; together they give its `take`.

    A raw batch is smaller, and the rest can be done where it is sent to. Inputs that are put
    together from several, or are someone's own, do everything at once.
    """
    if isinstance(inputs, SubsetInputs):
        raw, rest = in_two_steps(inputs.inputs)
        return SubsetInputs(raw, inputs.rows), rest
    names = ("view", "augment", "finish")
    if not all(hasattr(inputs, name) for name in names):
        return inputs, lambda batch, rng: batch
    view, augment, finish = (getattr(inputs, name) for name in names)
    raw = copy.copy(inputs)
    for name in names:
        setattr(raw, name, None)
    return raw, lambda batch, rng: transformed(batch, rng, view, augment, finish)


def augmented(inputs: Inputs) -> bool:
    """Whether training batches of it are changed at random."""
    if isinstance(inputs, SubsetInputs):
        return augmented(inputs.inputs)
    if isinstance(inputs, ConcatInputs):
        return any(augmented(part) for part in inputs.parts)
    return getattr(inputs, "augment", None) is not None


def shape_of(inputs: Inputs) -> tuple[int, ...]:
    """The shape of one example: that of the first that still exists."""
    first = int(np.argmax(inputs.rows >= 0)) if isinstance(inputs, SubsetInputs) else 0
    return tuple(inputs.take(np.array([first])).shape[1:])
