"""Write docs/results.md, the README's table and a CSV of every study's seeds from results/.

    python docs/make_results.py          rewrites them
    python docs/make_results.py --check  exits with 1 if one of them is not what results/ gives
    python docs/make_results.py --add STUDY FOLDER
                                         first takes the finished runs of a bench into results/STUDY

The page is docs/results.md.j2: sentences by hand, and every number by an expression that takes it
from a record. A study is a folder of results/ with about.json (the command, and which columns its
table has) and runs.jsonl (one line per run: the whole run.json, by method and seed).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, cast

import jinja2

from spare.files.reading import read_json
from spare.findings.verdict import FOUND, NONE, WEAK
from spare.methods import METHODS
from spare.records.bench_table import Row, Spread
from spare.records.labels import labels_used
from spare.records.record import RunRecord, upgraded
from spare.runs.table import table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
TEMPLATE = ROOT / "docs" / "results.md.j2"
README = ROOT / "README.md"
END = "<!-- end of tables -->"
SHORT = re.compile(rf"(?P<begin><!-- short table -->).*?{END}", re.DOTALL)
MADE = "<!-- Made by docs/make_results.py from docs/results.md.j2 and results/: change those. -->"

#: Worst group / average of the paper's main table, in percent.
PAPER = {
    "cmnist": {
        "erm": (0.0, 20.1),
        "cb": (0.0, 23.7),
        "george": (76.4, 89.5),
        "pgi": (73.5, 88.5),
        "eiil": (72.8, 90.7),
        "lff": (0.0, 25.0),
        "jtt": (74.5, 90.2),
        "cnc": (77.4, 90.9),
        "spare": (83.0, 91.8),
        "spare_paper": (83.0, 91.8),
        "gb": (82.2, 91.7),
        "gdro": (78.5, 90.6),
    },
    "waterbirds": {
        "erm": (62.6, 97.3),
        "cb": (62.8, 97.1),
        "george": (76.2, 95.7),
        "pgi": (79.5, 95.5),
        "eiil": (83.5, 94.2),
        "lff": (78.0, 91.2),
        "jtt": (83.1, 90.6),
        "cnc": (88.5, 90.9),
        "spare": (91.6, 96.2),
        "spare_paper": (91.6, 96.2),
        "dfr": (90.4, 94.1),
        "gb": (86.3, 93.0),
        "gdro": (89.9, 92.0),
    },
    "celeba": {
        "erm": (47.7, 94.9),
        "cb": (46.1, 95.2),
        "george": (54.9, 94.6),
        "pgi": (85.3, 87.3),
        "eiil": (81.7, 85.7),
        "lff": (77.2, 85.1),
        "jtt": (81.5, 88.1),
        "cnc": (88.8, 89.9),
        "spare": (90.3, 91.1),
        "spare_paper": (90.3, 91.1),
        "dfr": (80.1, 89.7),
        "gb": (85.0, 92.7),
        "gdro": (88.9, 93.9),
    },
    "urbancars": {
        "erm": (28.4, 97.6),
        "cb": (33.7, 98.1),
        "george": (35.2, 97.9),
        "pgi": (34.0, 95.7),
        "eiil": (50.6, 95.5),
        "lff": (34.0, 97.2),
        "jtt": (55.8, 95.9),
        "spare": (76.9, 96.6),
        "spare_paper": (76.9, 96.6),
        "dfr": (44.5, 89.7),
        "gb": (73.9, 92.2),
        "gdro": (75.2, 91.6),
    },
}
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


def add_runs(study: Path, bench: Path) -> None:
    """Take the finished runs of a bench into a study, in place of older ones of the same seeds."""
    file = study / "runs.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    runs = {(run["method"], run["seed"]): run for run in map(json.loads, lines)}
    for path in sorted(bench.glob("*/run.json")):
        run = read_json(path)
        runs[run["method"], run["seed"]] = without_places(run)
    ordered = sorted(runs, key=lambda key: (position(key[0]), *key))
    study.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(runs[key]) + "\n" for key in ordered), encoding="utf-8")


def without_places(run: dict[str, Any]) -> dict[str, Any]:
    """The record without the folder that the data was in, which is nobody's business."""
    place, _, name = run["task"].rpartition("/")
    if place:
        run["command"] = run["command"].replace(run["task"], name)
        run["task"] = name
    return run


# --- numbers in sentences ------------------------------------------------------------------------


def score(
    study: str, method: str, what: str = "worst_group", when: str = "selected", spread: bool = True
) -> str:
    """A method's score, as mean ± standard deviation."""
    return cell(_at(row_of(study, method)[when], what), spread)  # type: ignore[literal-required]


