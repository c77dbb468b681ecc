"""From groups to sampling probabilities, and the sampling itself.

Within a class, a group of size s gets mass proportional to s * s^-power = s^(1-power): power 1
makes groups equal, power 2 makes small ones heavier. Every class gets the same mass, as in the
paper, or its natural one, the share of the examples that it has. Without classes every group gets
the same mass, which is plain group balancing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.groups.arrays import class_labels, integers, number, one_of, rows_by_class
from spare.limits import Range
from spare.text import shown

Power = float | Mapping[Any, float]
#: The share of the smallest group approaches 1 as the power grows.
POWER = Range(0)
CLASS_MASSES = ("equal", "natural")


def importance_weights(
    groups: Any, labels: Any, power: Power | None = None, *, class_mass: str = "equal"
) -> np.ndarray:
    """The probability with which each example is sampled.

    Parameters
    ----------
    groups : Groups or array of int, shape (examples,)
        What `infer_groups` returns, or any group ids that are unique across classes.
    labels : array of shape (examples,)
        Class labels: integers or strings.
    power : float or dict, optional
        Sampling power of all classes, or by class: any finite number of at least 0. By default the
        one that `infer_groups` chose, or 1 for ids without one.
    class_mass : str
        "equal", or "natural" for classes as frequent as they are in the data.

    Returns
    -------
    array of float64, shape (examples,)
        Sums to 1.

    Examples
    --------
    >>> importance_weights([0, 0, 0, 1, 2, 2], [0, 0, 0, 0, 1, 1]).round(3).tolist()
    [0.083, 0.083, 0.083, 0.25, 0.25, 0.25]
    """
    return GroupSampling(groups, labels, power, class_mass).probabilities


class GroupSampling:
    """Samples a group by its mass, then a member uniformly: exact for any number of examples."""

    def __init__(
        self,
        groups: Any,
        labels: Any = None,
        power: Power | None = None,
        class_mass: str = "equal",
    ):
        one_of("class_mass", class_mass, CLASS_MASSES)
        if hasattr(groups, "evidence"):
            power = groups.powers() if power is None else power
            labels = groups.labels if labels is None else labels
            groups = groups.ids
        ids = integers(groups, "groups")
        self.names, self.codes, self.sizes = np.unique(ids, return_inverse=True, return_counts=True)
        self.order = np.argsort(self.codes, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        if labels is None:
            if power is not None and (isinstance(power, Mapping) or power_of(power, None) != 1):
                raise InputError("a power needs labels: masses are divided within each class.")
            self.mass = np.full(len(self.names), 1 / len(self.names))
        else:
            self.mass = self._masses(
                class_labels(labels, len(ids)), 1.0 if power is None else power, class_mass
            )
        self.cumulative = np.cumsum(self.mass)
        self.cumulative[-1] = 1.0

    def _masses(self, labels: np.ndarray, power: Power, class_mass: str) -> np.ndarray:
        classes, codes = np.unique(labels, return_inverse=True)
        class_of = codes[self.order[self.starts]]  # by group
        mixed = np.flatnonzero(codes != class_of[self.codes])
        if len(mixed):
            row = int(mixed[0])
            raise InputError(
                f"group {self.names[self.codes[row]]} holds examples of more than one class "
                f"(row {row}): group ids must be unique across classes."
            )
        mass = np.empty(len(self.names))
        for code, groups in rows_by_class(class_of).items():
            sizes = self.sizes[groups]
            total = sizes.sum() / len(labels) if class_mass == "natural" else 1 / len(classes)
            mass[groups] = shares(sizes, power_of(power, classes[code].item())) * total
        return mass

    @property
    def probabilities(self) -> np.ndarray:
        """How likely each example is sampled."""
        return (self.mass / self.sizes)[self.codes]

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Row numbers of `count` examples, sampled with replacement."""
        group = np.searchsorted(self.cumulative, rng.random(count), side="right")
        member = (rng.random(count) * self.sizes[group]).astype(np.int64)
        return self.order[self.starts[group] + member]


def shares(sizes: np.ndarray, power: float) -> np.ndarray:
    """The share of a class's samples that each of its groups gets."""
    with np.errstate(over="ignore"):
        relative = (sizes / sizes.max()) ** (1 - power)
    if not np.isfinite(relative.sum()):  # the power is so high that all but the smallest get 0
        relative = (sizes / sizes.min()) ** (1 - power)
    return np.asarray(relative / relative.sum())


def power_of(power: Power, label: Any) -> float:
    """The sampling power of a class, checked."""
    if isinstance(power, Mapping):
        if label not in power:
            raise InputError(
                f"no power was given for class {shown(label)}, only for {shown(list(power))}."
            )
        power = power[label]
    return number("a sampling power", power, POWER)
