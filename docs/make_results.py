"""Write the pages that have a template, README's table and every study's CSV from results/.

    python docs/make_results.py          rewrites them
    python docs/make_results.py --check  exits with 1 if one of them is not what results/ gives
    python docs/make_results.py --add STUDY FOLDER
                                         first takes the finished runs of a bench into results/STUDY

A template is docs/NAME.md.j2: sentences by hand, and every number by an expression that takes it
from a record (docs/result_tables.py, docs/measured_tables.py).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import jinja2
import measured_tables
import result_tables
from result_tables import RESULTS, ROOT, position, runs_of, short_table

from spare.files.reading import read_json
from spare.records.labels import labels_used
from spare.records.record import RunRecord

TEMPLATES = sorted((ROOT / "docs").glob("*.md.j2"))
README = ROOT / "README.md"
END = "<!-- end of tables -->"
SHORT = re.compile(rf"(?P<begin><!-- short table -->).*?{END}", re.DOTALL)
MADE = "<!-- Made by docs/make_results.py from docs/{} and results/: change those. -->"


# --- studies -------------------------------------------------------------------------------------


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


def page(template: Path) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.globals |= vars(result_tables) | vars(measured_tables)
    made = MADE.format(template.name)
    environment.globals |= {"min": min, "max": max, "median": median, "made": made}
    return environment.from_string(template.read_text(encoding="utf-8")).render()


def files() -> dict[Path, str]:
    """Everything that is made here, by its path."""
    readme = README.read_text(encoding="utf-8")
    short = "\n".join([r"\g<begin>", "", *short_table(), "", END])
    studies = sorted(path.parent for path in RESULTS.glob("*/about.json"))
    pages = {template.with_suffix(""): page(template) for template in TEMPLATES}
    text = "".join(pages.values())
    forgotten = [study.name for study in studies if f"results/{study.name}/" not in text]
    if forgotten:
        sys.exit(f"no page shows anything of {', '.join(forgotten)}")
    return {
        **pages,
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
