"""Several runs side by side on one page: accuracy by group, what each cost, where each looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spare.errors import InputError
from spare.files import write_text
from spare.report import charts
from spare.report.page import page_environment, read_record, title
from spare.report.saliency_panels import Pictured, looking_at_groups
from spare.training.metrics import wilson_interval

REPORT = "comparison.html"


def write_comparison(
    records: Sequence[Mapping[str, Any]], out: Path, pictured: Pictured | None = None
) -> Path:
    """One page of these runs, as `out`/comparison.html.

    pictured    their networks by what the runs are called (`names`)
    """
    write_text(out / REPORT, render(records, pictured))
    return out / REPORT


def read_runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of runs that can be compared."""
    if len(folders) < 2:
        raise InputError("name at least two run folders to compare.")
    records = [read_record(folder) for folder in folders]
    for folder, record in zip(folders, records, strict=True):
        if "scores" not in record:
            raise InputError(f"{folder} is a discovery, which has no scores to compare.")
    tasks = sorted({record["task"] for record in records})
    if len(tasks) > 1:
        raise InputError(
            f"runs of one task can be compared; these are of {' and '.join(map(repr, tasks[:3]))}."
        )
    return records


def render(records: Sequence[Mapping[str, Any]], pictured: Pictured | None = None) -> str:
    splits = [name for name in ("test", "val") if all(name in r["scores"] for r in records)]
    called = names(records)
    return (
        page_environment()
        .get_template("comparison.html.j2")
        .render(
            title=charts.shortened(title(records[0])),
            runs=[
                {"name": name, "record": record, "cost": _cost(record, records)}
                for name, record in zip(called, records, strict=True)
            ],
            names=called,
            splits=[_split(split, called, records) for split in splits],
            looking=None if pictured is None else looking_at_groups(records, pictured),
        )
    )


def names(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each run is called here: its method, its seed where that differs, and else a number."""
    seeds = len({record["seed"] for record in records}) > 1
    called = [f"{r['method']}, seed {r['seed']}" if seeds else r["method"] for r in records]
    return [
        name if called.count(name) == 1 else f"{name} ({called[: place + 1].count(name)})"
        for place, name in enumerate(called)
    ]


def _split(
    split: str, called: Sequence[str], records: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    scores = [record["scores"][split]["selected"] for record in records]
    groups = list(dict.fromkeys(group for score in scores for group in score["groups"]))
    return {
        "name": split,
        "worst": charts.bars(
            called,
            [score["worst_group"] for score in scores],
            intervals=[score["worst_group_interval"] for score in scores],
            classes=[charts.colour(place) for place in range(len(called))],
            label=f"Worst group on {split} in %, a bar a run",
            chart="bars",
            percent=True,
        ),
        "scores": list(zip(called, scores, strict=True)),
        "groups": [
            {"name": group, "cells": [_cell(score["groups"].get(group)) for score in scores]}
            for group in groups
        ],
    }


def _cell(group: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if group is None:
        return None
    low, high = wilson_interval(round(group["accuracy"] * group["n"]), group["n"])
    return {**group, "low": low, "high": high}


def _cost(
    record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    """Examples and time relative to plain training with the same seed, where that is among them."""
    plain = next((r for r in records if r["method"] == "erm" and r["seed"] == record["seed"]), None)
    if plain is None:
        return {"examples": None, "seconds": None}
    return {
        "examples": record["examples_seen"] / plain["examples_seen"],
        "seconds": record["seconds"]["total"] / plain["seconds"]["total"],
    }
