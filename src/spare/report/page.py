"""The page: what a run folder holds, put in the order in which people ask.

    write_report(folder, Pictured(task, networks))     report.html beside the record

Numbers come from the record and from groups.parquet; the task is only for the pictures, and the
networks for where they look in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from spare.data.task import Task
from spare.errors import InputError
from spare.files import read_json, write_text
from spare.findings.describe import Examples, read_examples
from spare.findings.verdict import BOUNDS
from spare.records.folder import FORMAT
from spare.report import charts
from spare.report.saliency_panels import MOST_KINDS, Pictured, looking, looking_at_groups
from spare.report.saliency_panels import SHOWN as LOOKED_AT
from spare.report.thumbnails import SIDE, sprite

REPORT = "report.html"
RECORDS = ("discovery.json", "run.json")
#: Classes that are shown with pictures; the table has all.
MOST_CLASSES = 12
#: Points of a class that are drawn, and at most so many of one of its small clusters.
MOST_POINTS = 400
MOST_OF_SMALL = 120
#: Pictures of a cluster, of each kind.
SHOWN = 8
#: Attributes in the chart and in the table by class.
MOST_ATTRIBUTES = 20
#: Attributes by which a cluster is named, and how much more of their value it has than its class.
MOST_NAMES = 3
CLEARLY_MORE = 0.2


UNSEEN = {"accuracy": None, "confidence": None, "mistaken_for": None, "mistaken_share": 0.0}


def write_report(
    folder: Path, pictured: Pictured | None = None, record: Mapping[str, Any] | None = None
) -> Path:
    """Make the report of a discovery or a run.

    record  what the folder will hold as its record, where that is not written yet
    """
    record = record or read_record(folder)
    examples = read_examples(folder, record["discovery"])
    write_text(folder / REPORT, render(record, examples, pictured))
    return folder / REPORT


def page_environment() -> Environment:
    """Templates, with a page's style and script; whatever is filled in is escaped."""
    environment = Environment(
        loader=PackageLoader("spare.report", "."), autoescape=True, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["percent"] = lambda value: "–" if value is None else f"{100 * value:.1f}"
    environment.filters["short"] = charts.shortened
    environment.globals.update(style=_file("style.css"), script=_file("script.js"))
    return environment


def render(record: Mapping[str, Any], examples: Examples | None, pictured: Pictured | None) -> str:
    task = None if pictured is None else pictured.task
    classes = [] if examples is None else _classes(record, examples, task)
    shown = [one for one in classes if one["panel"] is not None]
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            record=record,
            title=charts.shortened(title(record)),
            classes=classes,
            shown=shown,
            findings=_findings(classes),
            mistakes=_mistakes(record, examples),
            attributes=_attributes(record),
            scores=_scores(record),
            clear={name: clear for name, (_, clear) in BOUNDS.items()},
            command=record["command"],
            side=SIDE,
            data=_json({one["number"]: one["panel"]["examples"] for one in shown}),
            missing=sum(one["panel"]["missing"] for one in shown),
            looking=None if pictured is None else _looking(record, shown, pictured),
        )
    )


def read_record(folder: Path) -> dict[str, Any]:
    """What a run or a discovery wrote down."""
    for name in RECORDS:
        if (folder / name).is_file():
            record: dict[str, Any] = read_json(folder / name)
            if record.get("format", 0) > FORMAT:
                raise InputError(
                    f"{folder} was written by a newer version of spare-ml: upgrade to read it."
                )
            return record
    raise InputError(
        f"{folder} holds neither a run nor a discovery: name a folder that 'spare train' or "
        f"'spare discover' wrote."
    )


def _classes(
    record: Mapping[str, Any], examples: Examples, task: Task | None
) -> list[dict[str, Any]]:
    """Every class, the one with the surest mistakes first; the first few with a panel."""
    found = []
    group = 0
    for number, (name, seen) in enumerate(record["discovery"].items()):
        groups = range(group, group + len(seen["sizes"]))
        group += len(seen["sizes"])
        # Of groups that no early model was looked at for, only their sizes are known.
        clusters = seen.get("clusters") or [UNSEEN | {"size": size} for size in seen["sizes"]]
        found.append(
            {
                "number": number,
                "name": name,
                "seen": seen,
                "clusters": clusters,
                "groups": groups,
                "worst": _worst(clusters),
                "panel": None,
            }
        )
    found.sort(key=lambda one: -(one["worst"] or {"weight": 0})["weight"])
    for one in found[:MOST_CLASSES]:
        one["panel"] = _panel(one, examples, task)
        one["has_more"] = _has_more(record, one["groups"])
    return found


