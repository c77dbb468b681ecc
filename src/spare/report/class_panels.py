"""What a page shows of each class: its clusters, their points, curves and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from spare.data.task import Task
from spare.records.groups_file import GroupTable
from spare.records.record import ClassGroups, Cluster, DiscoveryRecord, Excess
from spare.report import charts
from spare.report.thumbnails import Sprite, thumbnails

#: Classes that have a panel; the table has all.
MOST_CLASSES = 12
#: Points of a class that are plotted, and at most so many of each small cluster.
MOST_POINTS = 400
MOST_OF_SMALL = 120
#: Pictures of a cluster, of each kind.
MOST_PICTURES = 8
#: Attributes that describe a cluster, and how much more of their value it has than its class.
MOST_ATTRIBUTES = 3
CLEARLY_MORE = 0.2


@dataclass(frozen=True)
class Mistake:
    """A small cluster that is mistaken for another class."""

    #: Counted from 1.
    cluster: int
    facts: Cluster
    #: The larger, the more often and the more surely.
    weight: float


@dataclass(frozen=True)
class Gallery:
    """Some examples of one cluster."""

    cluster: int
    kind: str
    rows: np.ndarray


@dataclass(frozen=True)
class TrueGroups:
    """The points of a class, colored by true group."""

    names: list[str]
    chart: Markup


@dataclass(frozen=True)
class Curve:
    """A chart over epochs, with one line per cluster."""

    of_confidence: bool
    chart: Markup


@dataclass(frozen=True)
class Panel:
    """What is shown of a class besides its row in the table."""

    #: What a page's script says of each example, by the number that it has on the page.
    examples: list[dict[str, Any]]
    #: The number of each example on the page, by its row.
    numbers: Mapping[int, int]
    galleries: list[Gallery]
    sprite: Sprite | None
    scatter: Markup | None
    true_groups: TrueGroups | None
    curves: list[Curve]
    #: For each cluster, the attributes that it has clearly more of than its class.
    attributes: list[list[tuple[str, Excess]]]

    @property
    def missing(self) -> int:
        """Pictures that could not be read."""
        return 0 if self.sprite is None else self.sprite.missing


@dataclass
class ClassEntry:
    """One class of a page."""

    #: The class's number in the record.
    number: int
    name: str
    groups: ClassGroups
    clusters: Sequence[Cluster]
    #: Group ids of the clusters.
    ids: range
    mistake: Mistake | None = None
    panel: Panel | None = field(default=None)


def class_entries(
    record: DiscoveryRecord, table: GroupTable, task: Task | None
) -> list[ClassEntry]:
    """Every class, the one with the surest mistakes first; the first few with a panel.

    task    where pictures and true groups come from, if it is at hand
    """
    entries = []
    first = 0
    for number, (name, groups) in enumerate((record["discovery"] or {}).items()):
        ids = range(first, first + len(groups["sizes"]))
        first = ids.stop
        # Where no early model was asked, only the sizes of the groups are known.
        clusters = groups.get("clusters") or [_size_only(size) for size in groups["sizes"]]
        mistake = _surest_mistake(clusters)
        entries.append(ClassEntry(number, name, groups, clusters, ids, mistake))
    entries.sort(key=lambda entry: -(entry.mistake.weight if entry.mistake else 0))
    for entry in entries[:MOST_CLASSES]:
        entry.panel = _panel(entry, record, table, task)
    return entries


def _size_only(size: int) -> Cluster:
    return {"size": size, "accuracy": None, "confidence": None, "mistaken_for": None,
            "mistaken_share": 0.0}  # fmt: skip


def _surest_mistake(clusters: Sequence[Cluster]) -> Mistake | None:
    """The small cluster that is most often and most surely mistaken for another class."""
    mistakes = [
        Mistake(number, cluster, cluster["mistaken_share"] * (cluster["confidence"] or 0.0))
        for number, cluster in enumerate(clusters, start=1)
        if number > 1 and cluster.get("mistaken_for") is not None
    ]
    return max(mistakes, key=lambda mistake: mistake.weight, default=None)


def _panel(
    entry: ClassEntry, record: DiscoveryRecord, table: GroupTable, task: Task | None
) -> Panel:
    rng = np.random.default_rng([entry.number, 0x9A6E])
    cluster_rows = [np.flatnonzero(table.clusters == group) for group in entry.ids]
    galleries = [
        gallery
        for number, rows in enumerate(cluster_rows, start=1)
        if len(rows)
        for gallery in _galleries(number, rows, table.points, rng)
    ]
    plotted = _plotted_rows(cluster_rows, rng)
    rows = np.unique(np.concatenate([plotted, *(gallery.rows for gallery in galleries)]))
    numbers = {int(row): number for number, row in enumerate(rows)}
    scatter = true_groups = None
    if table.points is not None:
        plotted_numbers = [numbers[int(row)] for row in plotted]
        scatter = charts.scatter(
            table.points[plotted],
            table.clusters[plotted] - entry.ids.start,
            plotted_numbers,
            label=f"Outputs of class {charts.shortened(entry.name)}, one point per example",
        )
        if task is not None and task.train.attributes:
            true_groups = _true_groups(task, plotted, table.points, plotted_numbers)
    return Panel(
        examples=[_example(int(row), table, entry.ids) for row in rows],
        numbers=numbers,
        galleries=galleries,
        sprite=None if task is None else thumbnails(task.train.inputs, rows),
        scatter=scatter,
        true_groups=true_groups,
        curves=_curves(entry.groups),
        attributes=_more_than_its_class(record, entry.ids),
    )


def _galleries(
    cluster: int, rows: np.ndarray, points: np.ndarray | None, rng: np.random.Generator
) -> list[Gallery]:
    """Typical (near the cluster's middle), borderline (far from it) and random examples."""
    random = Gallery(cluster, "random", rng.permutation(rows)[:MOST_PICTURES])
    if points is None or len(rows) <= MOST_PICTURES:
        return [random]
    cluster_points = points[rows]
    distances = ((cluster_points - np.median(cluster_points, 0)) ** 2).sum(1)
    nearest_first = rows[np.argsort(distances, kind="stable")]
    return [
        Gallery(cluster, "typical", nearest_first[:MOST_PICTURES]),
        Gallery(cluster, "borderline", nearest_first[-MOST_PICTURES:]),
        random,
    ]


def _plotted_rows(cluster_rows: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """All or many of the small clusters' examples; the largest gets what is left."""
    small = [rng.permutation(rows)[:MOST_OF_SMALL] for rows in cluster_rows[1:]]
    left = max(MOST_POINTS - sum(map(len, small)), 50)
    return np.sort(np.concatenate([rng.permutation(cluster_rows[0])[:left], *small]))


def _example(row: int, table: GroupTable, ids: range) -> dict[str, Any]:
    """What is shown of an example when it is pointed at."""
    example: dict[str, Any] = {"id": row, "cluster": int(table.clusters[row]) - ids.start + 1}
    if table.names is not None:
        example["name"] = charts.shortened(str(table.names[row]), 80)
    if table.predicted is not None and table.confidence is not None:
        example["predicted"] = charts.shortened(str(table.predicted[row]), 40)
        example["confidence"] = round(float(table.confidence[row]), 3)
    return example


def _true_groups(
    task: Task, plotted: np.ndarray, points: np.ndarray, numbers: Sequence[int]
) -> TrueGroups:
    """The same points colored by true group, the largest group first."""
    ids = task.groups(task.train)[plotted]
    groups, counts = np.unique(ids, return_counts=True)
    ordered = groups[np.argsort(-counts, kind="stable")].tolist()
    return TrueGroups(
        names=[task.group_names[group] for group in ordered],
        chart=charts.scatter(
            points[plotted],
            np.array([ordered.index(group) for group in ids]),
            numbers,
            label="The same outputs, colored by true group",
        ),
    )


def _curves(groups: ClassGroups) -> list[Curve]:
    """Accuracy and confidence of every cluster over the epochs at which outputs were taken."""
    by_epoch = groups.get("by_epoch", [])
    if len(by_epoch) < 2:
        return []
    epochs = [at["epoch"] or 0 for at in by_epoch]
    accuracy = list(zip(*(at["accuracy"] for at in by_epoch), strict=True))
    confidence = list(zip(*(at["confidence"] for at in by_epoch), strict=True))
    return [
        Curve(False, charts.lines(epochs, accuracy, label="right by epoch, one line per cluster")),
        Curve(
            True,
            charts.lines(
                epochs, confidence, label="mean confidence by epoch, one line per cluster"
            ),
        ),
    ]


def _more_than_its_class(record: DiscoveryRecord, ids: range) -> list[list[tuple[str, Excess]]]:
    """For each cluster, what it has clearly more of than its class: its name, so to speak."""
    described = []
    for group in ids:
        excesses = [
            (association["attribute"], association["clusters"][str(group)])
            for association in record.get("associations") or []
            if str(group) in association["clusters"]
        ]
        clear = [(attribute, excess) for attribute, excess in excesses
                 if excess["share"] - excess["class_share"] >= CLEARLY_MORE]  # fmt: skip
        described.append(clear[:MOST_ATTRIBUTES])
    return described
