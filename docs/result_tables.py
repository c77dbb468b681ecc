"""Numbers and tables of the results page, each from a record under results/.

Used by docs/make_results.py. A study is a folder of results/ with about.json (the command, and
which columns its table has) and runs.jsonl (one line per run: the whole run.json, by method and
seed). results/paper.json has the numbers of the paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from spare.files.reading import read_json
from spare.methods import METHODS
from spare.records.bench_table import Row, Spread
from spare.records.labels import labels_used
from spare.records.record import RunRecord, upgraded
from spare.runs.table import table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
#: Methods in the order in which they are shown; pairs come after those that have a name.
ORDER = list(METHODS)


def position(method: str) -> int:
    return ORDER.index(method) if method in ORDER else len(ORDER)


# --- records -------------------------------------------------------------------------------------


@cache
def runs_of(study: str) -> list[RunRecord]:
    path = RESULTS / study / "runs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [cast(RunRecord, upgraded(json.loads(line), path.parent)) for line in lines]


@cache
def rows_of(study: str) -> list[Row]:
    return sorted(table(runs_of(study))["rows"], key=lambda row: position(row["method"]))


def row_of(study: str, method: str) -> Row:
    return next(row for row in rows_of(study) if row["method"] == method)


def measured(path: str) -> Any:
    """A file of measurements below results/."""
    return read_json(RESULTS / path)


# --- numbers in sentences ------------------------------------------------------------------------


def score(
    study: str, method: str, what: str = "worst_group", when: str = "selected", spread: bool = True
) -> str:
    """A method's score, as mean ± standard deviation."""
    return cell(_at(row_of(study, method)[when], what), spread)  # type: ignore[literal-required]


def minus(
    study: str, method: str, other: str, what: str = "worst_group", when: str = "selected"
) -> str:
    """How many points a method is above another, over the seeds that both have."""
    one, two = row_of(study, method), row_of(study, other)
    both = sorted({*one["seeds"]} & {*two["seeds"]})
    values = [
        dict(zip(row["seeds"], _at(row[when], what)["values"], strict=True))  # type: ignore[literal-required]
        for row in (one, two)
    ]
    return f"{100 * sum(values[0][s] - values[1][s] for s in both) / len(both):+.1f}"


def minus_between(study: str, other: str, method: str) -> str:
    """How many points a method has more in one study than in another."""
    means = [row_of(name, method)["selected"]["worst_group"]["mean"] for name in (study, other)]
    return f"{100 * (means[0] - means[1]):.1f}"


def of_seeds(study: str, method: str, what: str, choose: Callable[..., float]) -> str:
    """The smallest or largest score over the seeds."""
    return f"{100 * choose(_at(row_of(study, method)['selected'], what)['values']):.1f}"


def recovery(study: str, method: str, what: str, choose: Callable[..., float] = min) -> str:
    """Recall or precision of the minorities: over classes the smallest, over seeds as said."""
    found = [
        min(groups[what] or 0.0 for groups in run["discovery"].values())  # type: ignore[literal-required]
        for run in runs_of(study)
        if run["method"] == method and run["discovery"]
    ]
    return f"{choose(found):.2f}"


def measured_cost(study: str, method: str) -> float:
    """Examples passed through a model, in plain trainings."""
    return row_of(study, method)["cost"]["examples"]


def published(data: str) -> dict[str, list[float]]:
    """Worst group and average of every method in the paper's main table."""
    return cast(dict[str, list[float]], measured("paper.json")["main_table"][data])


def paper(method: str, data: str = "cmnist") -> str:
    return "{} / {}".format(*published(data)[method])


def _at(scores: Any, what: str) -> Spread:
    """A score by its name; of a gap, `gaps.NAME`."""
    for part in what.split(".", 1):
        scores = scores[part]
    return cast(Spread, scores)


def cell(spread: Spread, with_spread: bool = True) -> str:
    deviation = f" ± {100 * spread['sd']:.1f}" if spread["interval"] and with_spread else ""
    return f"{100 * spread['mean']:.1f}{deviation}"


def difference(spread: Spread) -> str:
    if spread["interval"] is None:
        return f"{100 * spread['mean']:+.1f}"
    low, high = spread["interval"]
    return f"{100 * spread['mean']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


# --- tables --------------------------------------------------------------------------------------


def study(name: str, when: str = "selected") -> str:
    """The table of a study, what all of its rows have in common, and the command.

    With when="last" the last epoch, of the methods whose training saw no group label: a table
    without any.
    """
    about = read_json(RESULTS / name / "about.json")
    rows = rows_of(name)
    if when == "last":
        rows = [row for row in rows if labels_used(row).training == "none"]
    two_shortcuts = "gaps" in rows[0]["selected"]
    lines = gaps_table(rows, when) if two_shortcuts else scores_table(rows, about, when)
    return "\n".join([*lines, "", f"{in_common(rows, when)} {source(name)}."])


def source(name: str) -> str:
    """The commands of a study, and its scores by seed."""
    lines = read_json(RESULTS / name / "about.json")["command"].splitlines()
    return "; ".join([*(f"`{line}`" for line in lines), f"[seeds](../results/{name}/seeds.csv)"])


