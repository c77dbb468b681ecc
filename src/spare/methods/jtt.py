"""JTT: just train twice.

Liu et al.: Just Train Twice: Improving Group Robustness without Training Group Information, ICML
2021.

    train plainly for T epochs; E = the training examples that this model gets wrong
    train a fresh model plainly on every example once and those of E `upweight` times more
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spare.batches import repeated, shuffled
from spare.errors import InputError
from spare.groups.mistakes import mistakes
from spare.methods.method import Fitted, Method, sees
from spare.stages import Stages
from spare.task import Task


@dataclass(frozen=True)
class JttOptions:
    #: T: epochs of the first, plain training.
    reference_epochs: int = 1
    #: How many more times than the others a mistaken example is seen in an epoch.
    upweight: int = 50

    def __post_init__(self) -> None:
        if self.reference_epochs < 1 or self.upweight < 0:
            raise InputError(
                f"reference_epochs is at least 1 and upweight at least 0, not "
                f"{self.reference_epochs} and {self.upweight}."
            )


def fit(task: Task, stages: Stages, options: JttOptions) -> Fitted:
    settings = stages.settings
    reference = stages.train(
        "reference",
        task,
        shuffled(len(task.train), settings.batch_size),
        settings=replace(settings, epochs=options.reference_epochs, schedule="constant", ema=0.0),
        validate=False,
        as_part="early",
    )
    wrong = mistakes(stages.outputs(reference, task.train).logits, task.train.labels)
    copies = np.where(wrong, 1 + options.upweight, 1)
    trained = stages.train("train", task, repeated(copies, settings.batch_size))
    return Fitted(trained, notes={"mistakes": int(wrong.sum())})


METHOD = Method(
    name="jtt",
    title="just train twice: examples that an early model gets wrong, many times more",
    paper="Liu et al. 2021",
    sees=sees("none"),
    fit=fit,
    options=JttOptions,
)
