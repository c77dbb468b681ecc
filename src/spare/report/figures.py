"""The paper's figures, each from one command and one folder, as a PNG or SVG file.

samples     some pictures of every group of a data set: a row a class
outputs     what the early model says of a class, in two components, coloured by true group
recovery    minorities taken for majority, and majorities taken for minority, by method
attributes  Cramér's V of each attribute with the clusters
saliency    the same pictures as two or more runs look at them
clusters    size and accuracy of every cluster of every class
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spare.data.task import Split, Task
from spare.data.viewing import pictures
from spare.datasets import locate
from spare.errors import InputError, unknown
from spare.files import write_atomic
from spare.findings.describe import read_examples
from spare.methods import method_named
from spare.report import read_record
from spare.report.charts import shortened
from spare.report.comparison import names, read_runs
from spare.report.saliency_panels import looking_at_groups
from spare.report.table import TABLE, recovery, runs_of
from spare.report.write import Say, planned_again, side_by_side
from spare.runs.plan import plan
from spare.training.stages import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Told apart by people who see colours differently, in this order.
COLOURS = ("#4269b8", "#c2410c", "#0f766e", "#86198f", "#a16207", "#be123c", "#475569", "#65a30d")
KINDS = (".png", ".svg")
SAMPLES = 4
MOST_GROUPS = 6
MOST_POINTS = 4000


@dataclass(frozen=True)
class Asked:
    """What a figure is made of."""

    of: tuple[str, ...]
    class_name: str
    data: Path | None
    layer: str
    trust: bool
    overrides: Mapping[str, str]
    report: Report
    say: Say

    @property
    def folder(self) -> Path:
        if len(self.of) != 1:
            raise InputError("this figure is made of one folder.")
        return Path(self.of[0])


def draw(
    what: str,
    of: Sequence[str],
    out: Path,
    *,
    class_name: str = "",
    data: Path | None = None,
    layer: str = "",
    trust: bool = False,
    overrides: Mapping[str, str] | None = None,
    report: Report = lambda what, done, total: None,
    say: Say = lambda line: None,
) -> Path:
    """Draw one figure of a task, of a run's or discovery's folder, or of several, into `out`."""
    if what not in FIGURES:
        raise unknown("figure", what, FIGURES)
    if out.suffix.lower() not in KINDS:
        raise InputError(f"a figure is written as {' or '.join(KINDS)}, not {out.name!r}.")
    if not of:
        raise InputError(f"name what {what!r} is to be drawn of.")
    asked = Asked(tuple(of), class_name, data, layer, trust, overrides or {}, report, say)
    figure = FIGURES[what](asked)

    def save(temporary: Path) -> None:
        import matplotlib

        # Text stays text, which can be searched and read aloud.
        with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in another script
            figure.savefig(
                temporary, format=out.suffix[1:].lower(), dpi=150, bbox_inches="tight",
                metadata={"Date": None} if out.suffix.lower() == ".svg" else None,
            )  # fmt: skip

    write_atomic(out, save)
    return out


def samples(asked: Asked) -> Figure:
    """Some pictures of every group: a row a class, its largest group first."""
    if len(asked.of) != 1:
        raise InputError("samples are drawn of one task, or of the path of one's own data.")
    source = locate(asked.of[0], asked.data, asked.overrides)
    task = plan(source, method_named("erm"), asked.overrides).load_task(0, asked.report)
    split = task.train
    if pictures(split.inputs, np.arange(1)) is None:
        raise InputError(f"{task.name} has no pictures.")
    rng = np.random.default_rng(0)
    cells = [_groups_of(task, split, label) for label in range(len(task.class_names))]
    figure = _figure(1.1 * SAMPLES * max(map(len, cells)), 1.25 * len(cells))
    grids = figure.subplots(len(cells), max(map(len, cells)), squeeze=False)
    for row, groups in zip(grids, cells, strict=True):
        for axes in row:
            axes.set_axis_off()
        for axes, (name, rows) in zip(row, groups, strict=False):
            shown = pictures(split.inputs, np.sort(rng.permutation(rows)[:SAMPLES]))
            assert shown is not None
            axes.imshow(np.concatenate(list(shown.permute(0, 2, 3, 1).numpy()), axis=1))
            axes.set_title(f"{_text(name)} ({len(rows):,})", fontsize=7)
    return figure


def _groups_of(task: Task, split: Split, label: int) -> list[tuple[str, np.ndarray]]:
    """The groups of a class from the largest down, with their rows; without attributes, itself."""
    own = np.flatnonzero(np.asarray(split.labels) == label)
    if not split.attributes:
        return [(task.class_names[label], own)]
    ids = task.groups(split)[own]
    found = [(task.group_names[group], own[ids == group]) for group in np.unique(ids)]
    return sorted(found, key=lambda one: -len(one[1]))[:MOST_GROUPS]


def outputs(asked: Asked) -> Figure:
    """What the early model says of one class, coloured by true group; by cluster where there are no
    true ones."""
    record = read_record(asked.folder)
    examples = read_examples(asked.folder, record["discovery"])
    if examples is None or examples.points is None:
        raise InputError(f"{asked.folder} has no outputs of an early model to draw.")
    points = examples.points
    names_ = list(record["discovery"])
    chosen = asked.class_name or names_[0]
    if chosen not in names_:
        raise unknown("class", chosen, names_)
    own = np.flatnonzero(examples.labels == chosen)
    codes = examples.ids[own] - examples.ids[own].min()
    called = [f"cluster {place + 1}" for place in range(int(codes.max()) + 1)]
    task = planned_again(record, asked.data, asked.trust).load_task(record["seed"], asked.report)
    if task.train.attributes:
        groups = task.groups(task.train)[own]
        present = sorted(np.unique(groups), key=lambda group: -int((groups == group).sum()))
        codes = np.array([present.index(group) for group in groups])
        called = [task.group_names[group] for group in present]
    rng = np.random.default_rng(0)
    second = "second component"
    if np.ptp(points[own, 1]) < 1e-6:  # two classes have one component
        points[own, 1] = rng.random(len(own))
        second = "(spread at random)"
    figure = _figure(6, 4.5)
    axes = figure.subplots()
    for place, name in enumerate(called):
        rows = own[codes == place]
        rows = rng.permutation(rows)[:MOST_POINTS]
        axes.scatter(
            points[rows, 0],
            points[rows, 1],
            s=9,
            color=COLOURS[place % len(COLOURS)],
            alpha=0.7,
            linewidths=0,
            label=f"{_text(name)} ({int((codes == place).sum()):,})",
        )
    axes.set_xlabel("first component of the logits")
    axes.set_ylabel(second)
    silhouette = record["discovery"][chosen]["silhouette"]
    said = "" if silhouette is None else f", silhouette of the clusters {silhouette:.3f}"
    axes.set_title(f"class {_text(chosen)}{said}", fontsize=10)
    axes.legend(fontsize=7, frameon=False, markerscale=2)
    return figure


def recovered(asked: Asked) -> Figure:
    """By method: minorities taken for majority, and majorities taken for minority."""
    if not (asked.folder / TABLE).is_file():
        raise InputError(f"{asked.folder} is no bench: name a folder that 'spare bench' wrote.")
    runs = runs_of(asked.folder)
    by_seed = {
        method: [found for run in own for found in recovery({method: [run]})]
        for method, own in runs.items()
    }
    by_seed = {method: own for method, own in by_seed.items() if own}
    if not by_seed:
        raise InputError(
            f"no run in {asked.folder} inferred groups of data whose true groups are known."
        )
    figure = _figure(8, 0.6 + 0.35 * len(by_seed))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, key, says in (
        (left, "missed", "minority examples taken for majority"),
        (right, "wrongly", "majority examples taken for minority"),
    ):
        means = [np.mean([one[key] for one in own]) for own in by_seed.values()]
        axes.barh(list(map(_text, by_seed)), means, color=COLOURS[0], alpha=0.8)
        for place, own in enumerate(by_seed.values()):
            axes.plot([one[key] for one in own], [place] * len(own), "k.", markersize=4)
        axes.set_xlabel(f"{says} (a dot a seed)", fontsize=8)
        axes.tick_params(labelsize=8)
    left.invert_yaxis()
    return figure


def attributes(asked: Asked) -> Figure:
    """Cramér's V of each attribute with the clusters, the strongest first."""
    found = read_record(asked.folder).get("associations")
    if not found:
        raise InputError(
            f"{asked.folder} knows no attributes: name a discovery of pictures, or of data with "
            f"--attributes."
        )
    shown = found[:40]
    figure = _figure(6, 0.6 + 0.24 * len(shown))
    axes = figure.subplots()
    values = np.array([one["v"] for one in shown])
    low, high = np.array([one["interval"] for one in shown]).T
    axes.barh(
        [_text(one["attribute"]) for one in shown], values, color=COLOURS[0],
        xerr=[np.maximum(values - low, 0), np.maximum(high - values, 0)],
        error_kw={"elinewidth": 1},
    )  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("Cramér's V with the clusters, within classes (95 % interval)", fontsize=8)
    axes.tick_params(labelsize=8)
    return figure


