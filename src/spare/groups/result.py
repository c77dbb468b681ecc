"""What every group inference returns: a group id for each example, and what was seen in each class.

Groups lie within classes. The first of a class is where the shortcut holds: the largest cluster, or
the examples that an early model gets right; the others are the minorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.groups.weights import class_labels, shares


@dataclass(frozen=True)
class ClassEvidence:
    """What was seen in one class. The majority comes first; clusters go from large to small."""

    k: int
    silhouette: float | None
    scores: dict[int, float]
    sizes: list[int]
    power: float
    #: Group ids of the clusters, in the order of `sizes`.
    ids: list[int]
    #: Share of the class's draws that each cluster gets with this power.
    shares: list[float]
    #: Standard error of each score; zeros where the silhouette is exact.
    errors: dict[int, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Groups:
    """One group id per example, in input order, and the evidence per class label."""

    ids: np.ndarray
    evidence: dict[Any, ClassEvidence]
    labels: np.ndarray
    #: Mean output of every group, by id: where held-out examples are assigned.
    centres: np.ndarray | None = None
    #: What the groups of a class are called, by their place; else "cluster 1", "cluster 2", ...
    called: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def powers(self) -> dict[Any, float]:
        return {label: seen.power for label, seen in self.evidence.items()}

    def names(self, class_names: Sequence[str] | None = None) -> list[str]:
        """What each group is called, by id: its class, and its place from the largest down."""
        found = [""] * sum(len(seen.ids) for seen in self.evidence.values())
        for label, seen in self.evidence.items():
            owner = label if class_names is None else class_names[label]
            for place, group in enumerate(seen.ids):
                part = self.called[place] if self.called else f"cluster {place + 1}"
                found[group] = f"{owner} {part}"
        return found

    def in_majority(self, ids: np.ndarray | None = None) -> np.ndarray:
        """True for the examples (of these ids, or its own) in the first group of a class."""
        first = [seen.ids[0] for seen in self.evidence.values()]
        return np.isin(self.ids if ids is None else ids, first)

    def assign(self, outputs: Any, labels: Any) -> np.ndarray:
        """Group ids of other examples: the nearest centre within the example's own class."""
        if self.centres is None:
            raise InputError("these groups have no centres to assign other examples to.")
        points = checked_outputs(outputs)
        wanted = class_labels(labels, len(points))
        ids = np.empty(len(points), dtype=np.int64)
        for label in np.unique(wanted).tolist():
            if label not in self.evidence:
                raise InputError(f"class {label!r} was not among the classes that were clustered.")
            rows = np.flatnonzero(wanted == label)
            own = np.array(self.evidence[label].ids)
            distances = ((points[rows, None] - self.centres[own]) ** 2).sum(2)
            ids[rows] = own[distances.argmin(1)]
        return ids


def parts_by_size(kinds: Any, labels: Any) -> np.ndarray:
    """A part number for each example: within its class, kinds from the most frequent down.

    >>> parts_by_size([7, 5, 5, 5, 9], ["a", "a", "a", "b", "b"]).tolist()
    [1, 0, 0, 0, 1]
    """
    wanted, given = class_labels(labels, len(labels)), np.asarray(kinds)
    parts = np.zeros(len(wanted), dtype=np.int64)
    for label in np.unique(wanted).tolist():
        own = wanted == label
        _, codes, sizes = np.unique(given[own], return_inverse=True, return_counts=True)
        parts[own] = np.argsort(np.argsort(-sizes, kind="stable"))[codes]
    return parts


def groups_from_parts(
    parts: Any, labels: Any, *, called: tuple[str, ...] = (), power: float = 1.0
) -> Groups:
    """Groups from a part number for each example (0 for the majority's), within each class.

    >>> groups_from_parts([0, 1, 0, 0], ["a", "a", "b", "b"]).ids.tolist()
    [0, 1, 2, 2]
    """
    wanted = class_labels(labels, len(labels))
    numbers = np.asarray(parts, dtype=np.int64)
    every = int(numbers.max()) + 1 if not called else len(called)
    ids = np.empty(len(wanted), dtype=np.int64)
    evidence: dict[Any, ClassEvidence] = {}
    first = 0
    for label in np.unique(wanted).tolist():
        own = wanted == label
        # A named part keeps its place even where it is empty: "mistaken" is never the majority.
        used = np.arange(every) if called else np.unique(numbers[own])
        place = np.full(every, -1)
        place[used] = np.arange(len(used))
        codes = place[numbers[own]]
        sizes = np.bincount(codes, minlength=len(used))
        ids[own] = first + codes
        shared = np.zeros(len(used))
        shared[sizes > 0] = shares(sizes[sizes > 0], power)
        evidence[label] = ClassEvidence(
            k=int((sizes > 0).sum()),
            silhouette=None,
            scores={},
            sizes=sizes.tolist(),
            power=power,
            ids=list(range(first, first + len(used))),
            shares=shared.tolist(),
        )
        first += len(used)
    return Groups(ids=ids, evidence=evidence, labels=wanted, called=called)


def checked_outputs(outputs: Any) -> np.ndarray:
    """(n, d) float64, refused with the first offending rows when a value is not finite."""
    if hasattr(outputs, "detach"):
        outputs = outputs.detach().cpu().numpy()
    points = np.asarray(outputs)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0:
        raise InputError(f"outputs must have shape (examples, values); got {points.shape}.")
    if points.dtype.kind not in "fiub":
        raise InputError(f"outputs must be numbers; got {points.dtype}.")
    points = points.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(points).all(1))
    if len(bad):
        listed = ", ".join(map(str, bad[:5].tolist())) + (", ..." if len(bad) > 5 else "")
        raise InputError(
            f"{len(bad)} of {len(points)} output rows are NaN or infinite (rows {listed}): "
            f"check the model's training before clustering."
        )
    return points
