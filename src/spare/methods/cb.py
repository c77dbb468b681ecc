"""CB: class balancing. Examples sampled with replacement, every class with the same mass."""

from __future__ import annotations

from spare.data.task import Task
from spare.groups.weights import GroupSampling
from spare.methods.method import Fitted, Method, NoOptions, sees
from spare.training.batches import weighted
from spare.training.stages import Stages


def fit(task: Task, stages: Stages, options: NoOptions) -> Fitted:
    sampling = GroupSampling(task.train.labels)
    batches = weighted(sampling, len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches))


METHOD = Method(
    name="cb",
    title="class balancing",
    paper="Japkowicz and Stephen 2002",
    sees=sees("none"),
    fit=fit,
    paper_rule="val_average",  # needs no group labels
)
