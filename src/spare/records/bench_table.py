"""The table that table.json of a bench holds, and the runs that it sums up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from spare.errors import RunError
from spare.files import read_json, write_json
from spare.records.layout import RUN, TABLE, run_name
from spare.records.record import Interval, RunRecord, read_run


class Spread(TypedDict):
    """One number over seeds."""

    mean: float
    sd: float
    #: 95 % of the mean, by Student's t; None for one seed.
    interval: Interval | None
    values: list[float]


class RowScores(TypedDict, total=False):
    """The scores of one method over seeds."""

    worst_group: Spread
    average: Spread
    adjusted_average: Spread
    id_accuracy: Spread
    worst_pattern: Spread
    gaps: dict[str, Spread]
    inferred: dict[str, Spread]


class Difference(TypedDict):
    """Points by which SPARE is above another method, over the seeds that both have."""

    seeds: list[int]
    selected: dict[str, Spread]
    last: dict[str, Spread]


class Row(TypedDict):
    """One method of a bench, over its seeds."""

    task: str
    method: str
    selection: str
    sees: str
    split: str
    seeds: list[int]
    settings: dict[str, Any]
    options: dict[str, Any]
    seconds: float
    examples_seen: int
    peak_memory_mb: float
    selected: RowScores
    last: RowScores
    paper_rule: NotRequired[RowScores]
    paper_rule_name: NotRequired[str]
    cost: NotRequired[dict[str, float]]
    spare_minus_this: NotRequired[Difference]


class FailedRun(TypedDict):
    """A run of a bench that failed: the same command tries it again."""

    method: str
    seed: int
    #: One line.
    why: str


class BenchTable(TypedDict):
    """table.json."""

    rows: list[Row]
    #: The runs that are in no row; a bench in which all went well has none.
    failures: NotRequired[list[FailedRun]]
    command: NotRequired[str]


def read_table(folder: Path) -> BenchTable:
    """The table of a bench."""
    table = read_json(folder / TABLE)
    if not isinstance(table, dict) or not isinstance(table.get("rows"), list):
        raise RunError(f"{folder / TABLE} is not the table of a bench: give its command again.")
    return cast(BenchTable, table)


def write_table(folder: Path, table: BenchTable) -> None:
    write_json(folder / TABLE, table)


class StoredRun(NamedTuple):
    """A run's folder, and the record in it."""

    folder: Path
    record: RunRecord


def runs_by_method(folder: Path, table: BenchTable) -> dict[str, list[StoredRun]]:
    """The runs of a bench's table, by method, in the order of their seeds; no other folder's."""
    runs: dict[str, list[StoredRun]] = {}
    for row in table["rows"]:
        folders = [folder / run_name(row["method"], seed) for seed in sorted(row["seeds"])]
        runs[row["method"]] = [
            StoredRun(run, read_run(run)) for run in folders if (run / RUN).is_file()
        ]
    return runs
