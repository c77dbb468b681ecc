"""The record of data that is already in memory, and what its kinds share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spare.errors import InputError

if TYPE_CHECKING:
    from spare.data.task import Task

ACCEPTED = (
    "give a path, (features, labels), a dict of arrays, a pandas or pyarrow table, a torch Dataset "
    "of (input, label) pairs, or a dict of those by split"
)


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


def as_array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"a list whose rows differ in length is not an array: {ACCEPTED}."
        ) from error


def kind_of(dimensions: int) -> str:
    """Features are arrays; images are tensors, which start from other settings."""
    return "arrays" if dimensions == 1 else "tensors"


def hash_array(digest: hashlib._Hash, name: str, array: np.ndarray) -> None:
    digest.update(f"{name} {array.dtype} {array.shape}".encode())
    if array.dtype.kind == "O":
        digest.update(repr(array.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(array).tobytes())
