"""The page of a bench: every method over its seeds, by group, with what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spare.errors import InputError
from spare.files.writing import write_text
from spare.records.bench_table import BenchTable, Spread, StoredRun
from spare.records.layout import REPORT
from spare.records.record import RunRecord
from spare.report import charts
from spare.report.frame import page_environment, page_title
from spare.report.saliency_panels import Pictured, worst_group_panels


class Recovery(NamedTuple):
    """How much of the true minority a method found that infers groups."""

    method: str
    minority: int
    #: Minority examples that were taken for majority.
    missed: int
    recall: float | None
    #: Majority examples that were taken for minority.
    wrong: int
    precision: float | None
    #: Majority examples in all.
    majority: int = 0


def write_table_page(
    folder: Path,
    table: BenchTable,
    runs: Mapping[str, Sequence[StoredRun]],
    pictured: Pictured | None = None,
) -> Path:
    """Write report.html of a bench folder.

    pictured    networks of some of its runs, by the names of their methods
    """
    records = {method: [run.record for run in stored] for method, stored in runs.items()}
    write_text(folder / REPORT, render(table, records, pictured))
    return folder / REPORT


def render(
    table: BenchTable,
    runs: Mapping[str, Sequence[RunRecord]],
    pictured: Pictured | None = None,
) -> str:
    rows = table["rows"]
    if not rows:
        raise InputError("the bench has no finished run to show: run its command again.")
    ordered = sorted(rows, key=lambda row: -row["selected"]["worst_group"]["mean"])
    split = rows[0]["split"]
    looking = [record for name in (pictured.networks if pictured else ()) for record in runs[name]]
    return (
        page_environment()
        .get_template("table.html.j2")
        .render(
            title=page_title(rows[0]),
            rows=ordered,
            split=split,
            best=next((row for row in ordered if row["sees"] != "train"), None),
            chart=charts.bars(
                [row["method"] for row in ordered],
                [row["selected"]["worst_group"]["mean"] for row in ordered],
                intervals=[_bounded_interval(row["selected"]["worst_group"]) for row in ordered],
                colors=[charts.color(1 if row["sees"] == "train" else 0) for row in ordered],
                label=f"Worst group on {split} in %, one bar per method",
                percent=True,
            ),
            groups=_groups(split, [row["method"] for row in ordered], runs),
            recovery=recovery(runs),
            failures=table.get("failures", []),
            command=table.get("command", ""),
            saliency=worst_group_panels(looking, pictured) if pictured and looking else None,
        )
    )


def recovery(runs: Mapping[str, Sequence[RunRecord]]) -> list[Recovery]:
    """For the methods that infer groups: how much of the true minority they found."""
    rows = []
    for method, records in runs.items():
        classes = [
            groups
            for record in records
            if record["sees"] != "train"
            for groups in (record["discovery"] or {}).values()
            if groups.get("recall") is not None
        ]
        if not classes:
            continue
        minority = sum(groups["minority"] for groups in classes)
        inferred = sum(groups["inferred"] for groups in classes)
        hits = sum((groups["recall"] or 0.0) * groups["minority"] for groups in classes)
        rows.append(
            Recovery(
                method=method,
                minority=minority,
                missed=round(minority - hits),
                recall=hits / minority if minority else None,
                wrong=round(inferred - hits),
                precision=hits / inferred if inferred else None,
                majority=sum(sum(groups["sizes"]) for groups in classes) - minority,
            )
        )
    return sorted(rows, key=lambda row: -(row.recall or 0))


def _bounded_interval(score: Spread) -> tuple[float, float]:
    """The interval, within what an accuracy can be; for one seed there is none."""
    low, high = score["interval"] or (score["mean"], score["mean"])
    return max(low, 0.0), min(high, 1.0)


def _groups(
    split: str, methods: Sequence[str], runs: Mapping[str, Sequence[RunRecord]]
) -> list[dict[str, Any]]:
    """Accuracy of every group, as the mean over seeds, with one cell per method."""
    accuracies: dict[str, dict[str, list[float]]] = {}
    for method in methods:
        for record in runs[method]:
            for name, group in record["scores"][split]["selected"]["groups"].items():
                accuracies.setdefault(name, {}).setdefault(method, []).append(group["accuracy"])
    return [
        {
            "name": name,
            "cells": [
                float(np.mean(by_method[method])) if method in by_method else None
                for method in methods
            ],
        }
        for name, by_method in accuracies.items()
    ]
