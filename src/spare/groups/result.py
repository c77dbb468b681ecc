"""What every group inference returns: one group id per example, and the evidence for each class.

Groups lie within classes. The first group of a class is its majority, where the shortcut holds: the
largest cluster, or the examples that an early model gets right. The others are its minorities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.groups.arrays import checked_outputs, class_labels, integers, name_of, rows_by_class
from spare.groups.weights import power_of, shares
from spare.text import shown

#: Points (n, d) of one class to the number of each one's cluster, 0 for the majority.
Assign = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ClassClusters:
    """How the examples of one class were clustered; can be pickled if `assign` can."""

    #: The cluster of every example of the class, 0 for the majority.
    codes: np.ndarray
    #: The silhouette for every number of clusters that was tried.
    scores: dict[int, float] = field(default_factory=dict)
    #: Standard error of each score; zeros where the silhouette is exact.
    errors: dict[int, float] = field(default_factory=dict)
    #: What a person should know, without a period at the end.
    note: str = ""
    #: Finds the cluster of other examples of the class.
    assign: Assign | None = None
    #: Examples in each cluster, where some are elsewhere and have no code here.
    all_sizes: tuple[int, ...] | None = None

    @property
    def silhouette(self) -> float | None:
        return max(self.scores.values(), default=None)


@dataclass(frozen=True)
class ClassEvidence:
    """What was found in one class: its groups, the majority first.

    Attributes
    ----------
    sizes : list of int
        Examples in each group; clusters go from large to small.
    power : float
        Sampling power: 1 gives every group the same mass, 2 gives small groups more.
    scores : dict of int to float
        Silhouette for every number of clusters that was tried.
    errors : dict of int to float
        Standard error of each score; 0 where the silhouette is exact.
    note : str
        What a person should know of this class, if anything.
    first_id : int
        Id of the first group.

    Examples
    --------
    >>> evidence = ClassEvidence(sizes=[90, 10], power=2.0, scores={2: 0.8, 3: 0.6}, first_id=4)
    >>> evidence.k, evidence.silhouette, evidence.ids, [round(s, 2) for s in evidence.shares]
    (2, 0.8, [4, 5], [0.1, 0.9])
    """

    sizes: list[int]
    power: float = 1.0
    scores: dict[int, float] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)
    note: str = ""
    first_id: int = 0

    @property
    def k(self) -> int:
        """Groups that have any example."""
        return sum(size > 0 for size in self.sizes)

    @property
    def silhouette(self) -> float | None:
        """The largest score, which the groups were chosen by; None where nothing was scored."""
        return max(self.scores.values(), default=None)

    @property
    def ids(self) -> list[int]:
        """Ids of the groups, in the order of `sizes`."""
        return list(range(self.first_id, self.first_id + len(self.sizes)))

    @property
    def shares(self) -> list[float]:
        """Share of the class's samples that each group gets with this power."""
        sizes = np.asarray(self.sizes)
        values = np.zeros(len(sizes))
        values[sizes > 0] = shares(sizes[sizes > 0], self.power)
        return [float(value) for value in values]


@dataclass(frozen=True)
class Groups:
    """One group id per example, in input order, and the evidence for each class.

    `infer_groups` returns this; `importance_weights` and `ImportanceSampler` take it.

    Attributes
    ----------
    ids : array of shape (examples,)
        Group of every example; ids are unique across classes.
    evidence : dict of class label to ClassEvidence
    labels : array of shape (examples,)
        Class of every example.
    rank_names : tuple of str
        Names of the groups of a class, by rank; empty for "cluster 1", "cluster 2", ...

    Examples
    --------
    >>> from spare import infer_groups
    >>> groups = infer_groups([[0.9], [0.8], [0.9], [0.1], [0.2]], ["cat"] * 5, k=2)
    >>> groups.ids.tolist(), groups.names(), groups.evidence["cat"].sizes
    ([0, 0, 0, 1, 1], ['cat cluster 1', 'cat cluster 2'], [3, 2])
    >>> groups.in_majority().tolist()
    [True, True, True, False, False]
    >>> groups.assign([[0.7], [0.3]], ["cat", "cat"]).tolist()
    [0, 1]
    """

    ids: np.ndarray
    evidence: dict[Any, ClassEvidence]
    labels: np.ndarray
    rank_names: tuple[str, ...] = ()
    #: By class: finds the cluster of other examples; empty where groups were not made from points.
    assigners: Mapping[Any, Assign] = field(default_factory=dict, repr=False)
    #: How many values each example had that was clustered; None where it is not known.
    width: int | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def powers(self) -> dict[Any, float]:
        """The sampling power of each class."""
        return {label: evidence.power for label, evidence in self.evidence.items()}

    def with_powers(self, powers: Mapping[Any, float]) -> Groups:
        """The same groups with these sampling powers, by class; others keep theirs."""
        if not isinstance(powers, Mapping):
            raise InputError(f"powers are a dict from class to number, not {shown(powers)}.")
        for label in powers:
            if label not in self.evidence:
                raise InputError(
                    f"a power was given for {shown(label)}, which is none of the classes "
                    f"{shown(list(self.evidence))}."
                )
        evidence = {
            label: replace(of_class, power=power_of(powers, label)) if label in powers else of_class
            for label, of_class in self.evidence.items()
        }
        return replace(self, evidence=evidence)

    def names(self, class_names: Sequence[str] | None = None) -> list[str]:
        """What each group is called, by id: its class, and its rank within the class."""
        names = []
        for label, evidence in self.evidence.items():
            class_name = name_of(label, class_names)
            for rank in range(len(evidence.sizes)):
                part = self.rank_names[rank] if self.rank_names else f"cluster {rank + 1}"
                names.append(f"{class_name} {part}")
        return names

    def in_majority(self, ids: Any = None) -> np.ndarray:
        """True for examples (with these ids, or the ones clustered) in the majority of a class."""
        majorities = [evidence.first_id for evidence in self.evidence.values()]
        return np.isin(self.ids if ids is None else integers(ids, "ids"), majorities)

    def assign(self, outputs: Any, labels: Any) -> np.ndarray:
        """Group ids of other examples: each goes to a cluster of its own class."""
        if not self.assigners:
            raise InputError("these groups were not made from outputs, so no example can be added.")
        points = checked_outputs(outputs)
        if self.width not in (None, points.shape[1]):
            raise InputError(
                f"outputs have {points.shape[1]} values per example, and those that were clustered "
                f"had {self.width}: take them from the same model."
            )
        class_of = class_labels(labels, len(points))
        ids = np.empty(len(points), dtype=np.int64)
        for label, rows in rows_by_class(class_of).items():
            if label not in self.assigners:
                raise InputError(
                    f"class {shown(label)} was not among the classes that were clustered."
                )
            ids[rows] = self.evidence[label].first_id + self.assigners[label](points[rows])
        return ids


