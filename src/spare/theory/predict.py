"""When will a user's own data separate? From the outputs of the first epochs, and the theory.

A few epochs are trained with the settings of SPARE's early model, watched, and put beside a linear
learner on the same inputs: forecast.py says what follows from the two. No group label is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Task
from spare.groups.arrays import rows_by_class
from spare.groups.blocks import clusters_of
from spare.groups.clusters import infer_groups
from spare.limits import Range
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.early import Early, early_of, watch
from spare.theory.forecast import (
    OTHER_MODELS,
    WITHIN,
    Forecast,
    advice,
    epochs_text,
    forecast,
    margins,
    matched,
)
from spare.theory.linear_clock import APART, TIMES, clarity_of, linear_clock
from spare.theory.predict_figure import plot
from spare.theory.study import Row, Study
from spare.training.outputs import outputs

#: The linear learner gets at most so many examples, and images of at most so many pixels a side.
MOST_EXAMPLES, MOST_PIXELS = 10_000, 32
#: From so many on, the linear learner is looked at less often: clusters of many examples take time.
MANY = 3000
EPOCHS = Range(1, 1000)
#: Looks that are shown, from the first on and up to the last; the table has all.
SHOWN = 6

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
    """Train a few early epochs, and predict when the classes separate.

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
    at = sorted(
        {max(1, round(share * per_epoch)) for share in WITHIN}
        | {epoch * per_epoch for epoch in range(1, watched + 1)}
    )
    split = early.task.train.subset(rows)
    looks: list[np.ndarray] = []

    def look(model: nn.Module, step: int) -> None:
        looks.append(outputs(model, split, early.settings).logits.numpy())

    watch(early, seed, at, look, progress)
    times = TIMES if len(rows) < MANY else TIMES[::3]
    inputs = _small(split.inputs.take(np.arange(len(split))))
    clock = linear_clock(inputs, labels, times=times, seed=seed)
    epochs = [step / per_epoch for step in at]
    told = forecast(clock, epochs, looks)
    clusters = _clusters(early.task, labels, epochs, looks, seed)
    seen = [
        {"epoch": e, "clarity": _clarity(each, labels, seed), "agreement": clock.agreement(each)}
        for e, each in zip(epochs, looks, strict=True)
    ]
    clarity = [each["clarity"] for each in seen]
    budget = _budget(early)
    facts = {
        "promised": told.promised,
        "most_clarity": told.most_clarity,
        "linear_time": told.linear_time,
        "started_epoch": told.started,
        "predicted_epoch": told.epoch,
        "clarity_now": clarity[-1],
        "clearest_epoch": epochs[int(np.argmax(clarity))],
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
            "looks": seen,
        },
        sections=_sections(told, clusters, seen, watched, budget, early),
        settings={"task": early.task.name, "seed": seed, "watched": watched, **settings},
        plot=lambda: plot(clock, told, epochs, looks, labels, early.task.class_names),
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


def _clarity(logits: np.ndarray, labels: np.ndarray, seed: int) -> float:
    probabilities = torch.from_numpy(matched(logits, labels)).softmax(1).numpy()
    return float(np.mean(clarity_of(probabilities, labels, seed=seed)))


def _clusters(
    task: Task,
    labels: np.ndarray,
    epochs: Sequence[float],
    looks: Sequence[np.ndarray],
    seed: int,
) -> list[Row]:
    """How fast every cluster of the last look is being learned: its margin, and that per epoch."""
    probabilities = torch.from_numpy(matched(looks[-1], labels)).softmax(1).numpy()
    groups = infer_groups(probabilities, labels, seed=seed)
    by_look = np.stack([margins(matched(each, labels), labels) for each in looks])
    late = np.array(epochs) >= epochs[-1] / 2
    rows = []
    for name, of_class in clusters_of(groups).items():
        members = rows_by_class(labels)[name]
        for code in range(int(of_class.codes.max()) + 1):
            inside = members[of_class.codes == code]
            means = by_look[:, inside].mean(1)
            slope = np.polyfit(np.array(epochs)[late], means[late], 1)[0]
            rows.append(
                {
                    "class": task.class_names[int(name)],
                    "cluster": code + 1,
                    "examples": len(inside),
                    "margin": float(means[-1]),
                    "margin per epoch": float(slope),
                    "spread": float(by_look[-1, inside].std()),
                }
            )
    return rows


def _budget(early: Early) -> int | None:
    """The last epoch after which `discover` would look; None if it looks at other models."""
    if early.plan.options.early_layers == "head" or early.plan.options.cross_fit:
        return None
    looks: list[int] = early.plan.options.looks_after(
        early.steps_per_epoch, early.plan.settings.epochs
    )
    return looks[-1]


def _sections(
    told: Forecast,
    clusters: Sequence[Row],
    seen: Sequence[Row],
    watched: int,
    budget: int | None,
    early: Early,
) -> list[Section]:
    clarity = float(seen[-1]["clarity"])
    clearest = max(seen, key=lambda row: float(row["clarity"]))
    return [
        Section(
            f"After {epochs_text(watched)} of {early.plan.source.label}",
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
                "The margin is how far the logit of the label is above the largest other: a "
                "cluster with a margin below 0 is taken for another class.",
                "Clarity, how clearly the classes have fallen apart into clusters, is "
                f"{clarity:.2f} now; from {APART:g} on they count as separated.",
                *advice(told, clarity, watched, budget, early.plan.settings.epochs),
                *([OTHER_MODELS] if budget is None else []),
            ],
        ),
        Section(
            "What was seen so far",
            ["epoch", "clarity", "agreement with the linear learner"],
            [
                [f"{row['epoch']:.2f}", f"{row['clarity']:.2f}", f"{row['agreement']:.2f}"]
                for row in _few(seen)
            ],
            [
                "So far the classes were the most clearly apart after epoch "
                f"{round(clearest['epoch'], 2):g}."
            ],
        ),
    ]


def _few(seen: Sequence[Row]) -> list[Row]:
    """Those to show: the first ones, which are within the first epoch, and the last ones."""
    return [*seen] if len(seen) <= 2 * SHOWN else [*seen[:SHOWN], *seen[-SHOWN:]]
