"""CB: class balancing. Examples drawn with replacement, each class with the same mass."""

from __future__ import annotations

from spare.data.task import Task
from spare.groups.weights import GroupDraw
from spare.methods.method import Fitted, Method, NoOptions, sees
from spare.training.batches import weighted
from spare.training.stages import Stages


def fit(task: Task, stages: Stages, options: NoOptions) -> Fitted:
    draw = GroupDraw(task.train.labels)
    batches = weighted(draw, len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches))


METHOD = Method(
    name="cb",
    title="class balancing",
    paper="Japkowicz and Stephen 2002",
    sees=sees("none"),
    fit=fit,
    own_rule="val_average",  # the reading without group labels
)
