"""Numbers to learn from, with labels, as a task: what files of arrays and arrays in memory share.

Which columns are needed follows from what they are; only those are read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from spare.data.inputs import SubsetInputs, TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import scale_bytes
from spare.datasets.listing import check_classes
from spare.datasets.splits import SPLITS, Shares, complete_splits, split_numbers
from spare.datasets.tables import LABEL_COLUMNS, NAME_COLUMNS, SPLIT_COLUMNS, Columns, usual
from spare.datasets.values import (
    Column,
    block,
    check_lengths,
    check_memory,
    check_single,
    find,
    native,
    single_values,
)
from spare.datasets.words import FIRST_ROW, MISSING, as_text, encode_column, labels_of, unpacked
from spare.errors import DataError, InputError, SpareError, SpareWarning, unknown

#: Rows that are computed with at once.
STEP = 1 << 16
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

    def words(self, names: Collection[str]) -> set[str]:
        return super().words(names) | {"id"}

    def __post_init__(self) -> None:
        if self.treat_as not in TREAT_AS:
            raise unknown("treat_as", self.treat_as, TREAT_AS)


def task_of_columns(
    columns: Mapping[str, Column],
    where: str,
    chosen: FeatureColumns,
    shares: Shares,
    *,
    first_row: int = FIRST_ROW,
) -> Task:
    """The task of some columns, of which only those that are needed are read.

    Parameters
    ----------
    columns : mapping
        By name.
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
    split = chosen.split or usual(SPLIT_COLUMNS, columns)
    single = [name for name in (label, split, *chosen.attributes) if name]
    for name in single:
        check_single(columns, name, where)
    features = _feature_names(columns, chosen.features, set(single), where)
    count = check_lengths(columns, [*single, *features], where)
    check_memory({n: columns[n] for n in {*single, *features}}, features, where)

    labels, class_names = labels_of(single_values(columns, label, where), label, where, first_row)
    given_splits = None
    if split:
        codes, words = labels_of(single_values(columns, split, where), split, where, first_row)
        given_splits = split_numbers(words, f"{split!r} of {where}")[codes]
    encoded = {
        name: encode_column(single_values(columns, name, where), name, where, MISSING)
        for name in chosen.attributes
    }
    points = _points(columns, features, where)
    splits = complete_splits(given_splits, labels, shares)
    check_classes(labels, splits, class_names)
    flat = points.ndim == 2
    auto_outputs = chosen.treat_as == "auto" and flat and points.shape[1] == len(class_names)
    outputs = chosen.treat_as == "outputs" or auto_outputs
    if chosen.standardize and flat and not outputs:
        points = _standardized(points, splits == 0)
    finish = scale_bytes() if points.dtype == np.uint8 else None
    inputs = TensorInputs(torch.from_numpy(points), finish=finish)
    names = _example_names(columns, features, count, where)

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


def _label_name(columns: Mapping[str, Column], label: str, where: str) -> str:
    name = label or usual(LABEL_COLUMNS, columns)
    if not name:
        raise InputError(
            f"{where} has nothing called {LABEL_COLUMNS[0]!r}: name the labels with --label (there "
            f"are {', '.join(list(columns)[:12])})."
        )
    return name


def _example_names(
    columns: Mapping[str, Column], features: Sequence[str], count: int, where: str
) -> list[str]:
    """What people know the examples by: a column of names, or their rows."""
    rows = [f"row {i}" for i in range(count)]
    ids = next((name for name in NAME_COLUMNS if name in columns and name not in features), None)
    if ids is None or columns[ids].rows != count or columns[ids].shape != ():
        return rows
    try:
        words = as_text(unpacked(single_values(columns, ids, where)), ids, where)
    except SpareError:  # a list or bytes in each row: no names for people
        return rows
    return [word if word is not None else row for word, row in zip(words, rows, strict=True)]


def _feature_names(
    columns: Mapping[str, Column], names: tuple[str, ...], taken: set[str], where: str
) -> list[str]:
    """Which columns to learn from."""
    if names:
        for name in names:
            if not find(columns, name, where).numbers:
                raise InputError(f"column {name!r} of {where} holds no numbers.")
        return [name for name in dict.fromkeys(names) if name not in taken]
    numbers = {n: c for n, c in columns.items() if c.numbers and n not in taken}
    # Vectors beside single columns: the vectors are meant.
    wide = [name for name in numbers if _width(numbers[name], name, where) > 1]
    if len(wide) > 1:
        raise InputError(
            f"{where} has more than one array of vectors ({', '.join(wide)}): name the one "
            f"to use with --set features={wide[0]}."
        )
    if wide:
        return wide
    without = [n for n in columns if n not in taken and _width(columns[n], n, where) != 1]
    chosen = [name for name in numbers if name not in without and name != "id"]
    if not chosen:
        for name in without:
            find(columns, name, where)  # one that cannot be read may have been meant
        raise InputError(f"{where} has no columns of numbers besides {', '.join(sorted(taken))}.")
    unused = [name for name in without if name not in NAME_COLUMNS]
    if unused:
        warnings.warn(
            f"{where}: columns without numbers are not used as features: {', '.join(unused[:5])}.",
            SpareWarning,
            stacklevel=4,
        )
    return chosen


def _width(column: Column, name: str, where: str) -> int:
    """How many numbers an example has; 0 for what is not numbers."""
    if not column.numbers or column.rows is None:
        return 0
    if column.shape is not None:
        return math.prod(column.shape)
    check_memory({name: column}, (), where)
    numbers = block(column.values)
    return 0 if numbers is None else math.prod(numbers.shape[1:])


def _points(columns: Mapping[str, Column], features: Sequence[str], where: str) -> np.ndarray:
    """The numbers to learn from as one array: float32, or bytes if they are images in bytes."""
    parts = []
    for name in features:
        values = columns[name].values
        numbers = block(values if not isinstance(values, np.ndarray) else native(values))
        if numbers is None or not numbers.size:
            raise InputError(
                f"column {name!r} of {where} holds no numbers, or not as many in each row."
            )
        parts.append(numbers)
    if not parts:
        raise InputError(f"{where} has no features: name columns that are not the labels.")
    if len({part.shape[2:] for part in parts}) > 1:
        listed = ", ".join(features)
        raise InputError(f"the features {listed} of {where} differ in shape: name one.")
    points = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    strange = np.flatnonzero(~np.isfinite(points).reshape(len(points), -1).all(axis=1))
    if len(strange):
        raise DataError(
            f"{where} has {len(strange):,} rows with a missing or infinite number (the first "
            f"is row {strange[0]}, counted from 0): repair or remove them."
        )
    return points


def _standardized(points: np.ndarray, train: np.ndarray) -> np.ndarray:
    mean = points[train].mean(axis=0, dtype=np.float64)
    deviation = points[train].std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0  # a constant column says nothing, and becomes 0
    standardized = np.empty_like(points)
    for start in range(0, len(points), STEP):  # the doubles in between take twice the room
        rows = slice(start, start + STEP)
        standardized[rows] = ((points[rows] - mean) / deviation).astype(np.float32)
    return standardized