def saliency(asked: Asked) -> Figure:
    """Pictures of the groups that the runs are worst at, and where each run looks in them."""
    folders = [Path(folder) for folder in asked.of]
    records = read_runs(folders)
    runs = list(zip(names(records), folders, records, strict=True))
    pictured = side_by_side(runs, asked.data, asked.layer, asked.trust, asked.report, asked.say)
    shown = None if pictured is None else looking_at_groups(records, pictured)
    if shown is None or not shown["kinds"]:
        why = (shown or {}).get("problem", "there are no pictures")
        raise InputError(f"where these runs look cannot be shown: {why}")
    assert pictured is not None
    kinds = [kind for kind in shown["kinds"] if kind["examples"]][:MOST_GROUPS]
    columns = 1 + len(pictured.networks)
    figure = _figure(1.5 * columns, 1.75 * len(kinds))
    grid = figure.subplots(len(kinds), columns, squeeze=False)
    for row, kind in zip(grid, kinds, strict=True):
        one = kind["examples"][0]
        for place, (axes, cell) in enumerate(zip(row, one["cells"], strict=True)):
            axes.set_axis_off()
            axes.imshow(shown["tiles"][cell["tile"]].permute(1, 2, 0).numpy())
            says = kind["title"]
            if place:
                name = shown["names"][place - 1]
                says = f"{name}: {cell['says']} {100 * cell['sure']:.0f} %"
            axes.set_title(_text(says), fontsize=7)
    return figure