def _has_more(record: Mapping[str, Any], groups: Sequence[int]) -> list[list[dict[str, Any]]]:
    """For each cluster, what it has clearly more of than its class: its name, so to say."""
    found = []
    for group in groups:
        own = [
            {"attribute": one["attribute"], **of}
            for one in record.get("associations") or []
            if (of := one["clusters"].get(str(group))) is not None
            and of["share"] - of["class_share"] >= CLEARLY_MORE
        ]
        found.append(own[:MOST_NAMES])
    return found


def title(record: Mapping[str, Any]) -> str:
    """Of someone's own data the last part of its path."""
    return Path(record["task"]).name or str(record["task"])


def _worst(clusters: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The small cluster that is taken for another class most surely."""
    mistaken = [
        {**cluster, "place": place, "weight": cluster["mistaken_share"] * cluster["confidence"]}
        for place, cluster in enumerate(clusters, start=1)
        if place > 1 and cluster.get("mistaken_for") is not None
    ]
    return max(mistaken, key=lambda one: one["weight"], default=None)


def _panel(one: Mapping[str, Any], examples: Examples, task: Task | None) -> dict[str, Any]:
    """What is drawn of a class: its points, its curves, its pictures."""
    rng = np.random.default_rng([one["number"], 0x9A6E])
    places = {group: place for place, group in enumerate(one["groups"])}
    own = [np.flatnonzero(examples.ids == group) for group in one["groups"]]
    gallery = [_gallery(rows, examples, rng) for rows in own if len(rows)]
    drawn = _drawn(own, rng)
    rows = np.unique(np.concatenate([drawn, *(kind["rows"] for g in gallery for kind in g)]))
    number = {int(row): n for n, row in enumerate(rows)}
    sheet = None if task is None else sprite(task.train.inputs, rows)
    panel: dict[str, Any] = {
        "sprite": sheet,
        "missing": 0 if sheet is None else sheet.missing,
        "examples": [_example(int(row), examples, places) for row in rows],
        "gallery": [
            [{**kind, "numbers": [number[int(row)] for row in kind["rows"]]} for kind in cluster]
            for cluster in gallery
        ],
        "scatter": None,
        "by_group": None,
        "epochs": [],
    }
    if examples.points is not None:
        panel["scatter"] = charts.scatter(
            examples.points[drawn],
            np.array([places[int(group)] for group in examples.ids[drawn]]),
            [number[int(row)] for row in drawn],
            label=f"Outputs of class {charts.shortened(one['name'])}, a point an example",
            chart="scatter",
        )
        if task is not None and task.train.attributes:
            panel["by_group"] = _by_group(task, drawn, examples.points, number)
    by_epoch = one["seen"].get("by_epoch", [])
    if len(by_epoch) > 1:
        for what, says in (("accuracy", "right"), ("confidence", "mean confidence")):
            panel["epochs"].append(
                {
                    "what": says,
                    "chart": charts.lines(
                        [look["epoch"] for look in by_epoch],
                        list(zip(*(look[what] for look in by_epoch), strict=True)),
                        label=f"{says} by epoch, a line a cluster",
                        chart="lines",
                    ),
                }
            )
    return panel


def _by_group(
    task: Task, drawn: np.ndarray, points: np.ndarray, number: Mapping[int, int]
) -> dict[str, Any]:
    """The same points coloured by what is true of them, the largest group first."""
    ids = task.groups(task.train)[drawn]
    groups, counts = np.unique(ids, return_counts=True)
    ordered = groups[np.argsort(-counts, kind="stable")].tolist()
    return {
        "names": [task.group_names[group] for group in ordered],
        "chart": charts.scatter(
            points[drawn],
            np.array([ordered.index(group) for group in ids]),
            [number[int(row)] for row in drawn],
            label="The same outputs, coloured by true group",
            chart="scatter",
        ),
    }


def _looking(
    record: Mapping[str, Any], shown: Sequence[Mapping[str, Any]], pictured: Pictured
) -> dict[str, Any] | None:
    """Where the networks look: in typical examples of each cluster or, of a run without clusters,
    in some of the groups that it is worst at."""
    if not pictured.networks:
        return None
    task = pictured.task
    if not shown:
        return looking_at_groups([record], pictured)
    chosen: dict[str, np.ndarray] = {}
    for one in shown:
        for place, cluster in enumerate(one["panel"]["gallery"], start=1):
            rows = cluster[0]["rows"][:LOOKED_AT]
            chosen[f"{charts.shortened(one['name'], 40)}, cluster {place}"] = rows
    chosen = dict(list(chosen.items())[:MOST_KINDS])
    return looking(pictured, task.train, chosen, "Typical training examples of a cluster.")


def _drawn(own: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Rows to draw: of small clusters all or many, of the largest what is left."""
    small = [rng.permutation(rows)[:MOST_OF_SMALL] for rows in own[1:]]
    left = max(MOST_POINTS - sum(map(len, small)), 50)
    return np.sort(np.concatenate([rng.permutation(own[0])[:left], *small]))


def _gallery(
    rows: np.ndarray, examples: Examples, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Typical (near the cluster's middle), borderline (far from it) and random examples."""
    anyone = {"kind": "random", "rows": rng.permutation(rows)[:SHOWN]}
    if examples.points is None or len(rows) <= SHOWN:
        return [anyone]
    own = examples.points[rows]
    order = rows[np.argsort(((own - np.median(own, 0)) ** 2).sum(1), kind="stable")]
    return [
        {"kind": "typical", "rows": order[:SHOWN]},
        {"kind": "borderline", "rows": order[-SHOWN:]},
        anyone,
    ]


def _example(row: int, examples: Examples, places: Mapping[int, int]) -> dict[str, Any]:
    """What is shown of an example when it is pointed at."""
    says: dict[str, Any] = {"id": row, "cluster": places[int(examples.ids[row])] + 1}
    if examples.names is not None:
        says["name"] = charts.shortened(str(examples.names[row]), 80)
    if examples.predicted is not None and examples.confidence is not None:
        says["taken"] = charts.shortened(str(examples.predicted[row]), 40)
        says["sure"] = round(float(examples.confidence[row]), 3)
    return says


def _findings(classes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each class that has one: the cluster that is most surely taken for another class."""
    return [
        {"class": one["name"], "number": one["number"], "total": sum(one["seen"]["sizes"])}
        | one["worst"]
        for one in classes
        if one["worst"] is not None and one["worst"]["mistaken_share"] >= 0.5
    ]


def _mistakes(record: Mapping[str, Any], examples: Examples | None) -> dict[str, Any] | None:
    """How often each class is taken for each other, by the early model."""
    if examples is None or examples.predicted is None:
        return None
    names = list(record["discovery"])
    if len(names) > 30:
        return None
    place = {name: i for i, name in enumerate(names)}
    table = np.zeros((len(names), len(names)), dtype=int)
    rows = [place[name] for name in examples.labels]
    np.add.at(table, (rows, [place[name] for name in examples.predicted]), 1)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    return {"names": names, "table": table.tolist(), "shares": shares.tolist()}


def _attributes(record: Mapping[str, Any]) -> dict[str, Any] | None:
    found = record.get("associations") or []
    if not found:
        return None
    shown = found[:MOST_ATTRIBUTES]
    classes = list(shown[0]["classes"])
    return {
        "rows": shown,
        "more": len(found) - len(shown),
        "classes": classes if len(classes) <= 30 else [],
        "chart": charts.bars(
            [one["attribute"] for one in shown],
            [one["v"] for one in shown],
            intervals=[one["interval"] for one in shown],
            label="Cramér's V of each attribute with the clusters",
            chart="bars",
        ),
    }


def _scores(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Accuracy by group on each split, at the selected epoch."""
    found = []
    for split, scores in record.get("scores", {}).items():
        score = scores["selected"]
        found.append(
            {
                "split": split,
                "score": score,
                "before": scores.get("early"),
                "groups": [
                    {"name": name, **group, "before": _accuracy(scores.get("early"), name)}
                    for name, group in score["groups"].items()
                ],
            }
        )
    return found


def _accuracy(score: Mapping[str, Any] | None, group: str) -> float | None:
    return None if score is None else score["groups"].get(group, {}).get("accuracy")


def _json(value: Any) -> Markup:
    """Inside a script element nothing may look like its end."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _file(name: str) -> Markup:
    return Markup((resources.files("spare.report") / name).read_text(encoding="utf-8"))
