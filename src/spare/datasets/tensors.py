"""Someone's own map-style torch data sets of (input, label) pairs: one, or one per split."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from spare.data.inputs import (
    ConcatInputs,
    DatasetInputs,
    Inputs,
    MapStyle,
    SubsetInputs,
    TensorInputs,
    item_of,
    shape_of,
)
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.datasets.in_memory import InMemory, hash_array, hash_inputs, kind_of
from spare.datasets.listing import check_classes
from spare.datasets.splits import SPLIT_NUMBER, SPLITS, Shares, complete_splits
from spare.datasets.values import as_array, as_column, joined
from spare.datasets.words import encode_column
from spare.errors import DataError, InputError
from spare.progress import SILENT, Progress


def load(
    data: Mapping[str, MapStyle], seed: int, progress: Progress = SILENT, *, shares: Shares
) -> Task:
    """The task of one torch data set, which is divided by `shares`, or of one per split."""
    parts = list(data.values())
    values = [_labels(part, progress) for part in parts]
    labels, class_names = _encoded(values, _class_names(parts[0]))
    given_splits = None
    if "" not in data:
        numbers = [SPLIT_NUMBER[name] for name in data]
        given_splits = np.repeat(numbers, [len(part) for part in parts]).astype(np.int64)
    splits = complete_splits(given_splits, labels, shares)
    check_classes(labels, splits, class_names)
    inputs = ConcatInputs(*map(_inputs, parts))
    names = [f"{name or 'item'}[{row}]" for name, part in data.items() for row in range(len(part))]

    def split(number: int) -> Split | None:
        rows = np.flatnonzero(splits == number)
        return Split(SubsetInputs(inputs, rows), labels[rows]) if len(rows) else None

    train = split(0)
    assert train is not None
    return Task(
        name=type(parts[0]).__name__,
        train=train,
        val=split(1),
        test=split(2),
        class_names=class_names,
        attribute_values={},
        names={
            name: [names[i] for i in np.flatnonzero(splits == number)]
            for number, name in enumerate(SPLITS)
            if (splits == number).any()
        },
    )


def of_datasets(datasets: Mapping[str, Any]) -> InMemory:
    """The data sets by split, or a single one under the name ""."""
    digest = hashlib.sha256()
    for name, dataset in datasets.items():
        kind = type(dataset).__name__
        by_number = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        if not by_number or isinstance(dataset, IterableDataset):
            raise InputError(
                f"the {kind} has no length or no items by number: give a map-style data set of "
                f"(input, label) pairs."
            )
        if not len(dataset):
            raise DataError(f"the {kind} has no items.")
        digest.update(f"{name} {len(dataset)}".encode())
        labels = _known_labels(dataset)
        if labels is not None:
            hash_array(digest, "labels", labels)
    hash_inputs(digest, map(_inputs, datasets.values()))
    train = next(iter(datasets.values()))
    kind = kind_of(len(shape_of(_inputs(train))))
    name = type(train).__name__
    return InMemory(name, dict(datasets), load, kind, digest.hexdigest()[:16])


def _inputs(dataset: Any) -> Inputs:
    # A subclass may do more to an item than take it.
    if getattr(type(dataset), "__getitem__", None) is TensorDataset.__getitem__:
        return TensorInputs(dataset.tensors[0], finish=_as_floats)
    return DatasetInputs(dataset, finish=_as_floats)


def _as_floats(batch: Tensor) -> Tensor:
    """The type that networks compute with; images in bytes are scaled as those of files are."""
    if batch.dtype == torch.uint8 and batch.ndim == 4:
        return scale_bytes()(batch)
    return batch.to(torch.float32)


def _labels(dataset: Any, progress: Progress) -> np.ndarray:
    """One label per item: as the data set gives them, else read from its items."""
    labels = _known_labels(dataset)
    if labels is not None:
        return labels
    kind, count = type(dataset).__name__, len(dataset)
    progress.say(f"{kind} has no targets or labels: its {count:,} items are read once for them")
    values: list[Any] = []
    for row in range(count):
        item = item_of(dataset, row)
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise InputError(
                f"item {row} of the {kind} is not a pair (input, label): let it return one."
            )
        values.append(item[1])
        progress.report("labels", row + 1, count)
    return _one_per_item(values, kind)


def _known_labels(dataset: Any) -> np.ndarray | None:
    """The labels that a data set knows without reading its items."""
    if isinstance(dataset, Subset):
        labels = _known_labels(dataset.dataset)
        return None if labels is None else np.asarray(labels[np.asarray(dataset.indices)])
    values = next(
        (v for v in (getattr(dataset, n, None) for n in ("targets", "labels")) if v is not None),
        None,
    )
    tensors: Sequence[Any] = getattr(dataset, "tensors", ())
    if values is None and len(tensors) > 1:
        values = tensors[1]
    return None if values is None else _one_per_item(values, type(dataset).__name__, len(dataset))


def _one_per_item(values: Any, kind: str, count: int | None = None) -> np.ndarray:
    labels = as_array(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or (count is not None and len(labels) != count):
        raise InputError(
            f"the labels of the {kind} have the shape {labels.shape}: one per item is needed (of "
            f"one-hot rows, the position of the 1)."
        )
    return labels


def _class_names(dataset: Any) -> Sequence[str]:
    if isinstance(dataset, Subset):
        return _class_names(dataset.dataset)
    return [str(name) for name in getattr(dataset, "classes", ())]


def _encoded(
    parts: Sequence[np.ndarray], class_names: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers and names; numbers are positions among the class names where there are any."""
    where = "the data set"
    try:
        labels = joined(parts, "label")
    except ValueError as error:
        raise InputError(f"the labels do not fit together: {error}.") from error
    if not class_names or labels.dtype.kind not in "iu":
        codes, names = encode_column(as_column(labels, "label", where), "label", where)
        if (codes < 0).any():
            raise DataError(f"item {int(np.argmax(codes < 0))} of {where} has no label.")
        return codes, names
    if labels.min() < 0 or labels.max() >= len(class_names):
        raise DataError(
            f"there is a label {labels.max() if labels.min() >= 0 else labels.min()}, but the data "
            f"set names {len(class_names)} classes: number labels from 0."
        )
    return labels.astype(np.int64), tuple(class_names)