def groups_from_clusters(
    clusters: Mapping[Any, ClassClusters],
    labels: np.ndarray,
    *,
    powers: Mapping[Any, float] | None = None,
    rank_names: tuple[str, ...] = (),
    width: int | None = None,
) -> Groups:
    """Groups from the clusters of every class, with ids numbered from one class to the next.

    Parameters
    ----------
    powers
        Sampling power of each class; 1 where none is given.
    rank_names
        Names of the clusters, by rank. A named cluster keeps its rank even where it is empty, so
        that "mistaken" is never a majority.
    width
        How many values each example had that was clustered.
    """
    rows = rows_by_class(labels)
    ids = np.empty(len(labels), dtype=np.int64)
    evidence: dict[Any, ClassEvidence] = {}
    first = 0
    for label, clustered in clusters.items():
        sizes = np.asarray(clustered.all_sizes)
        if clustered.all_sizes is None:
            sizes = np.bincount(clustered.codes, minlength=len(rank_names))
        if label in rows:  # a class may have all of its examples elsewhere
            ids[rows[label]] = clustered.codes.astype(np.int64) + first
        evidence[label] = ClassEvidence(
            sizes=sizes.tolist(),
            power=1.0 if powers is None else powers[label],
            scores=clustered.scores,
            errors=clustered.errors,
            note=clustered.note,
            first_id=first,
        )
        first += len(sizes)
    assigners = {
        label: clustered.assign
        for label, clustered in clusters.items()
        if clustered.assign is not None
    }
    return Groups(
        ids=ids,
        evidence=evidence,
        labels=labels,
        rank_names=rank_names,
        assigners=assigners,
        width=width,
    )


def groups_from_parts(
    parts: Any, labels: Any, *, rank_names: tuple[str, ...] = (), power: float = 1.0
) -> Groups:
    """Groups from a part number for each example (0 for the majority), within each class.

    >>> groups_from_parts([0, 1, 0, 0], ["a", "a", "b", "b"]).ids.tolist()
    [0, 1, 2, 2]
    """
    class_of = class_labels(labels)
    numbers = integers(parts, "parts", len(class_of))
    if rank_names and not 0 <= numbers.min() <= numbers.max() < len(rank_names):
        raise InputError(f"parts are from 0 to {len(rank_names) - 1}, one for each name.")
    clusters = {}
    for label, rows in rows_by_class(class_of).items():
        codes = numbers[rows]
        if not rank_names:  # numbers that nobody has are closed up
            codes = np.unique(codes, return_inverse=True)[1]
        clusters[label] = ClassClusters(codes)
    return groups_from_clusters(
        clusters, class_of, powers=dict.fromkeys(clusters, power), rank_names=rank_names
    )


def parts_by_size(kinds: Any, labels: Any) -> np.ndarray:
    """A part number for each example: within its class, kinds from the most frequent down.

    >>> parts_by_size([7, 5, 5, 5, 9], ["a", "a", "a", "b", "b"]).tolist()
    [1, 0, 0, 0, 1]
    """
    class_of = class_labels(labels)
    kind_of = class_labels(kinds, len(class_of), "kinds")
    parts = np.zeros(len(class_of), dtype=np.int64)
    for rows in rows_by_class(class_of).values():
        codes = np.unique(kind_of[rows], return_inverse=True)[1]
        parts[rows] = largest_first(codes)[codes]
    return parts


def largest_first(codes: np.ndarray) -> np.ndarray:
    """The rank of every cluster (codes 0..k-1) by size, 0 for the largest.

    >>> largest_first(np.array([0, 1, 1, 2, 2, 2])).tolist()
    [2, 1, 0]
    """
    order = np.argsort(-np.bincount(codes), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks
