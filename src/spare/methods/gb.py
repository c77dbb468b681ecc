"""GB: group balancing. Examples drawn with replacement, each true group with the same mass.

Idrissi et al.: Simple data balancing achieves competitive worst-group-accuracy, CLeaR 2022.

As halves: the true groups (`truth`), and balancing (`gb`), which gives every group the same mass.
"""

from __future__ import annotations

import warnings

import numpy as np

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.groups.result import groups_from_parts, parts_by_size
from spare.groups.weights import GroupDraw
from spare.methods.method import Inference, Inferred, NoOptions, Trainer, combined, sees
from spare.training.batches import weighted
from spare.training.loop import Trained
from spare.training.stages import Stages


def infer(task: Task, stages: Stages, options: NoOptions) -> Inferred:
    labels = np.asarray(task.train.labels)
    true = task.groups(task.train)
    if task.val is not None and task.val.attributes:
        for group in np.setdiff1d(task.groups(task.val), true):
            warnings.warn(
                f"group {task.group_names[group]} is in validation and has no training example: "
                f"nothing can be balanced for it.",
                SpareWarning,
                stacklevel=2,
            )
    return Inferred(groups_from_parts(parts_by_size(true, labels), labels))


def train(
    task: Task, stages: Stages, found: Inferred, options: NoOptions
) -> tuple[Trained, np.ndarray]:
    draw = GroupDraw(found.groups.ids)
    batches = weighted(draw, len(task.train), stages.settings.batch_size)
    trained = stages.train(
        "train", task, batches, initial=found.initial, inferred_groups=found.held_out.get("val")
    )
    return trained, draw.probabilities


INFERENCE = Inference("truth", sees("train"), infer, names_held_out=False)
TRAINER = Trainer("gb", train)
METHOD = combined(
    INFERENCE,
    TRAINER,
    name="gb",
    title="group balancing: the reference that knows the true groups",
    paper="Idrissi et al. 2022",
)
