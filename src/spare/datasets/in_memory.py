"""The record of data that is already in memory, and what its kinds share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from spare.data.inputs import ConcatInputs, DatasetInputs, Inputs, SubsetInputs, TensorInputs
from spare.datasets.values import as_array

if TYPE_CHECKING:
    from spare.data.task import Task

#: How many items are read to identify data that is not in memory as one tensor.
SAMPLED_ITEMS = 64


@dataclass(frozen=True)
class InMemory:
    """Data in memory, and how it becomes a task."""

    #: Such as "arrays".
    name: str
    data: Any
    #: Called with the data, the seed, progress, and choices.
    load: Callable[..., Task]
    #: As of the same data in a file: arrays or manifest; or tensors for images.
    kind: str
    #: Identifies the content.
    fingerprint: str


def kind_of(dimensions: int) -> str:
    """Features are arrays; images are tensors, which start from other settings."""
    return "arrays" if dimensions == 1 else "tensors"


def hash_array(digest: hashlib._Hash, name: str, array: np.ndarray) -> None:
    digest.update(f"{name} {array.dtype} {array.shape}".encode(errors="surrogatepass"))
    if array.dtype.kind == "O":
        digest.update(repr(array.tolist()).encode(errors="surrogatepass"))
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def hash_inputs(digest: hashlib._Hash, all_inputs: Iterable[Inputs]) -> None:
    """Add what identifies some inputs: the tensors in memory behind them, and a sample of items.

    The sample is always of the same rows. It counts only if it is the same when read again: items
    that are augmented at random never are.
    """
    all_inputs = list(all_inputs)
    # Splits often share a tensor, which is hashed once.
    arrays = {id(array): array for inputs in all_inputs for array in _arrays(inputs)}
    for array in arrays.values():
        hash_array(digest, "array", as_array(array))
    for inputs in filter(len, all_inputs):
        sample, again = (_sample_digest(inputs) for _ in range(2))
        if sample == again:
            digest.update(sample)


def _sample_digest(inputs: Inputs) -> bytes:
    """Of items that are spread evenly over all of them."""
    digest = hashlib.sha256()
    for row in np.unique(np.linspace(0, len(inputs) - 1, SAMPLED_ITEMS).astype(np.int64)):
        hash_array(digest, "item", as_array(inputs.take(np.array([row]))))
    return digest.digest()


def _arrays(source: Any) -> Iterator[Any]:
    """The tensors in memory that inputs or a torch data set are read from, and in which order."""
    if isinstance(source, TensorInputs) and source.in_memory:
        yield source.tensor
    elif isinstance(source, TensorDataset):
        yield from source.tensors
    elif isinstance(source, SubsetInputs):
        yield source.rows
        yield from _arrays(source.inputs)
    elif isinstance(source, Subset):
        yield source.indices
        yield from _arrays(source.dataset)
    elif isinstance(source, ConcatInputs | ConcatDataset):
        parts = source.parts if isinstance(source, ConcatInputs) else source.datasets
        for part in parts:
            yield from _arrays(part)
    elif isinstance(source, DatasetInputs):
        yield from _arrays(source.dataset)
