"""A task: three splits with labels and, sometimes, attributes; and who may see which of them.

Groups are derived from label x attributes. A method never gets the task itself but
`task.as_seen_by(...)`, without the attributes that it did not declare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from spare.data.inputs import Inputs, SubsetInputs
from spare.errors import DataError, InputError
from spare.limits import CLASSES, GROUPS

if TYPE_CHECKING:
    from torch import nn

#: What a method may know: no group labels, those of the validation split, or those of training too.
SEES = ("none", "val", "train")


@dataclass(frozen=True)
class Split:
    """Inputs with one label per example and, where they are known, attributes by name.

    Parameters
    ----------
    inputs : Inputs
        Where the pixels or features come from, such as `spare.data.inputs.TensorInputs`.
    labels : array of int
        The class of each example, counted from 0.
    attributes : mapping, optional
        By name, the attribute's value of each example, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from spare.data.inputs import TensorInputs
    >>> inputs = TensorInputs(torch.tensor([[0.5], [1.0], [1.5]]))
    >>> split = Split(inputs, np.array([0, 1, 1]), {"color": np.array([0, 1, 0])})
    >>> len(split)
    3
    >>> split.subset(np.array([2])).labels
    array([1])
    """

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
        for name, values in {"labels": self.labels, **(self.attributes or {})}.items():
            _check_codes(name, values)

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

    Parameters
    ----------
    name : str
        What it is called.
    train, val, test : Split
        Either of the last two may be None.
    class_names : tuple of str
        One name per class; a label is a position among them.
    attribute_values : mapping
        By attribute, the names of its values; a value is a position among them. Empty if there are
        no attributes.
    build_model : callable, optional
        Makes a fresh model; a run fills this in from its settings.
    shortcuts : mapping
        By attribute: for each class, the value that it has wherever the shortcut holds. Empty where
        nobody knows of one, or the attributes are none.
    names : mapping
        By split, what people know each example by, such as its file.
    facts, fact_values : mapping
        What else is known of every training example, which makes no groups: by name, the value of
        each example, counted from 0, and the names of the values. Clusters are compared with them.
    sizes : array, optional
        Height and width of every training image before it was resized.
    content : str
        Identifies the content of the inputs, so that what is computed from them can be cached.
    holds_outputs : bool
        True when the inputs are already a model's outputs, to be clustered as they are.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from spare.data.inputs import TensorInputs
    >>> labels, colors = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    >>> train = Split(TensorInputs(torch.rand(4, 3, 8, 8)), labels, {"color": colors})
    >>> task = Task("toys", train, None, None, ("cat", "dog"), {"color": ("red", "blue")})
    >>> task.group_names
    ('cat/red', 'cat/blue', 'dog/red', 'dog/blue')
    >>> task.groups(train)
    array([0, 0, 3, 2])
    """

    name: str
    train: Split
    val: Split | None
    test: Split | None
    class_names: tuple[str, ...]
    attribute_values: Mapping[str, tuple[str, ...]]
    build_model: Callable[[], nn.Module] | None = None
    shortcuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    facts: Mapping[str, np.ndarray] = field(default_factory=dict)
    fact_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: np.ndarray | None = None
    content: str = ""
    holds_outputs: bool = False

    def __post_init__(self) -> None:
        CLASSES.check(len(self.class_names), f"task {self.name!r}")
        GROUPS.check(
            math.prod([len(self.class_names), *map(len, self.attribute_values.values())]),
            f"task {self.name!r}, with one for each class and value of its attributes,",
        )
        self._with_safe_names()
        for name, values in self.shortcuts.items():
            if name not in self.attribute_values or len(values) != len(self.class_names):
                raise InputError(
                    f"the shortcut {name!r} of task {self.name!r} is no attribute with one value "
                    f"for each of the {len(self.class_names)} classes."
                )
        for split in self.splits().values():
            self._check_known("a label", split.labels, self.class_names)
        counts = np.bincount(self.train.labels, minlength=len(self.class_names))
        empty = [name for name, n in zip(self.class_names, counts, strict=False) if n == 0]
        if empty:
            raise DataError(
                f"class {empty[0]!r} has no training example: add some, or leave the class out of "
                f"the other splits too."
            )

    def _with_safe_names(self) -> None:
        """Names as valid Unicode, whatever they were read from: records are written in it."""
        names = {split: _safe(part) for split, part in self.names.items()}
        values = {key: tuple(_safe(part)) for key, part in self.attribute_values.items()}
        object.__setattr__(self, "class_names", tuple(_safe(self.class_names)))
        object.__setattr__(self, "attribute_values", values)
        object.__setattr__(self, "names", names)
        for what, known in {"classes": self.class_names, **values}.items():
            if len(set(known)) != len(known):
                twice = next(name for name in known if list(known).count(name) > 1)
                raise DataError(f"two of the {what} have the name {twice!r}: rename one.")

    def _check_known(self, what: str, codes: np.ndarray, names: Sequence[str]) -> None:
        if len(codes) and int(np.max(codes)) >= len(names):
            raise InputError(
                f"{what} of task {self.name!r} is {int(np.max(codes))}, but there are "
                f"{len(names)} names: number them from 0."
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
            shortcuts={},
            facts={},
            sizes=None,
        )

    def holds(self, split: Split) -> dict[str, np.ndarray]:
        """By shortcut, whether it holds for each example; {} where none is known."""
        attributes = split.attributes or {}
        return {
            name: np.asarray(attributes[name]) == np.asarray(values)[np.asarray(split.labels)]
            for name, values in self.shortcuts.items()
            if name in attributes
        }

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
            codes = np.asarray(split.attributes[name], dtype=np.int64)
            self._check_known(f"attribute {name!r}", codes, values)
            ids = ids * len(values) + codes
        return ids


def _check_codes(name: str, values: np.ndarray) -> None:
    codes = np.asarray(values)
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or (len(codes) and codes.min() < 0):
        raise InputError(
            f"the {name} of a split are whole numbers from 0, one per example, not an array of "
            f"{codes.dtype} with the shape {codes.shape}"
            + (f" and the value {codes.min()}." if codes.dtype.kind == "i" and len(codes) else ".")
        )


def _safe(names: Sequence[str]) -> Sequence[str]:
    """The same names, if they are text; a byte of a file's name that is none becomes \\xNN."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [
            name.encode(errors="surrogateescape").decode(errors="backslashreplace")
            if _is_file_name(name)
            else name.encode(errors="backslashreplace").decode()
            for name in names
        ]
    return names


def _is_file_name(name: str) -> bool:
    """Whether what is no text in it came from a file's name."""
    return not any("\ud800" <= c < "\udc80" or "\udcff" < c <= "\udfff" for c in name)
