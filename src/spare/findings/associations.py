"""What clusters go with: Cramér's V between clusters and attributes, within classes.

    V = sqrt(chi2 / (n * min(rows - 1, columns - 1)))        no bias correction, as in the paper

Clusters lie within classes, so there is one table per class, and the classes are pooled: V of all
of them is sqrt(sum of chi2 / sum of n * min(...)). Otherwise every attribute that goes with the
label would seem to go with the clusters.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from spare.data.task import Task
from spare.data.viewing import pictures
from spare.images.statistics import image_statistics, size_statistics
from spare.records.record import Association, Excess

#: Of an attribute with more values, the most frequent are kept and the rest become one value.
MOST_VALUES = 50
#: Numbers are divided into so many bins of the same size.
BINS = 5
RESAMPLED = 200
PICTURES_AT_ONCE = 250


def associations_of(task: Task, ids: np.ndarray, seed: int) -> list[Association]:
    """What the clusters of a task go with: its attributes, and what can be measured in pictures.

    Parameters
    ----------
    ids
        The cluster of every training example.
    """
    codes = {name: np.asarray(values) for name, values in (task.train.attributes or {}).items()}
    values = dict(task.attribute_values)
    for statistic, numbers in _picture_statistics(task).items():
        name = f"image: {statistic}"
        codes[name], values[name] = binned(numbers)
    return associations(
        ids, np.asarray(task.train.labels), codes, values, class_names=task.class_names, seed=seed
    )


def associations(
    ids: np.ndarray,
    labels: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    values: Mapping[str, Sequence[str]],
    *,
    class_names: Sequence[str],
    seed: int = 0,
) -> list[Association]:
    """Attributes by how much the clusters go with them, the strongest first.

    Each has V over all classes with a 95 % interval (from resampled tables), V of each class, and
    for each cluster the value that it has more often than its class.

    Parameters
    ----------
    attributes
        Value numbers, one per example; -1 where the value is unknown.
    values
        What the numbers stand for.
    """
    rng = np.random.default_rng([seed, 0xA550C])
    ranked: list[Association] = []
    for attribute, codes in attributes.items():
        lumped, names = _lumped(np.asarray(codes), values[attribute])
        tables = {
            label: _table(ids[labels == label], lumped[labels == label], len(names))
            for label in np.unique(labels).tolist()
        }
        used = [table for _, table in tables.values() if min(_shape(table)) > 1]
        if not used:  # every class has one cluster, or one value
            continue
        ranked.append(
            {
                "attribute": attribute,
                "v": pooled_v(used),
                "interval": _interval(used, rng),
                "classes": {
                    class_names[label]: pooled_v([table]) for label, (_, table) in tables.items()
                },
                "clusters": {
                    str(int(cluster)): _excess(counts, table.sum(0), names)
                    for clusters, table in tables.values()
                    for cluster, counts in zip(clusters, table, strict=True)
                },
            }
        )
    return sorted(ranked, key=lambda association: -association["v"])


def pooled_v(tables: Sequence[np.ndarray]) -> float:
    """V of all classes, given a table of counts for each: 0 for no association, 1 for perfect.

    >>> perfect, none = np.array([[10, 0], [0, 10]]), np.array([[10, 10], [10, 10]])
    >>> pooled_v([perfect]), pooled_v([none]), round(pooled_v([perfect, none]), 3)
    (1.0, 0.0, 0.577)
    """
    chi2, largest = 0.0, 0.0
    for table in tables:
        rows, columns = _shape(table)
        n = table.sum()
        if min(rows, columns) < 2:
            continue
        expected = np.outer(table.sum(1), table.sum(0)) / n
        known = expected > 0
        chi2 += float((((table - expected) ** 2)[known] / expected[known]).sum())
        largest += float(n * (min(rows, columns) - 1))
    return float(np.sqrt(chi2 / largest)) if largest else 0.0


def binned(numbers: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers as a few values: bins of the same size, named by their ends; -1 where not finite.

    >>> codes, names = binned(np.arange(10.0))
    >>> codes.tolist(), names[0]
    ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], '0 to 1.8')
    """
    known = np.isfinite(numbers)
    if not known.any():
        return np.full(len(numbers), -1), ()
    edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, BINS + 1)))
    if len(edges) == 1:
        return np.where(known, 0, -1), (f"{edges[0]:.3g}",)
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    names = tuple(f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(edges))
    return np.where(known, codes, -1), names


def _picture_statistics(task: Task) -> dict[str, np.ndarray]:
    """The statistics of every training picture; {} for data without pictures."""
    inputs, rows = task.train.inputs, np.arange(len(task.train))
    if task.holds_outputs or pictures(inputs, rows[:1]) is None:
        return {}
    parts = []
    for start in range(0, len(rows), PICTURES_AT_ONCE):
        pixels = pictures(inputs, rows[start : start + PICTURES_AT_ONCE])
        assert pixels is not None
        parts.append(image_statistics(pixels))
    statistics = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return statistics | ({} if task.sizes is None else size_statistics(task.sizes))


def _lumped(codes: np.ndarray, values: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The values that occur; rare ones, if there are very many, as one, and unknown as a value."""
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    order = np.argsort(-counts, kind="stable")
    kept = [int(value) for value in order[:MOST_VALUES] if counts[value]]
    names = [values[value] for value in kept]
    new_code = np.full(len(values) + 1, len(kept))
    new_code[kept] = np.arange(len(kept))
    lumped = new_code[codes]
    if (lumped[codes >= 0] == len(kept)).any():
        names.append(f"one of {int((counts > 0).sum()) - len(kept)} others")
    if (codes < 0).any():
        lumped = np.where(codes < 0, len(names), lumped)
        names.append("(missing)")
    return lumped, names


def _table(ids: np.ndarray, codes: np.ndarray, values: int) -> tuple[np.ndarray, np.ndarray]:
    """The clusters, and how often each has each value."""
    clusters, rows = np.unique(ids, return_inverse=True)
    table = np.zeros((len(clusters), values), dtype=np.int64)
    np.add.at(table, (rows, codes), 1)
    return clusters, table


def _shape(table: np.ndarray) -> tuple[int, int]:
    """The number of rows and of columns that are not empty."""
    return int((table.sum(1) > 0).sum()), int((table.sum(0) > 0).sum())


def _interval(tables: Sequence[np.ndarray], rng: np.random.Generator) -> list[float]:
    resampled = [
        pooled_v(
            [
                rng.multinomial(table.sum(), table.ravel() / table.sum()).reshape(table.shape)
                for table in tables
            ]
        )
        for _ in range(RESAMPLED)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    return [float(low), float(high)]


def _excess(cluster: np.ndarray, whole_class: np.ndarray, names: Sequence[str]) -> Excess:
    """The value that a cluster has most beyond what its class has, and how often both have it."""
    shares = cluster / max(cluster.sum(), 1)
    class_shares = whole_class / max(whole_class.sum(), 1)
    most = int((shares - class_shares).argmax())
    return {
        "value": names[most],
        "share": float(shares[most]),
        "class_share": float(class_shares[most]),
    }