def in_common(rows: list[Row], when: str) -> str:
    """What would be a column with the same in every row."""
    said = [f"{rows[0]['split'].capitalize()} split"]
    if when == "last":
        said.append("the last epoch; no group label was used, for training or for selection")
    else:
        if len({row["selection"] for row in rows}) == 1:
            said.append(f"selection: {rows[0]['selection']}")
        for name, used in zip(
            ("training", "selection"), zip(*map(labels_used, rows), strict=True), strict=True
        ):
            if len(set(used)) == 1:
                said.append(f"{name} used: {used[0]}")
    if len({tuple(row["seeds"]) for row in rows}) == 1:
        said.append(f"seeds {seeds_text(rows[0]['seeds'])}")
    return "; ".join(said) + "."


def scores_table(rows: list[Row], about: dict[str, Any], when: str) -> list[str]:
    """Columns that differ between rows only; `average` is plain or adjusted, as the study says."""
    average = about.get("average", "average")
    columns: list[tuple[str, Callable[[Row], str]]] = [("method", lambda row: row["method"])]
    selected = when == "selected"
    for number, name in enumerate(("training used", "selection used")):
        if selected and len({labels_used(row)[number] for row in rows}) > 1:
            columns.append((name, lambda row, n=number: labels_used(row)[n]))
    columns += [
        ("worst group", lambda row: cell(row[when]["worst_group"])),  # type: ignore[literal-required]
        (average.replace("_", " "), lambda row: cell(_at(row[when], average))),  # type: ignore[literal-required]
    ]
    if selected and any(row["selection"] != "last" for row in rows):
        columns.append(("last epoch: worst group", lambda row: cell(row["last"]["worst_group"])))
    if selected and any(row.get("paper_rule") for row in rows):
        columns.append(("by its own rule", by_paper_rule))
    if any(row.get("spare_minus_this") for row in rows):
        columns.append(("SPARE minus this (95 % interval)", partial(spare_minus, when=when)))
    if len({tuple(row["seeds"]) for row in rows}) > 1:
        columns.append(("seeds", lambda row: seeds_text(row["seeds"])))
    if len(rows) > 1 and any(row.get("cost") for row in rows):
        columns.append(("examples", lambda row: f"{row['cost']['examples']:.2f}"))
    if about.get("timed"):
        columns.append(("time", lambda row: f"{row['cost']['seconds']:.2f}"))
    if about.get("paper"):
        known = published(about["paper"])
        columns.append(
            (
                "paper",
                lambda row: paper(row["method"], about["paper"]) if row["method"] in known else "-",
            )
        )
    heads = [head for head, _ in columns]
    return as_table([heads, *([make(row) for _, make in columns] for row in rows)])


def spare_minus(row: Row, when: str = "selected") -> str:
    against = row.get("spare_minus_this")
    return difference(against[when]["worst_group"]) if against else ""  # type: ignore[literal-required]


def by_paper_rule(row: Row) -> str:
    """Scores by the rule of the method's paper, where that is not the run's."""
    if "paper_rule" not in row:
        return ""
    return f"{cell(row['paper_rule']['worst_group'])} ({row['paper_rule_name']})"


def gaps_table(rows: list[Row], when: str) -> list[str]:
    """Where two shortcuts hold: what is lost where the one, the other or both mislead."""
    scores: list[Any] = [row[when] for row in rows]  # type: ignore[literal-required]
    gaps = [f"{name} gap" for name in scores[0]["gaps"]]
    used = ["training used"] if len({labels_used(row).training for row in rows}) > 1 else []
    costs = ["examples"] if any(row.get("cost") for row in rows) else []
    lines = [["method", *used, "worst group", "average", "ID accuracy", *gaps, *costs]]
    for row, of_row in zip(rows, scores, strict=True):
        spreads = [of_row[name] for name in ("worst_group", "average", "id_accuracy")]
        cells = [cell(spread) for spread in (*spreads, *of_row["gaps"].values())]
        training = [labels_used(row).training] * len(used)
        cost = [f"{row['cost']['examples']:.2f}" for _ in costs]
        lines.append([row["method"], *training, *cells, *cost])
    return as_table(lines)


#: Of the README's table: the data, the study, which average its paper has, and the methods.
SHORT = (
    ("Colored MNIST", "cmnist", "average", ("erm", "spare", "bridge")),
    ("Waterbirds, features", "waterbirds-features-test", "adjusted_average", ("erm", "spare")),
)
SHORT_NAMES = {"erm": "plain training", "spare": "SPARE", "bridge": "`bridge`, ours"}


def short_table() -> list[str]:
    """The README's table: no group label anywhere."""
    lines = [["data", "method", "worst group", "95 % interval", "average", "seeds"]]
    for data, name, average, methods in SHORT:
        for method in methods:
            row = row_of(name, method)
            worst = row["last"]["worst_group"]
            assert worst["interval"] is not None
            lines.append(
                [
                    data,
                    SHORT_NAMES[method],
                    cell(worst),
                    " to ".join(
                        f"{100 * min(max(end, 0.0), 1.0):.1f}" for end in worst["interval"]
                    ),
                    cell(_at(row["last"], average)),
                    seeds_text(row["seeds"]),
                ]
            )
    return as_table(lines)


def seeds_text(seeds: list[int]) -> str:
    """Seeds in words, consecutive ones from the first to the last.

    >>> seeds_text([0, 1, 2, 5]), seeds_text([20, 21])
    ('0 to 2, 5', '20, 21')
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]
    return ", ".join(parts)


def as_table(lines: list[list[str]]) -> list[str]:
    marked = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return ["| " + " | ".join(cells) + " |" for cells in marked]