def minus(study: str, method: str, other: str, what: str = "worst_group") -> str:
    """How many points a method is above another, over the seeds that both have."""
    one, two = row_of(study, method), row_of(study, other)
    both = sorted({*one["seeds"]} & {*two["seeds"]})
    values = [
        dict(zip(row["seeds"], _at(row["selected"], what)["values"], strict=True))
        for row in (one, two)
    ]
    return f"{100 * sum(values[0][s] - values[1][s] for s in both) / len(both):+.1f}"


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


def paper(method: str, data: str = "cmnist") -> str:
    return "{} / {}".format(*PAPER[data][method])


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


def study(name: str) -> str:
    """The command of a study, its table, and what all of its rows have in common."""
    about = read_json(RESULTS / name / "about.json")
    rows = rows_of(name)
    lines = ["```console", *(f"$ {line}" for line in about["command"].splitlines()), "```", ""]
    lines += scores_table(rows, about)
    if "gaps" in rows[0]["selected"]:
        lines += ["", *gaps_table(rows)]
    return "\n".join(
        [*lines, "", f"{in_common(rows)} Each seed: [CSV](../results/{name}/seeds.csv)."]
    )


def in_common(rows: list[Row]) -> str:
    """What would be a column with the same in every row."""
    said = [f"{rows[0]['split'].capitalize()} split"]
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


def scores_table(rows: list[Row], about: dict[str, Any]) -> list[str]:
    """Columns that differ between rows only; `average` is plain or adjusted, as the study says."""
    average = about.get("average", "average")
    columns: list[tuple[str, Callable[[Row], str]]] = [("method", lambda row: row["method"])]
    for number, name in enumerate(("training used", "selection used")):
        if len({labels_used(row)[number] for row in rows}) > 1:
            columns.append((name, lambda row, n=number: labels_used(row)[n]))
    columns += [
        ("worst group", lambda row: cell(row["selected"]["worst_group"])),
        (average.replace("_", " "), lambda row: cell(_at(row["selected"], average))),
    ]
    if any(row["selection"] != "last" for row in rows):
        columns.append(("last epoch: worst group", lambda row: cell(row["last"]["worst_group"])))
    if any(row.get("paper_rule") for row in rows):
        columns.append(("by its own rule", by_paper_rule))
    if any(row.get("spare_minus_this") for row in rows):
        columns.append(("SPARE minus this (95 % interval)", spare_minus))
    if len({tuple(row["seeds"]) for row in rows}) > 1:
        columns.append(("seeds", lambda row: seeds_text(row["seeds"])))
    if len(rows) > 1 and any(row.get("cost") for row in rows):
        columns.append(("examples", lambda row: f"{row['cost']['examples']:.2f}"))
    if about.get("timed"):
        columns.append(("time", lambda row: f"{row['cost']['seconds']:.2f}"))
    if about.get("paper"):
        published = PAPER[about["paper"]]
        columns.append(
            (
                "paper",
                lambda row: (
                    paper(row["method"], about["paper"]) if row["method"] in published else "-"
                ),
            )
        )
    heads = [head for head, _ in columns]
    return as_table([heads, *([make(row) for _, make in columns] for row in rows)])


def spare_minus(row: Row) -> str:
    against = row.get("spare_minus_this")
    return difference(against["selected"]["worst_group"]) if against else ""


def by_paper_rule(row: Row) -> str:
    """Scores by the rule of the method's paper, where that is not the run's."""
    if "paper_rule" not in row:
        return ""
    return f"{cell(row['paper_rule']['worst_group'])} ({row['paper_rule_name']})"


def gaps_table(rows: list[Row]) -> list[str]:
    names = list(rows[0]["selected"]["gaps"])
    lines = [["method", "ID accuracy", *(f"{name} gap" for name in names), "worst pattern"]]
    for row in rows:
        scores = row["selected"]
        cells = [row["method"], cell(scores["id_accuracy"])]
        cells += [cell(scores["gaps"][name]) for name in names]
        lines.append([*cells, cell(scores["worst_pattern"])])
    return as_table(lines)


def tuning() -> str:
    """What benchmarks/tune.py found, one file per method; the chosen setting in bold."""
    lines = [["method", "settings tried: worst group on validation"]]
    files = {path.stem: path for path in (RESULTS / "tuning").glob("*.json")}
    for method in sorted(files, key=position):
        tried = []
        for row in read_json(files[method])["rows"]:
            setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
            mark = "**" if row.get("chosen") else ""
            tried.append(f"{mark}{setting}: {100 * row['worst_group']:.1f}{mark}")
        lines.append([method, "; ".join(tried)])
    return "\n".join(as_table(lines))


