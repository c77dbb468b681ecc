"""Tables of what benchmarks measured besides scores: tuning, the verdict, recovery, animals.

Used by docs/make_results.py, as result_tables.py is; each number is from a file under results/.
"""

from __future__ import annotations

from collections import Counter
from statistics import mean
from typing import Any

from result_tables import RESULTS, as_table, cell, measured, position, seeds_text

from spare.files.reading import read_json
from spare.findings.verdict import FOUND, NONE, WEAK
from spare.runs.table import mean_and_spread


def tuning(folder: str = "tuning") -> str:
    """What benchmarks/tune.py found, one file per method; the chosen setting in bold."""
    lines = [["method", "settings tried: worst group on validation"]]
    files = {path.stem: path for path in (RESULTS / folder).glob("*.json")}
    for method in sorted(files, key=position):
        tried = []
        for row in read_json(files[method])["rows"]:
            setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
            mark = "**" if row.get("chosen") else ""
            found = "diverges" if "failed" in row else f"{100 * row['worst_group']:.1f}"
            if "score" in row:
                found = f"{100 * row['score']:.1f} ({found})"
            tried.append(f"{mark}{setting}: {found}{mark}")
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


def harms(name: str) -> str:
    """What benchmarks/harm.py found: one line per kind, means over seeds, and the worst seed."""
    rows = measured(f"harm/{name}.json")["rows"]
    methods = list(rows[0]["worst_group"])
    ours = [method for method in methods if method in ("spare", "bridge")]
    heads = [f"{method} minus erm, worst seed" for method in ours]
    lines = [["planted", "seeds", *methods, *heads, "verdicts"]]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        scores = [row["worst_group"] for row in of_kind]
        means = [f"{100 * mean(each[method] for each in scores):.1f}" for method in methods]
        least = [f"{100 * min(s[method] - s['erm'] for s in scores):+.1f}" for method in ours]
        said = Counter(row["found"]["verdict"] for row in of_kind)
        words = ", ".join(f"{word} {said[word]}" for word in (FOUND, WEAK, NONE) if said[word])
        lines.append([kind, seeds_text([row["seed"] for row in of_kind]), *means, *least, words])
    return "\n".join(as_table(lines))


def recovered(data: str, inference: str, epoch: int) -> str:
    """Share of the minorities missed / of the majorities taken for minority, mean over seeds."""
    rows = measured(f"recovery/{data}.json")["rows"]
    found = [row for row in rows if (row["inference"], row["epoch"]) == (inference, epoch)]
    missed = mean(row["minority_missed"] / row["minority"] for row in found)
    taken = mean(row["majority_taken"] / row["majority"] for row in found)
    return f"{100 * missed:.0f} / {100 * taken:.0f}"


def cramers_v(inference: str, attribute: str, kind: str = "over_all") -> str:
    """Of an attribute of CelebA with what is inferred after one epoch, mean over seeds."""
    wanted = (inference, attribute, 1)
    rows = measured("recovery/celeba.json")["attributes"]
    found = [row for row in rows if (row["inference"], row["attribute"], row["epoch"]) == wanted]
    return f"{mean(row[kind] for row in found):.2f}"


def natural() -> str:
    """What benchmarks/natural.py discovered: what of a class is taken for which other class."""
    files = sorted((RESULTS / "natural").glob("discover-*.json"))
    made = [read_json(file) for file in files]
    seeds = sorted({row["seed"] for each in made for row in each["rows"]})
    lines = [["network", "class", *(f"seed {seed}" for seed in seeds)]]
    for each in made:
        tried = {row["seed"] for row in each["rows"]}
        for name in dict.fromkeys(row["class"] for row in each["rows"] if row["taken_for"]):
            cells = {seed: "-" if seed in tried else "not run" for seed in seeds}
            for row in each["rows"]:
                if row["class"] == name and row["taken_for"]:
                    cells[row["seed"]] = (
                        f"{row['size']} of {row['of']:,}: {row['taken_for']} "
                        f"({100 * row['share']:.0f} %)"
                    )
            lines.append([each["model"], name, *cells.values()])
    return "\n".join(as_table(lines))


def natural_parts(columns: list[tuple[str, int]], network: str = "conv4") -> str:
    """What benchmarks/natural.py found in the two parts of every class, by inference and epoch."""
    rows = measured(f"natural/epochs-{network}.json")["rows"]
    lines = [["class", *(f"{inference}, epoch {epoch}" for inference, epoch in columns)]]
    for name in dict.fromkeys(row["class"] for row in rows):
        cells = []
        for column in columns:
            wanted = [r for r in rows if (r["inference"], r["epoch"]) == column]
            seeds = [row for row in wanted if row["class"] == name]
            # Clusters have no names: the part that is right more often comes first.
            parts = [
                sorted(zip(row["right"], row["sizes"], strict=True), reverse=True) for row in seeds
            ]
            means = [[mean(part[i][what] for part in parts) for i in (0, 1)] for what in (0, 1)]
            shares = [f"{100 * share:.0f}" for share in means[0]]
            sizes = [f"{size:,.0f}" for size in means[1]]
            cells.append(f"{' / '.join(shares)} ({' / '.join(sizes)})")
        lines.append([name, *cells])
    return "\n".join(as_table(lines))


def natural_training(network: str = "conv4") -> str:
    """What benchmarks/natural.py measured after training: accuracy on clusters, by method."""
    files = sorted((RESULTS / "natural").glob(f"train-{network}*.json"))
    rows = [row for file in files for row in read_json(file)["rows"]]
    shown = ("frog", "insect")
    heads = [f"worst part of {name}" for name in shown]
    lines = [["method", "average", "worst part", *heads, "gap within a class"]]
    for method in sorted({row["method"] for row in rows}, key=position):
        of_method = [row for row in rows if row["method"] == method]
        parts = [parts_by_class(row) for row in of_method]
        columns = [
            [row["average"] for row in of_method],
            [min(min(accuracies) for accuracies in part.values()) for part in parts],
            *([min(part[name]) for part in parts] for name in shown),
            [mean(max(of) - min(of) for of in part.values() if len(of) > 1) for part in parts],
        ]
        lines.append([method, *(cell(mean_and_spread(column)) for column in columns)])
    return "\n".join(as_table(lines))


def parts_by_class(row: dict[str, Any]) -> dict[str, list[float]]:
    """Accuracy on every part of every class."""
    found: dict[str, list[float]] = {}
    for name, group in row["groups"].items():
        found.setdefault(name.split("/")[0], []).append(group["accuracy"])
    return found
