"""Records and tables as HTML fragments that stand by themselves, for `_repr_html_` in notebooks."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from spare.records.bench_table import BenchTable
from spare.records.record import DiscoveryRecord, RunRecord, is_run
from spare.report.bench_sections import bench_sections
from spare.report.charts import shortened
from spare.report.sections import (
    Section,
    discovery_sections,
    numeric_columns,
    score_sections,
)

#: A long list of classes is cut: the page of the run has all of them.
MOST_ROWS = 60
MOST_LETTERS = 300
CELL = "padding: .2em .6em; text-align: {}"


def record_html(record: DiscoveryRecord | RunRecord) -> str:
    """A run or a discovery: its scores, its verdict, and the groups of each class."""
    scores = score_sections(record) if is_run(record) else []
    return sections_html([*scores, *discovery_sections(record)])


def bench_html(table: BenchTable) -> str:
    """The table of a bench, and how far SPARE is above each method."""
    return sections_html(bench_sections(table))


def sections_html(sections: Iterable[Section]) -> str:
    """Sections one below the other."""
    return str(Markup('<div class="spare">{}</div>').format(Markup("").join(map(_part, sections))))


def _part(section: Section) -> Markup:
    part = Markup("<p><strong>{}</strong></p>").format(shortened(section.heading, MOST_LETTERS))
    if section.heads:
        part += _table(section)
    for note in section.notes:
        part += Markup("<p>{}</p>").format(shortened(note.strip(), MOST_LETTERS))
    return part


def _table(section: Section) -> Markup:
    rows = [[shortened(str(cell)) for cell in row] for row in section.rows]
    numeric = numeric_columns(rows, len(section.heads))
    styles = [CELL.format("right" if right else "left") for right in numeric]

    def cells(tag: str, row: Iterable[str]) -> Markup:
        return Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<{tag} style='{style}'>{text}</{tag}>").format(
                    tag=Markup(tag), style=style, text=text
                )
                for style, text in zip(styles, row, strict=True)
            )
        )

    table = Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(
        cells("th", section.heads), Markup("").join(cells("td", row) for row in rows[:MOST_ROWS])
    )
    if len(rows) > MOST_ROWS:
        table += Markup("<p>and {} more rows</p>").format(len(rows) - MOST_ROWS)
    return table
