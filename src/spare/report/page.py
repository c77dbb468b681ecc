"""The page of a run or a discovery: its record, in the order in which people ask.

    write_page(folder, Pictured(task, networks))     report.html beside the record

Numbers come from the record and from the groups file. The task is needed only for pictures, and the
networks for where they look in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spare.files.writing import write_text
from spare.findings.verdict import FOUND, LEAST
from spare.records.groups_file import GroupTable
from spare.records.layout import REPORT
from spare.records.record import DiscoveryRecord, RunRecord, Scores, TakenBlock, is_run
from spare.report import charts
from spare.report.class_panels import ClassEntry, class_entries
from spare.report.frame import page_environment, page_title, script_data
from spare.report.saliency_panels import (
    MOST_EXAMPLES,
    MOST_PANELS,
    Pictured,
    SaliencyPanels,
    saliency_panels,
    worst_group_panels,
)
from spare.report.thumbnails import SIDE

#: Attributes in the chart and in the table by class.
MOST_ATTRIBUTES = 20
#: A table of so many classes by so many is still readable.
MOST_CLASSES_IN_TABLE = 30
#: A cluster is worth a line in the summary when at least this share of it is mistaken.
MOSTLY = 0.5


def write_page(
    folder: Path,
    record: DiscoveryRecord | RunRecord,
    table: GroupTable | None,
    pictured: Pictured | None = None,
) -> Path:
    """Write the page of a run or a discovery from its record and its groups."""
    write_text(folder / REPORT, render(record, table, pictured))
    return folder / REPORT


def render(
    record: DiscoveryRecord | RunRecord, table: GroupTable | None, pictured: Pictured | None
) -> str:
    task = None if pictured is None else pictured.task
    entries = [] if table is None else class_entries(record, table, task)
    panels = {entry.number: entry.panel for entry in entries if entry.panel is not None}
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            record=record,
            title=page_title(record),
            classes=entries,
            shown=[entry for entry in entries if entry.panel is not None],
            mistaken=_mistaken(entries),
            taken_blocks=_taken_blocks(record),
            confusion=_confusion(record, table),
            attributes=_attributes(record),
            scores=_scores(record),
            least_strength=LEAST[FOUND],
            side=SIDE,
            data=script_data({number: panel.examples for number, panel in panels.items()}),
            missing=sum(panel.missing for panel in panels.values()),
            saliency=None if pictured is None else _saliency(record, entries, pictured),
        )
    )


def _saliency(
    record: DiscoveryRecord | RunRecord, entries: Sequence[ClassEntry], pictured: Pictured
) -> SaliencyPanels | None:
    """Where the networks look: in typical examples of each cluster or, for a run without
    clusters, in examples of the groups on which it is worst."""
    if not pictured.networks:
        return None
    if not entries:
        return worst_group_panels([record], pictured) if is_run(record) else None
    chosen: dict[str, np.ndarray] = {}
    for entry in entries:
        for gallery in [] if entry.panel is None else entry.panel.galleries:
            title = f"{charts.shortened(entry.name, 40)}, cluster {gallery.cluster}"
            chosen.setdefault(title, gallery.rows[:MOST_EXAMPLES])  # its typical ones come first
    chosen = dict(list(chosen.items())[:MOST_PANELS])
    caption = "Typical training examples of a cluster."
    return saliency_panels(pictured, pictured.task.train, chosen, caption)


def _mistaken(entries: Sequence[ClassEntry]) -> list[ClassEntry]:
    """The classes with a cluster that is mostly mistaken for another class."""
    return [
        entry
        for entry in entries
        if entry.mistake is not None and entry.mistake.facts["mistaken_share"] >= MOSTLY
    ]


def _taken_blocks(record: DiscoveryRecord | RunRecord) -> dict[str, TakenBlock]:
    """By class, the cluster that is taken for another class and looks like it."""
    verdict = record.get("verdict")
    classes = {} if verdict is None else verdict["classes"]
    return {name: each["taken"] for name, each in classes.items() if "taken" in each}


def _confusion(record: DiscoveryRecord, table: GroupTable | None) -> dict[str, Any] | None:
    """How often the early model predicts each class for each class."""
    if table is None or table.predicted is None or table.labels is None:
        return None
    names = list(record["discovery"] or {})
    if len(names) > MOST_CLASSES_IN_TABLE:
        return None
    number = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=int)
    rows = [number[name] for name in table.labels]
    np.add.at(counts, (rows, [number[name] for name in table.predicted]), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    return {"names": names, "counts": counts.tolist(), "shares": shares.tolist()}


def _attributes(record: DiscoveryRecord) -> dict[str, Any] | None:
    """Which attributes the clusters go with."""
    associations = record.get("associations") or []
    if not associations:
        return None
    shown = associations[:MOST_ATTRIBUTES]
    classes = list(shown[0]["classes"])
    return {
        "rows": shown,
        "more": len(associations) - len(shown),
        "classes": classes if len(classes) <= MOST_CLASSES_IN_TABLE else [],
        "chart": charts.bars(
            [association["attribute"] for association in shown],
            [association["v"] for association in shown],
            intervals=[association["interval"] for association in shown],
            label="Cramér's V of each attribute with the clusters",
        ),
    }


def _scores(record: DiscoveryRecord | RunRecord) -> list[dict[str, Any]]:
    """Accuracy by group on each split, at the selected epoch and, if known, before."""
    if not is_run(record):
        return []
    return [
        {
            "split": split,
            "score": scores["selected"],
            "before": scores.get("early"),
            "groups": [
                {"name": name, **group, "before": _accuracy(scores.get("early"), name)}
                for name, group in scores["selected"]["groups"].items()
            ],
        }
        for split, scores in record["scores"].items()
    ]


def _accuracy(score: Scores | None, group: str) -> float | None:
    if score is None or group not in score["groups"]:
        return None
    return score["groups"][group]["accuracy"]
