"""What an early model relies on: how far its output moves when only the color or only the digit is
left of an image (the paper's figure 2, top), and its outputs for one class by color (bottom).

For images with segmentation masks, such as Waterbirds with those of CUB, the same with the
background or the bird alone; the rest is filled with gray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Task
from spare.errors import InputError
from spare.groups.silhouettes import silhouette
from spare.limits import CountOrNone, Range, check_ranges
from spare.progress import SILENT, Progress
from spare.report.figures.canvas import COLORS, canvas, plain_text
from spare.report.sections import Section
from spare.theory.apart import Parts, digits_apart, masked_apart
from spare.theory.axes import label
from spare.theory.colored_digits import palette_colors
from spare.theory.early import early_of, watch
from spare.theory.study import Row, Study, options_of
from spare.training.outputs import outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The change for the color alone counts as small below this share of that for the digit alone.
SMALL = 0.1
CMNIST = "cmnist"

CLAIM = (
    "In its first epochs a network's output hardly changes when only the shortcut is left of an "
    "image, and changes nearly entirely when only what should matter is left; and within a class "
    "the outputs lie apart by shortcut."
)


@dataclass(frozen=True)
class RelianceOptions:
    """Sizes and settings of `reliance`."""

    task: str = CMNIST
    #: Of Colored MNIST: with the paper's hex codes two classes have nearly the same red.
    palette: str = "distinct"
    #: Training examples; 0 for all. Of Colored MNIST only.
    train_size: CountOrNone = 0
    epochs: Annotated[int, Range(1, 1000)] = 4
    #: Measurements in an epoch.
    per_epoch: Annotated[int, Range(1, 10_000)] = 12
    #: Images of the majority that are taken apart.
    images: Annotated[int, Range(2, 100_000)] = 500
    #: The class that is looked at, counted from 0.
    of_class: CountOrNone = 0
    #: After which epoch outputs are shown by shortcut.
    shown_after: Annotated[int, Range(1, 1000)] = 2
    #: Folder of masks, for images other than digits: NAME.png for every image NAME.jpg.
    masks: str = ""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.shown_after > self.epochs:
            raise InputError(
                f"shown_after is one of the {self.epochs} epochs, not {self.shown_after}."
            )
        if self.task != CMNIST and not self.masks:
            raise InputError(
                f"{self.task} cannot be taken apart without segmentation masks: name their folder "
                f"with --set masks=FOLDER, or use {CMNIST}."
            )


def reliance(
    *, seed: int = 0, data: Path | None = None, progress: Progress = SILENT, **settings: Any
) -> Study:
    """Train plainly, and measure how the output changes when parts of an image are taken away.

    Parameters
    ----------
    seed : int
    data : Path, optional
        Folder of data sets.
    progress : Progress, optional
    **settings
        Fields of `RelianceOptions`.

    Returns
    -------
    Study
    """
    options = options_of(RelianceOptions, settings)
    overrides: dict[str, Any] = {}
    if options.task == CMNIST:
        overrides = {"palette": options.palette, "train_size": options.train_size}
    early = early_of(
        options.task, seed, options.epochs, data=data, overrides=overrides, progress=progress
    )
    rows_of_class, groups = _class_rows(early.task, options.of_class)
    majority = int(np.bincount(groups).argmax())
    chosen = rows_of_class[groups == majority][: options.images]
    if options.task == CMNIST:
        parts = digits_apart(early, chosen, palette_colors(options.palette)[majority])
    else:
        parts = masked_apart(early, chosen, Path(options.masks))
    per_epoch = early.steps_per_epoch
    every = max(1, per_epoch // options.per_epoch)
    at = sorted({*range(0, options.epochs * per_epoch, every),
                 *[epoch * per_epoch for epoch in range(options.epochs + 1)]})  # fmt: skip
    shown_at = options.shown_after * per_epoch
    curve: list[Row] = []
    shown: dict[str, np.ndarray] = {}

    def look(model: nn.Module, step: int) -> None:
        curve.append({"epoch": step / per_epoch, "step": step, **_changes(model, parts)})
        if step == shown_at:
            split = early.task.train.subset(rows_of_class)
            logits = outputs(model, split, early.settings).logits
            shown["logits"] = logits.numpy()
            shown["softmax"] = logits.softmax(1).numpy()

    watch(early, seed, at, look, progress)
    names = early.task.class_names
    by_group = _by_group(early.task, shown["softmax"], groups)
    small_from = next((row["epoch"] for row in curve if row["ratio"] < SMALL), None)
    facts = {
        "ratio_after_1": _at(curve, 1),
        "ratio_after_2": _at(curve, 2),
        "small_from_epoch": small_from,
        "largest_after_that_to_2": max(
            row["ratio"] for row in curve if (small_from or 0) <= row["epoch"] <= 2
        ),
        "silhouette_by_shortcut": float(silhouette(shown["softmax"], groups)),
    }
    return Study(
        name="reliance",
        title="Reliance: the early model answers to the shortcut",
        claim=CLAIM,
        facts=facts,
        tables={"changes": curve, "groups": by_group},
        sections=_sections(curve, by_group, facts, parts, names, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(curve, shown["logits"], groups, early.task, parts, options),
    )


def _class_rows(task: Task, of_class: int) -> tuple[np.ndarray, np.ndarray]:
    """The training examples of a class, and the shortcut of each."""
    if of_class >= len(task.class_names):
        raise InputError(f"of_class is from 0 to {len(task.class_names) - 1}, not {of_class}.")
    if not task.train.attributes:
        raise InputError(f"{task.name} has no attribute that says which shortcut an image has.")
    rows = np.flatnonzero(np.asarray(task.train.labels) == of_class)
    attribute = next(iter(task.attribute_values))
    return rows, np.asarray(task.train.attributes[attribute])[rows]


def _changes(model: nn.Module, parts: Parts) -> Row:
    """How far the output moves, on average, when a part is all that is left."""
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        full, shortcut, core = (model(each) for each in (parts.full, parts.shortcut, parts.core))
    model.train(was_training)

    def moved(one: Tensor, other: Tensor) -> float:
        return float((one - other).norm(dim=1).mean())

    soft = [each.softmax(1) for each in (full, shortcut, core)]
    by_shortcut, by_core = moved(soft[0], soft[1]), moved(soft[0], soft[2])
    return {
        "shortcut only": by_shortcut,
        "core only": by_core,
        "ratio": by_shortcut / max(by_core, 1e-12),
        "shortcut only, logits": moved(full, shortcut),
        "core only, logits": moved(full, core),
    }


def _at(curve: Sequence[Row], epoch: float) -> float | None:
    return next((row["ratio"] for row in curve if row["epoch"] == epoch), None)


def _by_group(task: Task, softmax: np.ndarray, groups: np.ndarray) -> list[Row]:
    """The mean output of every group of the class."""
    attribute = next(iter(task.attribute_values))
    names = task.attribute_values[attribute]
    return [
        {
            attribute: names[group],
            "examples": int((groups == group).sum()),
            **{
                f"output {name}": float(softmax[groups == group, number].mean())
                for number, name in enumerate(task.class_names)
            },
        }
        for group in np.unique(groups)
    ]


def _sections(
    curve: Sequence[Row],
    by_group: Sequence[Row],
    facts: dict[str, Any],
    parts: Parts,
    names: Sequence[str],
    options: RelianceOptions,
) -> list[Section]:
    whole = [row for row in curve if (2 * row["epoch"]).is_integer()]
    heads = list(by_group[0])
    return [
        Section(
            f"How far the softmax output moves, class {names[options.of_class]}, "
            f"{len(parts.full)} images of the majority",
            ["epoch", *parts.words, "ratio"],
            [
                [
                    f"{row['epoch']:g}",
                    f"{row['shortcut only']:.4f}",
                    f"{row['core only']:.4f}",
                    f"{row['ratio']:.3f}",
                ]
                for row in whole
            ],
            [
                f"The change with the {parts.words[0].split()[0]} alone is below "
                f"{100 * SMALL:.0f} % of the other from epoch {facts['small_from_epoch']:.2f} on "
                f"and at most {100 * facts['largest_after_that_to_2']:.1f} % until epoch 2."
                if facts["small_from_epoch"] is not None
                else f"The change with the {parts.words[0].split()[0]} alone is never below "
                f"{100 * SMALL:.0f} % of the other."
            ],
        ),
        Section(
            f"Mean outputs after epoch {options.shown_after}, by shortcut",
            heads,
            [
                [f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row.values()]
                for row in by_group
            ],
            [f"Silhouette of the softmax: {facts['silhouette_by_shortcut']:.3f}"],
        ),
    ]


def plot(
    curve: Sequence[Row],
    logits: np.ndarray,
    groups: np.ndarray,
    task: Task,
    parts: Parts,
    options: RelianceOptions,
) -> Figure:
    figure = canvas(8.4, 3.2)
    left, right = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in curve]
    for number, (column, words) in enumerate(
        zip(("shortcut only", "core only"), parts.words, strict=True)
    ):
        left.plot(epochs, [row[column] for row in curve], color=COLORS[number], label=words)
    left.axvline(2, color="#9ca3af", lw=0.8, ls="--")
    label(left, "epoch", "change of the softmax output")
    centered = logits - logits.mean(0)
    axes_of = np.linalg.svd(centered, full_matrices=False)[2][:2]
    points = centered @ axes_of.T
    attribute = next(iter(task.attribute_values))
    values = task.attribute_values[attribute]
    present, counts = np.unique(groups, return_counts=True)
    for group in present[np.argsort(-counts)]:
        color = values[group] if values[group].startswith("#") else COLORS[group % len(COLORS)]
        inside = np.flatnonzero(groups == group)[:2000]
        words = f"{plain_text(values[group])} ({int((groups == group).sum())})"
        right.scatter(*points[inside].T, s=8, color=color, linewidths=0, label=words)
    label(right, "first component of the logits", "second component")
    right.set_title(f"class {plain_text(task.class_names[options.of_class])} after epoch "
                    f"{options.shown_after}", fontsize=9)  # fmt: skip
    return figure
