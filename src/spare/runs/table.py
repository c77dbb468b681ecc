"""The table of a bench: every method over its seeds, with what it cost and how far SPARE is off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from spare.errors import InputError
from spare.records.bench_table import BenchTable, Row, RowScores, ScoreDifferences, Spread
from spare.records.labels import labels_used
from spare.records.record import RunRecord, training_seconds

#: What a table has of every run, where the run has it.
SCORES = ("worst_group", "average", "adjusted_average", "id_accuracy", "worst_pattern")


def table(runs: Iterable[RunRecord]) -> BenchTable:
    """Rows per task, method and selection rule: mean and spread over seeds, selected and last."""
    by_key: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in runs:
        settings = json.dumps(record["settings"], sort_keys=True)
        options = json.dumps(record["options"], sort_keys=True)
        key = (record["task"], record["method"], record["selection"], settings, options)
        by_key.setdefault(key, []).append(record)
    rows = [_row(records) for records in by_key.values()]
    for row in rows:
        _add_cost(row, rows)
        _add_difference(row, rows)
    return {"rows": rows}


def _row(records: list[RunRecord]) -> Row:
    records = sorted(records, key=lambda r: r["seed"])
    first = records[0]
    split = next((s for s in ("test", "val") if all(s in r["scores"] for r in records)), None)
    if split is None:
        raise InputError(
            f"the runs of {first['method']} have no scores on one split: a table needs validation "
            f"or test examples."
        )
    used = labels_used(first)
    row: Row = {
        "task": first["task"],
        "method": first["method"],
        "selection": first["selection"],
        "sees": first["sees"],
        "training_used": used.training,
        "selection_used": used.selection,
        "split": split,
        "seeds": [r["seed"] for r in records],
        "settings": first["settings"],
        "options": first["options"],
        "seconds": float(np.mean([training_seconds(r) for r in records])),
        "examples_seen": int(np.mean([r["examples_seen"] for r in records])),
        "peak_memory_mb": float(np.mean([r["peak_memory_mb"] for r in records])),
        "selected": _scores(records, split, "selected"),
        "last": _scores(records, split, "last"),
    }
    if all(r.get("paper_rule") for r in records):
        row["paper_rule_name"] = first["paper_rule"]
        row["paper_rule"] = _scores(records, split, "paper_rule")
    return row


def _scores(records: Sequence[RunRecord], split: str, when: str) -> RowScores:
    scores: list[Mapping[str, Any]] = [r["scores"][split][when] for r in records]
    spreads: dict[str, Any] = {
        name: mean_and_spread([score[name] for score in scores])
        for name in SCORES
        if all(name in score for score in scores)
    }
    for kind in ("gaps", "inferred"):
        if all(kind in score for score in scores):
            names = scores[0][kind] if kind == "gaps" else ("worst_group", "average")
            names = [name for name in names if all(name in score[kind] for score in scores)]
            spreads[kind] = {
                name: mean_and_spread([score[kind][name] for score in scores]) for name in names
            }
    return cast(RowScores, spreads)


def _add_cost(row: Row, rows: Sequence[Row]) -> None:
    """Examples passed through a model, and time, relative to plain training in the same table."""
    plain = [other for other in rows if other["method"] == "erm" and other["task"] == row["task"]]
    if len(plain) == 1:
        row["cost"] = {
            "examples": row["examples_seen"] / plain[0]["examples_seen"],
            "seconds": row["seconds"] / plain[0]["seconds"],
        }


def _add_difference(row: Row, rows: Sequence[Row]) -> None:
    """Points that SPARE is above this row, seed by seed: the seed's data and weights are shared."""
    ours = [other for other in rows if other["method"] == "spare" and other["task"] == row["task"]]
    if len(ours) != 1 or row["method"] == "spare":
        return
    common = sorted({*row["seeds"]} & {*ours[0]["seeds"]})
    if not common:
        return

    spare_at, other_at = ([of["seeds"].index(seed) for seed in common] for of in (ours[0], row))

    def difference(spare: Spread, other: Spread) -> Spread:
        return mean_and_spread(
            np.array(spare["values"])[spare_at] - np.array(other["values"])[other_at]
        )

    def differences(spare: RowScores, other: RowScores) -> ScoreDifferences:
        return {
            "worst_group": difference(spare["worst_group"], other["worst_group"]),
            "average": difference(spare["average"], other["average"]),
        }

    row["spare_minus_this"] = {
        "seeds": common,
        "selected": differences(ours[0]["selected"], row["selected"]),
        "last": differences(ours[0]["last"], row["last"]),
    }


def mean_and_spread(values: Sequence[float] | np.ndarray) -> Spread:
    """Mean, sample standard deviation, a 95 % interval of the mean (Student's t; none for a single
    seed), and the values themselves."""
    count = len(values)
    spread: Spread = {
        "mean": float(np.mean(values)),
        "sd": 0.0,
        "interval": None,
        "values": [float(value) for value in values],
    }
    if count > 1:
        from scipy.stats import t

        spread["sd"] = float(np.std(values, ddof=1))
        half = float(t.ppf(0.975, count - 1)) * spread["sd"] / count**0.5
        spread["interval"] = [spread["mean"] - half, spread["mean"] + half]
    return spread
