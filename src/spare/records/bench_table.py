"""The table that table.json of a bench holds, and the runs that it sums up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, cast

import msgspec

from spare.files.reading import is_plain_file, read_json
from spare.files.writing import write_json
from spare.records.checks import (
    Asked,
    Count,
    Fraction,
    NotNegative,
    Number,
    Seed,
    check_type,
    damaged,
)
from spare.records.layout import RUN, TABLE, run_name
from spare.records.record import RunRecord, read_run

#: More rows than there are methods with any settings that someone would compare.
MOST_ROWS = 1000
AGAIN = "give the command of the bench again"
Pair = Annotated[list[Number], msgspec.Meta(min_length=2, max_length=2)]


class Spread(TypedDict):
    """One number over seeds."""

    mean: Number
    sd: NotNegative
    #: 95 % of the mean, by Student's t; None for one seed.
    interval: Pair | None
    values: list[Number]


class RowScores(TypedDict):
    """The scores of one method over seeds."""

    worst_group: Spread
    average: Spread
    adjusted_average: NotRequired[Spread]
    id_accuracy: NotRequired[Spread]
    worst_pattern: NotRequired[Spread]
    gaps: NotRequired[dict[str, Spread]]
    inferred: NotRequired[dict[str, Spread]]


class ScoreDifferences(TypedDict):
    """Points by which one method is above another."""

    worst_group: Spread
    average: Spread


class Cost(TypedDict):
    """What a method cost, relative to plain training."""

    examples: NotNegative
    seconds: NotNegative


class Difference(TypedDict):
    """Points by which SPARE is above another method, over the seeds that both have."""

    seeds: list[Seed]
    selected: ScoreDifferences
    last: ScoreDifferences


class Row(TypedDict):
    """One method of a bench, over its seeds."""

    task: str
    method: str
    selection: str
    sees: str
    #: In words (labels.py); the first tables do not have them.
    training_used: NotRequired[str]
    selection_used: NotRequired[str]
    split: str
    seeds: list[Seed]
    settings: dict[str, Any]
    options: dict[str, Any]
    seconds: NotNegative
    examples_seen: Count
    peak_memory_mb: NotNegative
    selected: RowScores
    last: RowScores
    paper_rule: NotRequired[RowScores]
    paper_rule_name: NotRequired[str]
    cost: NotRequired[Cost]
    spare_minus_this: NotRequired[Difference]


class FailedRun(TypedDict):
    """A run of a bench that failed: the same command tries it again."""

    method: str
    seed: int
    #: One line.
    why: str


class BenchTable(TypedDict):
    """table.json."""

    rows: Annotated[list[Row], msgspec.Meta(max_length=MOST_ROWS)]
    #: The runs that are in no row; a bench in which all went well has none.
    failures: NotRequired[Annotated[list[FailedRun], msgspec.Meta(max_length=MOST_ROWS)]]
    command: NotRequired[str]


def read_table(folder: Path) -> BenchTable:
    """The table of a bench, checked to be what its type says."""
    path = folder / TABLE
    table = read_json(path)
    check_type(table, BenchTable, path, AGAIN)
    for row in table["rows"]:
        check_type(row, Asked, path, AGAIN)
        for scores in (row["selected"], row["last"], row.get("paper_rule", row["last"])):
            means = [scores["worst_group"]["mean"], scores["average"]["mean"]]
            check_type(means, list[Fraction], path, AGAIN)
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
        named = {seed: folder / run_name(row["method"], seed) for seed in sorted(row["seeds"])}
        runs[row["method"]] = [
            StoredRun(path, _run_of(row, seed, path))
            for seed, path in named.items()
            if is_plain_file(path / RUN) and not path.is_symlink()
        ]
    return runs


def _run_of(row: Row, seed: int, folder: Path) -> RunRecord:
    """The record of one run of a row; an error if it is another's."""
    record = read_run(folder)
    same = all(record[part] == row[part] for part in ("task", "method"))
    if not same or record["seed"] != seed or row["split"] not in record["scores"]:
        raise damaged(folder / RUN, f"it is not the run that {TABLE} names", AGAIN)
    return record
