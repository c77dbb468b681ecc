"""GB: group balancing. Examples sampled with replacement, every true group with the same mass.

Idrissi et al.: Simple data balancing achieves competitive worst-group-accuracy, CLeaR 2022.

As halves: the true groups (`truth`), and balancing (`gb`), which gives every group the same mass.
"""

from __future__ import annotations

import warnings

import numpy as np

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.groups.result import groups_from_parts, parts_by_size
from spare.groups.weights import GroupSampling
from spare.methods.method import Fitted, Inference, Inferred, NoOptions, Trainer, combined, sees
from spare.training.batches import weighted
from spare.training.stages import Stages


def infer(task: Task, stages: Stages, options: NoOptions) -> Inferred:
    labels = np.asarray(task.train.labels)
    true_groups = task.groups(task.train)
    if task.val is not None and task.val.attributes:
        for group in np.setdiff1d(task.groups(task.val), true_groups):
            warnings.warn(
                f"group {task.group_names[group]} is in validation but has no training example, so "
                f"it cannot be balanced: add some.",
                SpareWarning,
                stacklevel=2,
            )
    return Inferred(groups_from_parts(parts_by_size(true_groups, labels), labels))


def train(task: Task, stages: Stages, inferred: Inferred, options: NoOptions) -> Fitted:
    sampling = GroupSampling(inferred.groups.ids)
    batches = weighted(sampling, len(task.train), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches), inferred, sampling.probabilities)


INFERENCE = Inference("truth", sees("train"), infer, names_held_out=False)
TRAINER = Trainer("gb", train)
METHOD = combined(
    INFERENCE,
    TRAINER,
    name="gb",
    title="group balancing: the reference that knows the true groups",
    paper="Idrissi et al. 2022",
)
