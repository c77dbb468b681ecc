"""The page of a whole bench: every method over its seeds, by group, with what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.files import read_json, write_text
from spare.report import charts
from spare.report.page import REPORT, page_environment, read_record, title
from spare.report.saliency_panels import Pictured, looking_at_groups

TABLE = "table.json"


def write_table_page(folder: Path, pictured: Pictured | None = None) -> Path:
    """report.html of a bench folder.

    pictured    networks of some of its runs by the names of their methods
    """
    write_text(folder / REPORT, render(read_json(folder / TABLE), runs_of(folder), pictured))
    return folder / REPORT


def runs_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of a bench's runs, by method, each with its folder's name."""
    records = [
        {**read_record(path.parent), "folder": path.parent.name}
        for path in folder.glob("*/run.json")
        if not path.parent.name.endswith(".partial")
    ]
    records.sort(key=lambda record: record["seed"])
    return {
        row["method"]: [
            record
            for record in records
            if record["method"] == row["method"] and record["seed"] in row["seeds"]
        ]
        for row in read_json(folder / TABLE)["rows"]
    }


def render(
    summary: Mapping[str, Any],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    pictured: Pictured | None = None,
) -> str:
    rows = summary["rows"]
    if not rows:
        raise InputError("the bench has no finished run to show.")
    ordered = sorted(rows, key=lambda row: -row["selected"]["worst_group"]["mean"])
    split = rows[0]["split"]
    shown = [record for name in (pictured.networks if pictured else ()) for record in runs[name]]
    return (
        page_environment()
        .get_template("table.html.j2")
        .render(
            title=charts.shortened(title(rows[0])),
            rows=ordered,
            split=split,
            best=next((row for row in ordered if row["sees"] != "train"), None),
            chart=charts.bars(
                [row["method"] for row in ordered],
                [row["selected"]["worst_group"]["mean"] for row in ordered],
                intervals=[_within(row["selected"]["worst_group"]) for row in ordered],
                classes=[charts.colour(1 if row["sees"] == "train" else 0) for row in ordered],
                label=f"Worst group on {split} in %, a bar a method",
                chart="bars",
                percent=True,
            ),
            groups=_groups(split, [row["method"] for row in ordered], runs),
            recovery=recovery(runs),
            command=summary.get("command", ""),
            looking=looking_at_groups(shown, pictured) if pictured and shown else None,
        )
    )


def _within(score: Mapping[str, Any]) -> tuple[float, float]:
    """The interval as far as there are accuracies; for one seed none."""
    low, high = score["interval"] or (score["mean"], score["mean"])
    return max(low, 0.0), min(high, 1.0)


def _groups(
    split: str, methods: Sequence[str], runs: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Accuracy of every group, the mean over seeds, a cell a method."""
    means: dict[str, dict[str, list[float]]] = {}
    for method in methods:
        for record in runs[method]:
            for name, group in record["scores"][split]["selected"]["groups"].items():
                means.setdefault(name, {}).setdefault(method, []).append(group["accuracy"])
    return [
        {
            "name": name,
            "cells": [float(np.mean(own[m])) if m in own else None for m in methods],
        }
        for name, own in means.items()
    ]


def recovery(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Of methods that name groups by themselves: how much of the true minority they found."""
    found = []
    for method, records in runs.items():
        classes = [
            seen
            for record in records
            if record["sees"] != "train" and record.get("discovery")
            for seen in record["discovery"].values()
            if seen.get("recall") is not None
        ]
        if not classes:
            continue
        minority = sum(seen["minority"] for seen in classes)
        named = sum(seen["inferred"] for seen in classes)
        hit = sum(seen["recall"] * seen["minority"] for seen in classes)
        found.append(
            {
                "method": method,
                "minority": minority,
                "missed": round(minority - hit),
                "recall": hit / minority if minority else None,
                "wrongly": round(named - hit),
                "precision": hit / named if named else None,
            }
        )
    return sorted(found, key=lambda one: -(one["recall"] or 0))
