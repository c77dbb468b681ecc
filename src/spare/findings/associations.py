"""What clusters go with: Cramér's V between clusters and attributes, within classes.

    V = sqrt(chi2 / (n * min(rows - 1, columns - 1)))        no bias correction, as the paper has it

Clusters lie within classes, so a table is made for each class and the classes are pooled: V of all
of them is sqrt(sum of chi2 / sum of n * min(...)). Else every attribute that goes with the label
would seem to go with the clusters.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Of an attribute with more values, the most frequent are kept and the others are one value.
MOST_VALUES = 50
#: A number is cut into so many parts of the same size.
PARTS = 5
RESAMPLED = 200


def cramers_v(table: np.ndarray) -> float:
    """Association of the rows with the columns of a table of counts: 0 for none, 1 for all.

    >>> cramers_v(np.array([[10, 0], [0, 10]]))
    1.0
    >>> cramers_v(np.array([[10, 10], [10, 10]]))
    0.0
    """
    return _pooled([table])


def associations(
    ids: np.ndarray,
    labels: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    values: Mapping[str, Sequence[str]],
    *,
    class_names: Sequence[str],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Attributes by how much the clusters go with them, the strongest first.

    attributes   value numbers, one an example; -1 where it is not known
    values       what the numbers stand for

    Each has V over all classes with a 95 % interval (from resampled tables), V of each class, and
    of each cluster the value that it has more often than its class.
    """
    rng = np.random.default_rng([seed, 0xA550C])
    found = []
    for name, codes in attributes.items():
        lumped, called = _lumped(np.asarray(codes), values[name])
        tables = {
            label: _table(ids[labels == label], lumped[labels == label], len(called))
            for label in np.unique(labels).tolist()
        }
        used = [table for _, table in tables.values() if min(_shape(table)) > 1]
        if not used:  # one cluster a class, or one value everywhere
            continue
        found.append(
            {
                "attribute": name,
                "v": _pooled(used),
                "interval": _interval(used, rng),
                "classes": {
                    class_names[label]: _pooled([table]) for label, (_, table) in tables.items()
                },
                "clusters": {
                    str(int(group)): _excess(row, table.sum(0), called)
                    for groups, table in tables.values()
                    for group, row in zip(groups, table, strict=True)
                },
            }
        )
    return sorted(found, key=lambda one: -one["v"])


def parted(numbers: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """A number an example as one of a few values: parts of the same size, called by their ends.

    >>> codes, called = parted(np.arange(10.0))
    >>> codes.tolist(), called[0]
    ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], '0 to 1.8')
    """
    known = np.isfinite(numbers)
    if not known.any():
        return np.full(len(numbers), -1), ()
    edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, PARTS + 1)))
    if len(edges) == 1:
        return np.where(known, 0, -1), (f"{edges[0]:.3g}",)
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    called = tuple(f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(edges))
    return np.where(known, codes, -1), called


def _lumped(codes: np.ndarray, values: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The values that occur, the rare ones of very many as one, and the unknown as a value."""
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    order = np.argsort(-counts, kind="stable")
    kept = [int(value) for value in order[:MOST_VALUES] if counts[value]]
    called = [values[value] for value in kept]
    place = np.full(len(values) + 1, len(kept))
    place[kept] = np.arange(len(kept))
    lumped = place[codes]
    if (lumped[codes >= 0] == len(kept)).any():
        called.append(f"one of {int((counts > 0).sum()) - len(kept)} others")
    if (codes < 0).any():
        lumped = np.where(codes < 0, len(called), lumped)
        called.append("(missing)")
    return lumped, called


def _table(ids: np.ndarray, codes: np.ndarray, values: int) -> tuple[np.ndarray, np.ndarray]:
    groups, rows = np.unique(ids, return_inverse=True)
    table = np.zeros((len(groups), values), dtype=np.int64)
    np.add.at(table, (rows, codes), 1)
    return groups, table


def _shape(table: np.ndarray) -> tuple[int, int]:
    """Rows and columns that have anything."""
    return int((table.sum(1) > 0).sum()), int((table.sum(0) > 0).sum())


def _pooled(tables: Sequence[np.ndarray]) -> float:
    chi2, most = 0.0, 0.0
    for table in tables:
        rows, columns = _shape(table)
        n = table.sum()
        if min(rows, columns) < 2:
            continue
        expected = np.outer(table.sum(1), table.sum(0)) / n
        known = expected > 0
        chi2 += float((((table - expected) ** 2)[known] / expected[known]).sum())
        most += float(n * (min(rows, columns) - 1))
    return float(np.sqrt(chi2 / most)) if most else 0.0


def _interval(tables: Sequence[np.ndarray], rng: np.random.Generator) -> list[float]:
    drawn = [
        _pooled(
            [
                rng.multinomial(table.sum(), table.ravel() / table.sum()).reshape(table.shape)
                for table in tables
            ]
        )
        for _ in range(RESAMPLED)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return [float(low), float(high)]


def _excess(row: np.ndarray, whole: np.ndarray, called: Sequence[str]) -> dict[str, Any]:
    """The value that a cluster has most beyond what its class has, and how often both have it."""
    own, all_ = row / max(row.sum(), 1), whole / max(whole.sum(), 1)
    most = int((own - all_).argmax())
    return {"value": called[most], "share": float(own[most]), "class_share": float(all_[most])}
