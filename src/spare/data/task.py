"""A task: three splits with labels and, sometimes, attributes; and who may see which of them.

Groups are derived from label x attributes. A method never gets the task itself but
`task.as_seen_by(...)`, without the attributes that it did not declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from spare.data.inputs import Inputs, SubsetInputs
from spare.errors import DataError, InputError

if TYPE_CHECKING:
    from torch import nn

#: What a method may know: no group labels, those of the validation split, or those of training too.
SEES = ("none", "val", "train")


@dataclass(frozen=True)
class Split:
    """Inputs with one label per example and, where they are known, attributes by name."""

    inputs: Inputs
    labels: np.ndarray
    attributes: Mapping[str, np.ndarray] | None = None

    def __post_init__(self) -> None:
        lengths = {"inputs": len(self.inputs), "labels": len(self.labels)}
        for name, values in (self.attributes or {}).items():
            lengths[f"attribute {name!r}"] = len(values)
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise InputError(f"the parts of a split differ in length: {listed}.")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: np.ndarray) -> Split:
        """These rows alone."""
        attributes = {name: np.asarray(v)[rows] for name, v in (self.attributes or {}).items()}
        return Split(
            SubsetInputs(self.inputs, rows), np.asarray(self.labels)[rows], attributes or None
        )


@dataclass(frozen=True)
class Task:
    """Data to learn a classifier from and to score it on.

    Labels are class indices 0..C-1; attributes are value indices into `attribute_values`.
    """

    name: str
    train: Split
    val: Split | None
    test: Split | None
    class_names: tuple[str, ...]
    attribute_values: Mapping[str, tuple[str, ...]]
    #: Makes a fresh model; a run fills this in from its settings.
    build_model: Callable[[], nn.Module] | None = None
    #: Attributes whose value has the same number as the class wherever the shortcut holds.
    shortcuts: tuple[str, ...] = ()
    #: What people know each example by, such as its file: one name per example, by split.
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Height and width of every training image before it was resized, where that is known.
    sizes: np.ndarray | None = None
    #: Identifies the content of the inputs, so that what is computed from them can be cached.
    content: str = ""
    #: True when the inputs are already a model's outputs, to be clustered as they are.
    holds_outputs: bool = False

    def __post_init__(self) -> None:
        counts = np.bincount(self.train.labels, minlength=len(self.class_names))
        empty = [name for name, n in zip(self.class_names, counts, strict=False) if n == 0]
        if empty:
            raise DataError(
                f"class {empty[0]!r} has no training example: add some, or leave the class out of "
                f"the other splits too."
            )

    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: split for name, split in named.items() if split is not None}

    def as_seen_by(self, sees: str) -> Task:
        """This task without the group labels that were not declared (test's never are)."""
        if sees not in SEES:
            raise InputError(f"'sees' is one of {', '.join(SEES)}, not {sees!r}.")

        def hidden(split: Split | None) -> Split | None:
            return None if split is None else replace(split, attributes=None)

        return replace(
            self,
            train=self.train if sees == "train" else replace(self.train, attributes=None),
            val=self.val if sees in ("val", "train") else hidden(self.val),
            test=hidden(self.test),
            names={},  # a file's name often gives its group away
            sizes=None,
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """One name per group, in the order of the ids that `groups` gives."""
        parts = [self.class_names, *self.attribute_values.values()]
        return tuple("/".join(names) for names in product(*parts))

    def groups(self, split: Split) -> np.ndarray:
        """The true group of every example: label x attributes as one number."""
        if not split.attributes:
            raise InputError(
                f"task {self.name!r} has no group labels here: the split has no attribute columns, "
                f"or the method did not declare that it sees them."
            )
        ids = np.asarray(split.labels, dtype=np.int64)
        for name, values in self.attribute_values.items():
            ids = ids * len(values) + np.asarray(split.attributes[name], dtype=np.int64)
        return ids
