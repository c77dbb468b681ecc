"""Write the tables of docs/results.md, and the short one of the README, from results/.

    python docs/make_results.py          rewrites the pages
    python docs/make_results.py --check  exits with 1 if a page is not what results/ gives

Everything between marks is made here; the rest of the pages is written by hand.

A study is a folder of results/ with about.json (its title, its command, and what it shows) and
runs.jsonl (one line per run: the whole run.json, by method and seed).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from spare.files.reading import read_json
from spare.findings.verdict import FOUND, NONE, WEAK
from spare.methods import METHODS
from spare.records.bench_table import Row, Spread
from spare.records.labels import labels_used
from spare.records.record import RunRecord, upgraded
from spare.runs.table import table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
END = "<!-- end of tables -->"
TUNING = re.compile(rf"(?P<begin><!-- tuning -->).*?{END}", re.DOTALL)
SHORT = re.compile(rf"(?P<begin><!-- short table -->).*?{END}", re.DOTALL)
VERDICT = re.compile(rf"(?P<begin><!-- verdict -->).*?{END}", re.DOTALL)
#: The tables of all studies whose name begins as the mark says.
MARKED = re.compile(rf"(?P<begin><!-- tables: (?P<name>[\w-]+) -->).*?{END}", re.DOTALL)

#: Worst group / average of the paper's main table on Colored MNIST, in percent.
PAPER = {
    "erm": (0.0, 20.1),
    "cb": (0.0, 23.7),
    "george": (76.4, 89.5),
    "pgi": (73.5, 88.5),
    "eiil": (72.8, 90.7),
    "lff": (0.0, 25.0),
    "jtt": (74.5, 90.2),
    "cnc": (77.4, 90.9),
    "spare": (83.0, 91.8),
    "gb": (82.2, 91.7),
    "gdro": (78.5, 90.6),
}
#: Methods of the README's table: plain training, those that come near, and the true groups.
NEAREST = ("erm", "jtt", "pgi", "cnc", "spare", "bridge", "gb")
#: Methods in the order in which they are shown; pairs come after those that have a name.
ORDER = list(METHODS)


def position(method: str) -> int:
    return ORDER.index(method) if method in ORDER else len(ORDER)


def cell(score: Spread) -> str:
    deviation = f" ± {100 * score['sd']:.1f}" if score["interval"] else ""  # one seed has none
    return f"{100 * score['mean']:.1f}{deviation}"


def difference(score: Spread) -> str:
    if score["interval"] is None:
        return f"{100 * score['mean']:+.1f}"
    low, high = score["interval"]
    return f"{100 * score['mean']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def read_runs(study: Path) -> list[RunRecord]:
    lines = (study / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    return [cast(RunRecord, upgraded(json.loads(line), study)) for line in lines]


def study_section(study: Path) -> list[str]:
    about = read_json(study / "about.json")
    runs = read_runs(study)
    rows = sorted(table(runs)["rows"], key=lambda row: position(row["method"]))
    lines = [f"### {about['title']}", "", about["says"], ""]
    lines += ["```console", *(f"$ {line}" for line in about["command"].splitlines()), "```", ""]
    lines += scores_table(rows, about)
    if "gaps" in rows[0]["selected"]:
        lines += ["", *gaps_table(rows)]
    summary = "Each seed (worst group / average at the selected epoch, which epoch)"
    lines += ["", f"<details><summary>{summary}</summary>", ""]
    lines += [
        seed_line(run) for run in sorted(runs, key=lambda r: (position(r["method"]), r["seed"]))
    ]
    return [*lines, "", "</details>", ""]


def scores_table(rows: list[Row], about: dict[str, Any]) -> list[str]:
    heads = ["method", "training used", "selection used", "worst group", "average",
             "last epoch: worst group", "average", "seeds", "selection rule",
             "split"]  # fmt: skip
    ruled = any(row.get("paper_rule") for row in rows)
    heads += ["the method's own rule: worst group / average"] if ruled else []
    costly = any(row.get("cost") for row in rows) and len(rows) > 1
    compared = any(row.get("spare_minus_this") for row in rows)
    more = ["SPARE minus this (95 % interval)"] if compared else []
    # Time says something only where all runs had the machine to themselves in the same way.
    timed = about.get("timed", False)
    more += ["cost: examples" + (" / time" if timed else ""), "peak MB"] if costly else []
    lines = [heads + more + (["paper"] if about.get("compare") else [])]
    for row in rows:
        selected, last = row["selected"], row["last"]
        cells = [
            row["method"],
            *labels_used(row),
            cell(selected["worst_group"]),
            cell(selected["average"]),
            cell(last["worst_group"]),
            cell(last["average"]),
            ", ".join(map(str, row["seeds"])),
            row["selection"],
            row["split"],
        ]
        if ruled:
            cells.append(by_paper_rule(row))
        if compared:
            against = row.get("spare_minus_this")
            cells.append(difference(against["selected"]["worst_group"]) if against else "")
        if costly:
            cost = row["cost"]
            cells.append(f"{cost['examples']:.2f}" + (f" / {cost['seconds']:.2f}" if timed else ""))
            cells.append(f"{row['peak_memory_mb']:.0f}")
        if about.get("compare"):
            paper = PAPER.get(row["method"])
            cells.append("{} / {}".format(*paper) if paper else "-")
        lines.append(cells)
    return as_table(lines)


def by_paper_rule(row: Row) -> str:
    """Scores by the rule of the method's paper, where that is not the run's."""
    if "paper_rule" not in row:
        return ""
    scores = row["paper_rule"]
    worst, average = cell(scores["worst_group"]), cell(scores["average"])
    return f"{worst} / {average} ({row['paper_rule_name']})"


def short_table() -> list[str]:
    """The README's table: plain training, the methods that come near SPARE, and the true groups."""
    rows = {row["method"]: row for row in table(read_runs(RESULTS / "cmnist"))["rows"]}
    lines = [
        ["method", "training used", "selection used", "worst group", "average", "seeds",
         "examples, of plain training's"]
    ]  # fmt: skip
    for name in NEAREST:
        row = rows[name]
        selected = row["selected"]
        lines.append(
            [
                f"`{name}`: {METHODS[name].title.split(':')[0]}",
                *labels_used(row),
                cell(selected["worst_group"]),
                cell(selected["average"]),
                str(len(row["seeds"])),
                f"{row['cost']['examples']:.2f}",
            ]
        )
    return as_table(lines)


