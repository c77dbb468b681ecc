"""When will a user's own data separate? From the outputs of the first epochs, and the theory.

A few epochs are trained as `spare discover` would, watched, and put beside a linear learner on the
same inputs: forecast.py says what follows from the two. No group label is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Task
from spare.groups.arrays import rows_by_class
from spare.groups.blocks import class_offsets, clusters_of
from spare.groups.clusters import infer_groups
from spare.limits import Range
from spare.progress import SILENT, Progress
from spare.report.figures.canvas import COLORS, canvas, plain_text
from spare.report.sections import Section
from spare.theory.axes import label
from spare.theory.early import Early, early_of, watch
from spare.theory.forecast import WITHIN, Forecast, forecast
from spare.theory.linear_clock import APART, LinearClock, clarity_of, linear_clock
from spare.theory.study import Row, Study
from spare.training.outputs import outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The linear learner gets at most so many examples, and images of at most so many pixels a side.
MOST_EXAMPLES, MOST_PIXELS = 1500, 32
EPOCHS = Range(1, 1000)

CLAIM = (
    "A feature is learned the sooner the larger it is, so a faint shortcut separates late. A "
    "linear learner on the same inputs says whether the classes fall apart at all, and how late; "
    "the network's first outputs say how fast it goes."
)


def predict(
    task: Any,
    *,
    seed: int = 0,
    data: Path | None = None,
    watched: int = 3,
    progress: Progress = SILENT,
    **settings: Any,
) -> Study:
    """Train for a few epochs as `spare discover` would, and predict when the classes separate.

    Parameters
    ----------
    task
        As in `spare.discover`.
    seed : int
    data : Path, optional
        Folder of data sets, for named tasks.
    watched : int
        Epochs to train.
    progress : Progress, optional
    **settings
        Whatever `spare discover` takes with `--set`.

    Returns
    -------
    Study

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 2
    >>> features = rng.normal(size=(300, 4)) + labels[:, None]
    >>> predict((features, labels), watched=1).facts["promised"]
    False
    """
    EPOCHS.check("watched", watched)
    early = early_of(task, seed, watched, data=data, overrides=settings, progress=progress)
    rows = _chosen(np.asarray(early.task.train.labels), seed)
    labels = np.asarray(early.task.train.labels)[rows]
    per_epoch = early.steps_per_epoch
    within = {max(1, round(share * per_epoch)) for share in WITHIN}
    at = sorted(within | {epoch * per_epoch for epoch in range(1, watched + 1)})
    split = early.task.train.subset(rows)
    looks: list[np.ndarray] = []

    def look(model: nn.Module, step: int) -> None:
        looks.append(outputs(model, split, early.settings).logits.numpy())

    watch(early, seed, at, look, progress)
    progress.report("inference", 0, 1)
    clock = linear_clock(_small(split.inputs.take(np.arange(len(split)))), labels, seed=seed)
    progress.report("inference", 1, 1)
    epochs = [step / per_epoch for step in at]
    told = forecast(clock, epochs, looks)
    clusters = _clusters(early.task, labels, epochs, looks, seed)
    clarity = [_clarity(each, labels, seed) for each in looks]
    budget = _budget(early)
    facts = {
        "promised": told.promised,
        "most_clarity_of_linear_learner": told.most_clarity,
        "linear_time": told.linear_time,
        "started_epoch": told.started,
        "predicted_epoch": told.epoch,
        "clarity_now": clarity[-1],
        "looks_until_epoch": budget,
    }
    return Study(
        name="predict",
        title=f"Prediction: when {early.plan.source.label} separates",
        claim=CLAIM,
        facts=facts,
        tables={
            "clusters": clusters,
            "linear-learner": [
                {"time": float(t), "clarity": float(c)}
                for t, c in zip(clock.times, clock.clarity, strict=True)
            ],
            "looks": [
                {"epoch": e, "clarity": c, "agreement": clock.agreement(each)}
                for e, c, each in zip(epochs, clarity, looks, strict=True)
            ],
        },
        sections=_sections(told, clusters, clarity[-1], watched, budget, early),
        settings={"task": early.task.name, "seed": seed, "watched": watched, **settings},
        plot=lambda: plot(clock, told, epochs, looks, labels, early.task),
    )


def _chosen(labels: np.ndarray, seed: int) -> np.ndarray:
    """At most so many examples, of every class the same share."""
    share = min(1.0, MOST_EXAMPLES / len(labels))
    rng = np.random.default_rng([seed, 0x9E])
    parts = [
        rng.permutation(rows)[: max(2, round(share * len(rows)))]
        for rows in rows_by_class(labels).values()
    ]
    return np.sort(np.concatenate(parts))


def _small(inputs: Tensor) -> np.ndarray:
    """Inputs as rows of numbers; images are averaged down."""
    if inputs.ndim == 4 and max(inputs.shape[-2:]) > MOST_PIXELS:
        inputs = torch.nn.functional.interpolate(
            inputs.float(), size=(MOST_PIXELS, MOST_PIXELS), mode="area"
        )
    return inputs.flatten(1).double().numpy()


def _matched(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray(logits + class_offsets(logits, labels))


def _clarity(logits: np.ndarray, labels: np.ndarray, seed: int) -> float:
    probabilities = torch.from_numpy(_matched(logits, labels)).softmax(1).numpy()
    return float(np.mean(clarity_of(probabilities, labels, seed=seed)))


def _clusters(
    task: Task,
    labels: np.ndarray,
    epochs: Sequence[float],
    looks: Sequence[np.ndarray],
    seed: int,
) -> list[Row]:
    """How fast every cluster of the last look is being learned: its margin, and that per epoch."""
    probabilities = torch.from_numpy(_matched(looks[-1], labels)).softmax(1).numpy()
    groups = infer_groups(probabilities, labels, seed=seed)
    margins = np.stack([_margins(_matched(each, labels), labels) for each in looks])
    late = np.array(epochs) >= epochs[-1] / 2
    rows = []
    for name, of_class in clusters_of(groups).items():
        members = rows_by_class(labels)[name]
        for code in range(int(of_class.codes.max()) + 1):
            inside = members[of_class.codes == code]
            means = margins[:, inside].mean(1)
            slope = np.polyfit(np.array(epochs)[late], means[late], 1)[0] if late.sum() > 1 else 0.0
            rows.append(
                {
                    "class": task.class_names[int(name)],
                    "cluster": code + 1,
                    "examples": len(inside),
                    "margin": float(means[-1]),
                    "margin per epoch": float(slope),
                    "spread": float(margins[-1, inside].std()),
                }
            )
    return rows


def _margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The label's logit above the largest other."""
    own = np.arange(len(labels)), labels
    others = logits.copy()
    others[own] = -np.inf
    return np.asarray(logits[own] - others.max(1))


