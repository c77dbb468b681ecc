"""Numbers to learn from, with labels, as a task: what files of arrays and arrays in memory share.

Columns are pyarrow arrays, or NumPy arrays of more than one dimension: one row per example.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from spare.data.inputs import SubsetInputs, TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.datasets.listing import check_classes
from spare.datasets.splits import SPLITS, Shares, complete_splits, split_numbers
from spare.datasets.tables import (
    FIRST_ROW,
    LABEL_COLUMNS,
    MISSING,
    NAME_COLUMNS,
    SPLIT_COLUMNS,
    Columns,
    encode_column,
    labels_of,
)
from spare.errors import DataError, InputError, SpareWarning, unknown

TREAT_AS = ("auto", "outputs", "embeddings")


@dataclass(frozen=True)
class FeatureColumns(Columns):
    """Which columns hold what, and how the numbers among them are used."""

    #: The columns to learn from; empty for the only one that has more than one dimension, or for
    #: all other columns of numbers.
    features: tuple[str, ...] = ()
    #: outputs, embeddings, or auto: outputs if there are exactly as many numbers per example as
    #: classes.
    treat_as: str = "auto"
    #: Embeddings to mean 0 and deviation 1, as measured in training.
    standardize: bool = True

    def __post_init__(self) -> None:
        if self.treat_as not in TREAT_AS:
            raise unknown("treat_as", self.treat_as, TREAT_AS)


def as_column(values: np.ndarray) -> Any:
    """An array as a column."""
    import pyarrow as pa

    if values.ndim != 1:
        return values
    return pa.array(values.tolist() if values.dtype.kind in "SUO" else values)


def task_of_columns(
    columns: Mapping[str, Any],
    where: str,
    chosen: FeatureColumns,
    shares: Shares,
    *,
    first_row: int = FIRST_ROW,
) -> Task:
    """The task of some columns.

    Parameters
    ----------
    columns : mapping
        By name: pyarrow arrays, or NumPy arrays of more than one dimension.
    where : str
        What errors and the task call them.
    chosen : FeatureColumns
        Which of them hold what.
    shares : Shares
        How the examples are divided if no column gives splits.
    first_row : int
        The number of the first row, as people count the rows.
    """
    label = _label_name(columns, chosen.label, where)
    labels, class_names = labels_of(_column(columns, label, where), label, where, first_row)
    split = chosen.split or next((name for name in SPLIT_COLUMNS if name in columns), "")
    given_splits = None
    if split:
        codes, words = labels_of(_column(columns, split, where), split, where, first_row)
        given_splits = split_numbers(words, f"{split!r} of {where}")[codes]
    encoded = {
        name: encode_column(_column(columns, name, where), MISSING) for name in chosen.attributes
    }
    points = _features(columns, chosen.features, {label, split, *chosen.attributes}, where)
    splits = complete_splits(given_splits, labels, shares)
    check_classes(labels, splits, class_names)
    flat = points.ndim == 2
    auto_outputs = chosen.treat_as == "auto" and flat and points.shape[1] == len(class_names)
    outputs = chosen.treat_as == "outputs" or auto_outputs
    if chosen.standardize and flat and not outputs:
        points = _standardized(points, splits == 0)
    finish = scale_bytes() if points.dtype == np.uint8 else None
    inputs = TensorInputs(torch.from_numpy(points), finish=finish)
    names = _example_names(columns, chosen.features, len(labels))

    def part(number: int) -> Split | None:
        rows = np.flatnonzero(splits == number)
        if not len(rows):
            return None
        values = {name: codes[rows] for name, (codes, _) in encoded.items()}
        return Split(SubsetInputs(inputs, rows), labels[rows], values or None)

    train = part(0)
    assert train is not None
    return Task(
        name=where,
        train=train,
        val=part(1),
        test=part(2),
        class_names=class_names,
        attribute_values={name: values for name, (_, values) in encoded.items()},
        names={
            name: [names[i] for i in np.flatnonzero(splits == number)]
            for number, name in enumerate(SPLITS)
            if (splits == number).any()
        },
        holds_outputs=outputs,
    )


def _label_name(columns: Mapping[str, Any], label: str, where: str) -> str:
    if label:
        return label
    usual = next((name for name in LABEL_COLUMNS if name in columns), None)
    if usual is None:
        raise InputError(
            f"{where} has nothing called {LABEL_COLUMNS[0]!r}: name the labels with --label (there "
            f"are {', '.join(list(columns)[:12])})."
        )
    return usual


def _column(columns: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in columns:
        raise unknown(f"column of {where}", name, columns)
    values = columns[name]
    if isinstance(values, np.ndarray):
        raise InputError(
            f"{name!r} of {where} has the shape {values.shape}: one value per example is needed."
        )
    return values


def _example_names(columns: Mapping[str, Any], features: tuple[str, ...], count: int) -> list[str]:
    """What people know the examples by: a column of names, or their rows."""
    ids = next((name for name in NAME_COLUMNS if name in columns and name not in features), None)
    if ids is None or isinstance(columns[ids], np.ndarray):
        return [f"row {i}" for i in range(count)]
    return [str(value) for value in columns[ids].to_pylist()]


def _features(
    columns: Mapping[str, Any], names: tuple[str, ...], taken: set[str], where: str
) -> np.ndarray:
    """The numbers to learn from as one array: float32, or bytes if they are images in bytes."""
    for name in names:
        if name not in columns:
            raise unknown(f"column of {where}", name, columns)
    candidates = {name: columns[name] for name in (names or columns) if name not in taken}
    blocks = {name: _block(values) for name, values in candidates.items()}
    wide = [
        name for name, block in blocks.items() if block is not None and np.prod(block.shape[1:]) > 1
    ]
    if not names and wide:  # vectors beside single columns: the vectors are meant
        if len(wide) > 1:
            raise InputError(
                f"{where} has more than one array of vectors ({', '.join(wide)}): name the one "
                f"to use with --set features={wide[0]}."
            )
        chosen = [blocks[wide[0]]]
    else:
        not_numbers = [name for name, block in blocks.items() if block is None]
        if names and not_numbers:
            raise InputError(f"column {not_numbers[0]!r} of {where} holds no numbers.")
        unused = [name for name in not_numbers if name not in NAME_COLUMNS]
        if unused:
            warnings.warn(
                f"{where}: columns without numbers are not used as features: "
                f"{', '.join(unused[:5])}.",
                SpareWarning,
                stacklevel=4,
            )
        skipped = {"id"} if not names else set()
        chosen = [b for name, b in blocks.items() if b is not None and name not in skipped]
    if not chosen:
        raise InputError(
            f"{where} has no columns of numbers besides {', '.join(filter(None, taken))}."
        )
    parts = [block for block in chosen if block is not None]
    lengths = {len(block) for block in parts} | {len(columns[name]) for name in taken if name}
    if len(lengths) > 1:
        raise DataError(
            f"{where}: features and labels differ in length ({', '.join(map(str, lengths))})."
        )
    if len({block.shape[2:] for block in parts}) > 1:
        raise InputError(f"the features {', '.join(names)} of {where} differ in shape: name one.")
    points = np.concatenate(parts, axis=1)
    strange = np.flatnonzero(~np.isfinite(points).reshape(len(points), -1).all(axis=1))
    if len(strange):
        raise DataError(
            f"{where} has {len(strange):,} rows with a missing or infinite number (the first "
            f"is row {strange[0]}, counted from 0): repair or remove them."
        )
    return points


def _block(values: Any) -> np.ndarray | None:
    """A column as (n, 1), vectors as (n, d), images as they are; None for what is not numbers."""
    if isinstance(values, np.ndarray):
        if values.ndim < 2 or values.dtype.kind not in "fiub":
            return None
        bytes_of_images = values.ndim > 2 and values.dtype == np.uint8
        return values if bytes_of_images else np.asarray(values.astype(np.float32))
    import pyarrow as pa

    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False).astype(np.float32)[:, None])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = values.to_pylist()
        widths = {len(row) if row is not None else 0 for row in rows}
        if len(widths) != 1 or not isinstance(rows[0][0] if rows[0] else None, int | float):
            return None
        return np.array(rows, dtype=np.float32)
    return None


def _standardized(points: np.ndarray, train: np.ndarray) -> np.ndarray:
    mean = points[train].mean(axis=0, dtype=np.float64)
    deviation = points[train].std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0  # a constant column says nothing, and becomes 0
    return np.asarray(((points - mean) / deviation).astype(np.float32))
