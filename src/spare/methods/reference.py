"""The plain model that a method looks at before it trains: JTT's, EIIL's, PGI's, CnC's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spare.data.task import Task
from spare.errors import InputError
from spare.training.batches import shuffled
from spare.training.loop import Trained
from spare.training.settings import Settings
from spare.training.stages import Stages


@dataclass(frozen=True)
class ReferenceOptions:
    #: T: epochs of the first, plain training.
    reference_epochs: int = 1
    #: Its learning rate and weight decay; 0 and -1 for those of the settings.
    early_lr: float = 0.0
    early_weight_decay: float = -1.0

    def __post_init__(self) -> None:
        if self.reference_epochs < 1:
            raise InputError(f"reference_epochs is at least 1, not {self.reference_epochs}.")


def early_settings(settings: Settings, lr: float, weight_decay: float) -> Settings:
    """For a short training beforehand; a rate of 0 and a decay below 0 are the settings' own."""
    return replace(
        settings,
        schedule="constant",
        warmup_epochs=0.0,
        ema=0.0,
        lr=lr or settings.lr,
        weight_decay=settings.weight_decay if weight_decay < 0 else weight_decay,
    )


def train_reference(task: Task, stages: Stages, options: ReferenceOptions) -> Trained:
    settings = early_settings(stages.settings, options.early_lr, options.early_weight_decay)
    return stages.train(
        "reference",
        task,
        shuffled(len(task.train), settings.batch_size),
        settings=replace(settings, epochs=options.reference_epochs),
        validate=False,
        as_part="early",
    )