def _budget(early: Early) -> int:
    """The last epoch after which `discover` would look."""
    looks: list[int] = early.plan.options.looks_after(
        early.steps_per_epoch, early.plan.settings.epochs
    )
    return looks[-1]


def _sections(
    told: Forecast,
    clusters: Sequence[Row],
    clarity: float,
    watched: int,
    budget: int,
    early: Early,
) -> list[Section]:
    return [
        Section(
            f"After {watched} epochs of {early.plan.source.label}",
            ["class", "cluster", "examples", "margin", "margin per epoch"],
            [
                [
                    row["class"],
                    row["cluster"],
                    row["examples"],
                    f"{row['margin']:.2f}",
                    f"{row['margin per epoch']:+.2f}",
                ]
                for row in clusters
            ],
            [
                "The margin is the logit of the label above the largest other; where it falls, the "
                "cluster is being learned as another class.",
                f"The classes have a clarity of {clarity:.2f} now ({APART:g} is apart).",
                *_advice(told, watched, budget, early),
            ],
        )
    ]


def _advice(told: Forecast, watched: int, budget: int, early: Early) -> list[str]:
    """What the prediction means for `discover`."""
    if not told.promised:
        return [
            "NOT PROMISED: a linear learner on these inputs does not separate the classes at any "
            f"time (its clarity is at most {told.most_clarity:.2f}), so the theory promises "
            "nothing: there may be no shortcut, or one that is not a linear feature of the inputs."
        ]
    if told.epoch is None:
        return [
            f"PROMISED, but after {watched} epochs the network has not started (its outputs do "
            f"not agree with the linear learner's yet): watch more epochs, or raise early_lr."
        ]
    lines = [
        "PROMISED: a linear learner on these inputs separates the classes, at its time "
        f"{told.linear_time:.0f}. By the network's own speed that is after epoch "
        f"{told.epoch:.1f}, give or take a factor of two."
    ]
    epochs = early.plan.settings.epochs
    if told.epoch > budget:
        share = min(1.0, told.epoch / epochs)
        lines.append(
            f"'spare discover' stops looking after epoch {budget} here: "
            + (
                f"use --set early_budget={share:.2f}."
                if told.epoch <= epochs
                else f"raise the learning rate (early_lr) by {told.epoch / budget:.0f}."
            )
        )
    return lines


def plot(
    clock: LinearClock,
    told: Forecast,
    epochs: Sequence[float],
    looks: Sequence[np.ndarray],
    labels: np.ndarray,
    task: Task,
) -> Figure:
    figure = canvas(8.4, 3.2)
    left, right = figure.subplots(1, 2)
    left.semilogx(clock.times, clock.clarity, color=COLORS[0], label="linear learner")
    left.axhline(APART, color="#9ca3af", lw=0.8, ls="--")
    if told.linear_time is not None:
        left.axvline(told.linear_time, color="k", lw=0.8, ls=":", label="falls apart")
    label(left, "time of the linear learner", "clarity, mean of the classes")
    margins = [_margins(_matched(each, labels), labels) for each in looks]
    for number, (name, rows) in enumerate(rows_by_class(labels).items()):
        color = COLORS[number % len(COLORS)]
        for share, style in ((0.05, ":"), (0.5, "-"), (0.95, "--")):
            values = [np.quantile(each[rows], share) for each in margins]
            words = plain_text(task.class_names[int(name)]) if share == 0.5 else None
            right.plot(epochs, values, style, color=color, lw=1, label=words)
    label(right, "epoch", "margins: median, 5 % and 95 %")
    return figure
