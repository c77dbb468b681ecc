"""Several runs side by side on one page: accuracy by group, cost, and where each looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spare.errors import InputError
from spare.files.writing import write_text
from spare.records.layout import COMPARISON
from spare.records.record import GroupScore, RunRecord, read_run, training_seconds
from spare.report import charts
from spare.report.frame import page_environment, page_title
from spare.report.saliency_panels import Pictured, worst_group_panels
from spare.training.metrics import wilson_interval


def write_comparison(
    records: Sequence[RunRecord], out: Path, pictured: Pictured | None = None
) -> Path:
    """Write one page of these runs, as `out`/comparison.html.

    pictured    their networks, by the names of the runs (`run_names`)
    """
    write_text(out / COMPARISON, render(records, pictured))
    return out / COMPARISON


def read_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """The records of runs that can be compared."""
    if len(folders) < 2:
        raise InputError("name at least two run folders to compare.")
    records = [read_run(folder) for folder in folders]
    tasks = sorted({record["task"] for record in records})
    if len(tasks) > 1:
        raise InputError(
            f"only runs of one task can be compared; these are of "
            f"{' and '.join(map(repr, tasks[:3]))}."
        )
    return records


def run_names(records: Sequence[RunRecord]) -> list[str]:
    """A name for each run: its method, its seed where seeds differ, and a number if need be."""
    seeds_differ = len({record["seed"] for record in records}) > 1
    names = [f"{r['method']}, seed {r['seed']}" if seeds_differ else r["method"] for r in records]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]


def render(records: Sequence[RunRecord], pictured: Pictured | None = None) -> str:
    splits = [name for name in ("test", "val") if all(name in r["scores"] for r in records)]
    names = run_names(records)
    return (
        page_environment()
        .get_template("comparison.html.j2")
        .render(
            title=page_title(records[0]),
            runs=[
                {
                    "name": name,
                    "record": record,
                    "cost": _cost(record, records),
                    "seconds": training_seconds(record),
                }
                for name, record in zip(names, records, strict=True)
            ],
            names=names,
            splits=[_split(split, names, records) for split in splits],
            saliency=None if pictured is None else worst_group_panels(records, pictured),
        )
    )


def _split(split: str, names: Sequence[str], records: Sequence[RunRecord]) -> dict[str, Any]:
    scores = [record["scores"][split]["selected"] for record in records]
    groups = list(dict.fromkeys(group for score in scores for group in score["groups"]))
    return {
        "name": split,
        "worst": charts.bars(
            names,
            [score["worst_group"] for score in scores],
            intervals=[score["worst_group_interval"] for score in scores],
            colors=[charts.color(number) for number in range(len(names))],
            label=f"Worst group on {split} in %, one bar per run",
            percent=True,
        ),
        "scores": scores,
        "groups": [
            {"name": group, "cells": [_cell(score["groups"].get(group)) for score in scores]}
            for group in groups
        ],
    }


def _cell(group: GroupScore | None) -> dict[str, Any] | None:
    if group is None:
        return None
    low, high = wilson_interval(round(group["accuracy"] * group["n"]), group["n"])
    return {**group, "low": low, "high": high}


def _cost(record: RunRecord, records: Sequence[RunRecord]) -> dict[str, float | None]:
    """Examples and time relative to plain training with the same seed, if that is among them."""
    plain = next((r for r in records if r["method"] == "erm" and r["seed"] == record["seed"]), None)
    if plain is None:
        return {"examples": None, "seconds": None}
    return {
        "examples": record["examples_seen"] / plain["examples_seen"],
        "seconds": training_seconds(record) / training_seconds(plain),
    }
