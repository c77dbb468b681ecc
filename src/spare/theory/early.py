"""Plain training on a data set, watched while it runs: what SPARE's early model does.

The data, the network and the settings are those of `spare discover`, so that what is seen here is
what separation sees, if it looks at the network itself and not at heads on its features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from spare.data.task import Task
from spare.datasets import locate
from spare.errors import InputError
from spare.progress import SILENT, Progress
from spare.runs.grid import plan_grid
from spare.runs.plan import Plan, with_model
from spare.training.batches import shuffled
from spare.training.loop import cross_entropy
from spare.training.settings import Settings, early_settings
from spare.training.stages import Stages

#: Given the model and the number of steps that were made.
Look = Callable[[nn.Module, int], None]


@dataclass(frozen=True)
class Early:
    """A task with its model, and how its early training goes."""

    task: Task
    plan: Plan
    settings: Settings

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.task.train) / self.settings.batch_size)


def early_of(
    task: Any,
    seed: int,
    epochs: int,
    *,
    data: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
) -> Early:
    """Load a task as `spare discover` would, with the settings of SPARE's early training."""
    overrides = dict(overrides or {})
    source = locate(task, data, overrides)
    plan = plan_grid(source, ["spare"], [seed], Path(), overrides).plans["spare"]
    loaded = with_model(plan.load_task(seed, progress), plan, progress)
    if loaded.holds_outputs:
        raise InputError(
            f"{loaded.name} holds a model's outputs, and here a model is trained: name the data "
            f"that they were made from."
        )
    options = plan.options
    settings = early_settings(plan.settings, options.early_lr, options.early_weight_decay)
    return Early(loaded, plan, replace(settings, epochs=epochs))


def watch(
    early: Early, seed: int, at: Sequence[int], look: Look, progress: Progress = SILENT
) -> None:
    """Train plainly, and call `look` after these numbers of steps; 0 is before the first."""
    wanted = set(at)
    done = 0

    def objective(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
        nonlocal done
        if done in wanted:
            look(model, done)
        done += 1
        return cross_entropy(model, x, y, index)

    stages = Stages(
        seed=seed, settings=early.settings, judge=lambda epoch: ({}, {}), progress=progress
    )
    batches = shuffled(len(early.task.train), early.settings.batch_size)
    trained = stages.train("early", early.task.as_seen_by("none"), batches, objective=objective)
    if done in wanted:
        look(trained.model, done)
