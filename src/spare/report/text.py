"""Records and tables as text, as the terminal shows them; nothing is printed here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spare.records.bench_table import BenchTable
from spare.records.labels import labels_used
from spare.records.record import DiscoveryRecord, RunRecord, is_run
from spare.report.bench_sections import bench_sections
from spare.report.sections import (
    Section,
    discovery_sections,
    numeric_columns,
    percent,
    score_sections,
)
from spare.text import printable


def table_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell, numbers to the right.

    >>> print(table_text(["name", "n"], [["a", 5], ["bcdef", 10]]))
    name    n
    -----  --
    a       5
    bcdef  10
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    numeric = numeric_columns(cells, len(heads))

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, cells)])


def scores_text(record: RunRecord) -> str:
    """The accuracies of a run."""
    return sections_text(score_sections(record))


def discovery_text(record: DiscoveryRecord) -> str:
    """What was found in each class; empty for a run that names no groups."""
    return sections_text(discovery_sections(record))


def record_text(record: DiscoveryRecord | RunRecord) -> str:
    """A run or a discovery: its scores, if it has any, and what was found in each class."""
    scores = scores_text(record) if is_run(record) else ""
    return "\n\n".join(text for text in (scores, discovery_text(record)) if text)


def bench_text(table: BenchTable) -> str:
    """The table of a bench, and how far SPARE is above each method."""
    return sections_text(bench_sections(table))


def demo_text(erm: RunRecord, spare: RunRecord) -> str:
    """Plain training beside SPARE, and what SPARE found."""
    rows = []
    for title, record in (("plain training (ERM)", erm), ("SPARE", spare)):
        score = record["scores"]["test"]["selected"]
        low, high = score["worst_group_interval"]
        rows.append(
            [
                title,
                percent(score["worst_group"]),
                f"{percent(low)} to {percent(high)}",
                score["worst_group_name"],
                score["worst_group_size"],
                percent(score["average"]),
            ]
        )
    heads = ["method", "worst group %", "95 % interval", "which", "test examples", "average %"]
    rule = f"One seed; {labels_used(spare)} ({spare['selection']}). Test split, scored once."
    return "\n\n".join([table_text(heads, rows), rule, discovery_text(spare)])


def sections_text(sections: Iterable[Section]) -> str:
    """Sections with a blank line between them."""
    return "\n\n".join(
        "\n".join(
            [
                printable(section.heading),
                *([table_text(section.heads, section.rows)] if section.heads else []),
                *map(printable, section.notes),
            ]
        )
        for section in sections
    )
