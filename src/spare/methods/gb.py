"""GB: group balancing. Examples drawn with replacement, each true group with the same mass."""

from __future__ import annotations

from spare.batches import weighted
from spare.methods.method import Fitted, Method, NoOptions, sees
from spare.stages import Stages
from spare.task import Task
from spare.weights import GroupDraw


def fit(task: Task, stages: Stages, options: NoOptions) -> Fitted:
    draw = GroupDraw(task.groups(task.train))
    batches = weighted(draw, len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches))


METHOD = Method(
    name="gb",
    title="group balancing: the reference that knows the true groups",
    paper="Idrissi et al. 2022",
    sees=sees("train"),
    fit=fit,
)
