"""Write the tables of docs/results.md from results/.

    python docs/make_results.py          rewrites the page
    python docs/make_results.py --check  exits with 1 if the page is not what results/ gives

Everything between the two marks is made here; the rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spare.bench import find_runs, table
from spare.files import read_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- tables: made by docs/make_results.py -->", "<!-- end of tables -->"

#: Worst group / average of the paper's main table, in per cent.
PAPER = {"erm": (0.0, 20.1), "cb": (0.0, 23.7), "gb": (82.2, 91.7), "spare": (83.0, 91.8)}


def cell(score: dict) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['sd']:.1f}"


def bench_section(folder: Path) -> list[str]:
    about = read_json(folder / "about.json")
    runs = [read_json(path) for path in find_runs(folder)]
    summary = table(runs)
    lines = [f"### {about['title']}", "", about["says"], ""]
    command = read_json(folder / "table.json")["command"]
    lines += ["```console", f"$ {command}", "```", ""]
    lines += [
        "| method | group labels it sees | worst group | average | last epoch: worst group | "
        "average | seeds | selection rule | paper |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = list(PAPER)
    for row in sorted(summary["rows"], key=lambda row: order.index(row["method"])):
        selected, last = row["selected"], row["last"]
        paper = PAPER[row["method"]] if about.get("compare") else None
        cells = [
            row["method"],
            row["sees"],
            cell(selected["worst_group"]),
            cell(selected["average"]),
            cell(last["worst_group"]),
            cell(last["average"]),
            ", ".join(map(str, row["seeds"])),
            row["selection"],
            f"{paper[0]} / {paper[1]}" if paper else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Each seed (worst group / average at the selected epoch, which epoch):", ""]
    for run in sorted(runs, key=lambda run: (order.index(run["method"]), run["seed"])):
        scores = run["scores"]["test"]["selected"]
        low, high = scores["worst_group_interval"]
        line = (
            f"- {run['method']} seed {run['seed']}: {100 * scores['worst_group']:.1f} "
            f"({100 * low:.1f} to {100 * high:.1f}, {scores['worst_group_size']} examples of "
            f"{scores['worst_group_name']}) / {100 * scores['average']:.1f}, epoch "
            f"{run['selected_epoch']}"
        )
        if run["discovery"]:
            classes = run["discovery"].values()
            silhouettes = ", ".join(f"{seen['silhouette']:.3f}" for seen in classes)
            line += (
                f"; separated after epoch {run['notes']['separated_at']}, silhouettes "
                f"{silhouettes}, smallest minority recall "
                f"{min(c['recall'] for c in classes):.2f}, precision "
                f"{min(c['precision'] for c in classes):.2f}"
            )
        lines.append(line)
    return [*lines, ""]


def page() -> str:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    sections = []
    for about in sorted((ROOT / "results").glob("*/about.json")):
        sections += bench_section(about.parent)
    return before + "\n".join([BEGIN, "", *sections]) + END + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        sys.exit(made != PAGE.read_text())
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
