"""ERM: plain training. Every example once an epoch, mean cross-entropy."""

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
    title="plain training (empirical risk minimisation)",
    paper="Vapnik 1991",
    sees=sees("none"),
    fit=fit,
    own_rule="val_average",  # the reading without group labels
)
