"""Plain training before the real one: what JTT, EIIL, PGI, CnC and others look at first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from spare.data.task import Task
from spare.errors import InputError
from spare.limits import Count, NotNegative, Range, check_ranges
from spare.training.batches import shuffled
from spare.training.loop import Trained
from spare.training.settings import early_settings
from spare.training.stages import Stages

#: A weight decay of an early training; -1 for that of the settings.
OwnDecay = Annotated[float, Range(-1, 1e9)]
#: What to do where the early model has learned too much to be of use.
TRAIN_LESS = "lower reference_epochs or early_lr"


@dataclass(frozen=True)
class ReferenceOptions:
    #: T: epochs of the first, plain training.
    reference_epochs: Count = 1
    #: Its learning rate and weight decay; 0 and -1 for those of the settings.
    early_lr: NotNegative = 0.0
    early_weight_decay: OwnDecay = -1.0

    def __post_init__(self) -> None:
        check_ranges(self)


def refuse_outputs(task: Task) -> None:
    """An early model needs inputs to be trained on."""
    if task.holds_outputs:
        raise InputError(
            f"{task.name} holds a model's outputs, and no early model can be trained on those: "
            f"use --inference outputs, which clusters them as they are."
        )


def train_reference(task: Task, stages: Stages, options: ReferenceOptions) -> Trained:
    refuse_outputs(task)
    settings = early_settings(stages.settings, options.early_lr, options.early_weight_decay)
    return stages.train(
        "early/reference",
        task,
        shuffled(len(task.train), settings.batch_size),
        settings=replace(settings, epochs=options.reference_epochs),
    )