def verdicts() -> str:
    """What benchmarks/verdict.py found, by the kind of data."""
    words = (FOUND, WEAK, NONE)
    lines = [["data", "runs", *words, *(f"left out: {word}" for word in words)]]
    for row in measured("verdict/verdict.json")["summary"]:
        if row["what"].startswith("all, "):
            counts = [str(row[name][word]) for name in ("in use", "left out") for word in words]
            lines.append([row["what"].removeprefix("all, "), str(row["runs"]), *counts])
    return "\n".join(as_table(lines))


def short_table() -> list[str]:
    """The README's table: no group label anywhere."""
    lines = [["method", "worst group", "average", "seeds", "examples, of plain training's"]]
    for row in rows_of("cmnist-no-labels"):
        lines.append(
            [
                f"`{row['method']}`: {title(row['method'])}",
                cell(row["last"]["worst_group"]),
                cell(row["last"]["average"]),
                seeds_text(row["seeds"]),
                f"{row['cost']['examples']:.2f}",
            ]
        )
    return as_table(lines)


def title(method: str) -> str:
    """What a method is called in full; of a pair, what its halves are called."""
    if method in METHODS:
        return METHODS[method].title.split(":")[0]
    inference, _, trainer = method.partition("+")
    return f"groups as in {inference}, training as in {trainer}"


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


def seeds_csv(study: str) -> str:
    """One line per run of a study: its scores, and what it found."""
    lines = [
        {
            "method": run["method"],
            "seed": run["seed"],
            "training_used": labels_used(run).training,
            "selection_used": labels_used(run).selection,
            "split": (split := "test" if "test" in run["scores"] else "val"),
            "epoch": run["selected_epoch"],
            **_of_scores(run["scores"][split]["selected"]),
            "last_worst_group": f"{100 * run['scores'][split]['last']['worst_group']:.2f}",
            **_of_groups(run),
            "examples_seen": run["examples_seen"],
            "seconds": f"{run['seconds']['total']:.0f}",
            "commit": (run.get("code") or {}).get("commit", ""),
        }
        for run in runs_of(study)
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _of_scores(scores: Any) -> dict[str, Any]:
    low, high = scores["worst_group_interval"]
    return {
        "worst_group": f"{100 * scores['worst_group']:.2f}",
        "low": f"{100 * low:.2f}",
        "high": f"{100 * high:.2f}",
        "which": scores["worst_group_name"],
        "examples": scores["worst_group_size"],
        "average": f"{100 * scores['average']:.2f}",
        "adjusted_average": f"{100 * scores['adjusted_average']:.2f}",
    }


def _of_groups(run: RunRecord) -> dict[str, Any]:
    """When groups were separated, and how many of the minorities they hold."""
    found: Iterable[Any] = (run["discovery"] or {}).values() if run["sees"] != "train" else ()
    smallest = {
        what: min((groups[what] or 0.0 for groups in found), default=None)
        for what in ("recall", "precision")
    }
    return {
        "separated_after": run["notes"].get("separated_at") or "",
        "early_epochs": run["notes"].get("early_epochs") or "",
        **{key: "" if value is None else f"{value:.3f}" for key, value in smallest.items()},
    }


# --- files ---------------------------------------------------------------------------------------


def page() -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.globals |= {
        function.__name__: function
        for function in (
            study,
            score,
            minus,
            of_seeds,
            recovery,
            paper,
            tuning,
            verdicts,
            measured,
            measured_cost,
        )
    } | {"min": min, "max": max, "median": median, "made": MADE}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render()


def files() -> dict[Path, str]:
    """Everything that is made here, by its path."""
    readme = README.read_text(encoding="utf-8")
    short = "\n".join([r"\g<begin>", "", *short_table(), "", END])
    studies = sorted(path.parent for path in RESULTS.glob("*/about.json"))
    text = page()
    forgotten = [study.name for study in studies if f"results/{study.name}/" not in text]
    if forgotten:
        sys.exit(f"{TEMPLATE.name} shows nothing of {', '.join(forgotten)}")
    return {
        ROOT / "docs" / "results.md": text,
        README: SHORT.sub(short, readme),
        **{study / "seeds.csv": seeds_csv(study.name) for study in studies},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--add", nargs=2, metavar=("STUDY", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.add:
        add_runs(RESULTS / arguments.add[0], Path(arguments.add[1]))
    made = files()
    if arguments.check:
        stale = [p for p, text in made.items() if not p.exists() or p.read_text() != text]
        sys.exit("not what results/ gives: " + ", ".join(map(str, stale)) if stale else 0)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