def tuning_table() -> list[str]:
    """What benchmarks/tune.py found, one file per method; the chosen setting in bold."""
    lines = [
        ["method", "setting", "worst group", "average", "epoch", "examples, of 10 plain epochs"]
    ]
    files = {path.stem: path for path in (RESULTS / "tuning").glob("*.json")}
    for method in sorted(files, key=position):
        for row in read_json(files[method])["rows"]:
            setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
            mark = "**" if row.get("chosen") else ""
            lines.append(
                [
                    method,
                    f"{mark}{setting}{mark}",
                    f"{100 * row['worst_group']:.1f}",
                    f"{100 * row['average']:.1f}",
                    str(row["epoch"]),
                    f"{row['examples_seen'] / 500_000:.1f}",
                ]
            )
    return as_table(lines)


def verdict_table() -> list[str]:
    """What benchmarks/verdict.py found, one line per kind of data."""
    words = (FOUND, WEAK, NONE)
    lines = [["data", "runs", *words, *(f"left out: {word}" for word in words)]]
    for row in read_json(RESULTS / "verdict" / "verdict.json")["summary"]:
        counts = [str(row[name][word]) for name in ("in use", "left out") for word in words]
        lines.append([row["what"], str(row["runs"]), *counts])
    return as_table(lines)


def gaps_table(rows: list[Row]) -> list[str]:
    names = list(rows[0]["selected"]["gaps"])
    lines = [["method", "ID accuracy", *(f"{name} gap" for name in names), "worst pattern"]]
    for row in rows:
        scores = row["selected"]
        cells = [row["method"], cell(scores["id_accuracy"])]
        cells += [cell(scores["gaps"][name]) for name in names]
        lines.append([*cells, cell(scores["worst_pattern"])])
    return as_table(lines)


def as_table(lines: list[list[str]]) -> list[str]:
    marked = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return ["| " + " | ".join(cells) + " |" for cells in marked]


def seed_line(run: RunRecord) -> str:
    split = "test" if "test" in run["scores"] else "val"
    scores = run["scores"][split]["selected"]
    low, high = scores["worst_group_interval"]
    line = (
        f"- {run['method']} seed {run['seed']}: {100 * scores['worst_group']:.1f} "
        f"({100 * low:.1f} to {100 * high:.1f}, {scores['worst_group_size']} examples of "
        f"{scores['worst_group_name']}) / {100 * scores['average']:.1f}, epoch "
        f"{run['selected_epoch']}"
    )
    if run["discovery"] and run["sees"] != "train":
        classes = run["discovery"].values()
        when = run["notes"].get("separated_at")
        line += f"; separated after epoch {when}" if when else ""
        silhouettes = [groups["silhouette"] for groups in classes]
        if None not in silhouettes:
            line += ", silhouettes " + ", ".join(f"{silhouette:.3f}" for silhouette in silhouettes)
        line += (
            f"; smallest minority recall {min(groups['recall'] or 0 for groups in classes):.2f}, "
            f"precision {min(groups['precision'] or 0 for groups in classes):.2f}"
        )
    return line


def filled(make_lines: Callable[[], list[str]], match: re.Match[str]) -> str:
    return "\n".join([match["begin"], "", *make_lines(), "", END])


def page() -> str:
    """The page with every marked part made anew; every study belongs to one part."""
    shown = set()

    def tables(match: re.Match[str]) -> str:
        studies = sorted(path.parent for path in RESULTS.glob(f"{match['name']}*/about.json"))
        shown.update(studies)
        lines = [line for study in studies for line in study_section(study)]
        return "\n".join([match["begin"], "", *lines, END])

    text = MARKED.sub(tables, PAGE.read_text())
    for marked, make_lines in ((TUNING, tuning_table), (VERDICT, verdict_table)):
        text = marked.sub(partial(filled, make_lines), text)
    forgotten = {path.parent for path in RESULTS.glob("*/about.json")} - shown
    if forgotten:
        sys.exit(f"no part of {PAGE.name} shows {sorted(map(str, forgotten))}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = {PAGE: page(), README: SHORT.sub(partial(filled, short_table), README.read_text())}
    if arguments.check:
        sys.exit(any(text != path.read_text() for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
