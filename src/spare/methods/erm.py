"""ERM: plain training. Every example once per epoch, mean cross-entropy."""

from __future__ import annotations

from spare.data.task import Task
from spare.methods.method import Fitted, Method, NoOptions, sees
from spare.training.batches import shuffled
from spare.training.stages import Stages


def fit(task: Task, stages: Stages, options: NoOptions) -> Fitted:
    batches = shuffled(len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches))


METHOD = Method(
    name="erm",
    title="plain training (empirical risk minimization)",
    paper="Vapnik 1991",
    sees=sees("none"),
    fit=fit,
    paper_rule="val_average",  # needs no group labels
)