def clusters(asked: Asked) -> Figure:
    """Size and accuracy of every cluster, a block a class: the first of a class is its largest."""
    found = read_record(asked.folder).get("discovery") or {}
    shown = {name: seen["clusters"] for name, seen in found.items() if seen.get("clusters")}
    if not shown:
        raise InputError(f"{asked.folder} has no clusters that an early model was looked at for.")
    rows = [
        (f"{name}, cluster {place}", cluster, place)
        for name, own in shown.items()
        for place, cluster in enumerate(own, start=1)
        if cluster["size"]
    ]
    figure = _figure(8, 0.7 + 0.24 * len(rows))
    left, right = figure.subplots(1, 2, sharey=True)
    labels = [_text(name) for name, _, _ in rows]
    colours = [COLOURS[(place - 1) % len(COLOURS)] for _, _, place in rows]
    for axes, key, says in (
        (left, "accuracy", "right by the early model, %"),
        (right, "size", "examples (logarithmic)"),
    ):
        scale = 100 if key == "accuracy" else 1
        values = [scale * cluster[key] for _, cluster, _ in rows]
        bars = axes.barh(labels, values, color=colours)
        text = [f"{value:.0f}" if key == "accuracy" else f"{value:,}" for value in values]
        axes.bar_label(bars, text, fontsize=7, padding=2)
        axes.set_xlabel(says, fontsize=8)
        axes.tick_params(labelsize=7)
    left.set_xlim(0, 112)
    right.set_xscale("log")
    right.set_xlim(0.7, 3 * max(cluster["size"] for _, cluster, _ in rows))
    left.invert_yaxis()
    return figure


FIGURES: dict[str, Callable[[Asked], Figure]] = {
    "samples": samples,
    "outputs": outputs,
    "recovery": recovered,
    "attributes": attributes,
    "saliency": saliency,
    "clusters": clusters,
}


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _text(name: str) -> str:
    """A name as it is: a dollar sign begins no formula."""
    return shortened(name, 40).replace("$", r"\$")
