"""What clusters go with: Cramér's V between clusters and attributes, within classes and over all.

    V = sqrt(chi2 / (n * min(rows - 1, columns - 1)))        no bias correction, as in the paper

Clusters lie within classes, so there is one table per class, and the classes are pooled: V of all
of them is sqrt(sum of chi2 / sum of n * min(...)). Otherwise every attribute that goes with the
label would seem to go with the clusters. The paper has V over all examples, of each attribute with
being in an inferred minority or not; that is kept beside it (`over_all`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from spare.data.task import Task
from spare.data.viewing import pictures
from spare.groups.arrays import rows_by_class
from spare.groups.result import Groups
from spare.images.statistics import image_statistics, size_statistics
from spare.records.record import Association, Excess
from spare.training.metrics import inferred_minority, true_minority

#: Of an attribute with more values, the most frequent are kept and the rest become one value.
MOST_VALUES = 50
#: Numbers are divided into so many bins of the same size.
BINS = 5
RESAMPLED = 200
PICTURES_AT_ONCE = 250


def associations_of(
    task: Task, groups: Groups, seed: int, statistics: Mapping[str, np.ndarray]
) -> list[Association]:
    """What the clusters of a task go with: its attributes, what else is known of its examples, and
    what was measured in pictures.

    Parameters
    ----------
    groups
        Of the training examples.
    statistics
        From `picture_statistics`.
    """
    codes = {name: np.asarray(values) for name, values in (task.train.attributes or {}).items()}
    values = {**task.attribute_values, **task.fact_values}
    codes |= {name: np.asarray(facts) for name, facts in task.facts.items()}
    for statistic, numbers in statistics.items():
        name = f"image: {statistic}"
        codes[name], values[name] = binned(numbers)
    minority = ~groups.in_majority()
    if task.train.attributes:
        minority = inferred_minority(groups, true_minority(task, task.train))
    return associations(
        groups.ids,
        np.asarray(task.train.labels),
        codes,
        values,
        class_names=task.class_names,
        minority=minority,
        seed=seed,
    )


def associations(
    ids: np.ndarray,
    labels: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    values: Mapping[str, Sequence[str]],
    *,
    class_names: Sequence[str],
    minority: np.ndarray | None = None,
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
    minority
        Whether each example is in an inferred minority, for V over all examples.
    """
    rng = np.random.default_rng([seed, 0xA550C])
    ranked: list[Association] = []
    rows_of = rows_by_class(labels)
    for attribute, codes in attributes.items():
        lumped, names = _lumped(np.asarray(codes), values[attribute])
        tables = {
            label: _table(ids[rows], lumped[rows], len(names)) for label, rows in rows_of.items()
        }
        used = [table for _, table in tables.values() if min(_shape(table)) > 1]
        over_all = 0.0
        if minority is not None:
            over_all = pooled_v([_table(minority, lumped, len(names))[1]])
        if not used and not over_all:  # every class has one cluster, or one value
            continue
        ranked.append(
            {
                "attribute": attribute,
                "v": pooled_v(used) if used else 0.0,
                "interval": _interval(used, rng) if used else [0.0, 0.0],
                "over_all": over_all,
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
    return _pooled_v(_stacked(tables))


def _stacked(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Tables of the same columns as one array; those with fewer rows get empty ones."""
    stack = np.zeros((len(tables), max(map(len, tables)), tables[0].shape[1]), dtype=np.int64)
    for whole, table in zip(stack, tables, strict=True):
        whole[: len(table)] = table
    return stack


def _pooled_v(tables: np.ndarray) -> float:
    """The same for tables that are stacked: all at once, because there may be thousands."""
    by_row, by_column = tables.sum(2), tables.sum(1)
    free = np.minimum((by_row > 0).sum(1), (by_column > 0).sum(1)) - 1
    used = free > 0
    if not used.any():
        return 0.0
    tables, by_row, by_column, free = (a[used] for a in (tables, by_row, by_column, free))
    n = by_row.sum(1)
    expected = by_row[:, :, None] * by_column[:, None, :] / n[:, None, None]
    known = expected > 0
    terms = (tables - expected)[known] ** 2 / expected[known]
    # One sum for each table, then over tables in order: rounding is that of a loop over tables.
    lengths = known.sum((1, 2))
    firsts = np.cumsum(lengths) - lengths
    chi2 = np.empty(len(tables))
    for length in np.unique(lengths):
        alike = lengths == length
        chi2[alike] = terms[firsts[alike, None] + np.arange(length)].sum(1)
    return float(np.sqrt(np.cumsum(chi2)[-1] / np.cumsum(n * free)[-1]))


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


def picture_statistics(task: Task) -> dict[str, np.ndarray]:
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
    sizes = [int(table.sum()) for table in tables]
    shares = [table.ravel() / size for table, size in zip(tables, sizes, strict=True)]
    stack = _stacked(tables)
    resampled = []
    for _ in range(RESAMPLED):
        for whole, table, size, share in zip(stack, tables, sizes, shares, strict=True):
            whole[: len(table)] = rng.multinomial(size, share).reshape(table.shape)
        resampled.append(_pooled_v(stack))
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
