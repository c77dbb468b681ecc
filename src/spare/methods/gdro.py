"""GDRO: Group DRO on the true groups (objectives/group_dro.py), all sampled with the same mass.

Sagawa, Koh, Hashimoto, Liang: Distributionally Robust Neural Networks for Group Shifts, ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spare.data.task import Task
from spare.groups.weights import GroupSampling
from spare.limits import NotNegative, check_ranges
from spare.methods.gb import INFERENCE as TRUTH
from spare.methods.method import Fitted, Inferred, Trainer, combined
from spare.objectives.group_dro import GroupDro
from spare.training.batches import shuffled, weighted
from spare.training.stages import Stages


@dataclass(frozen=True)
class GdroOptions:
    #: Step size of the groups' weights.
    eta: NotNegative = 0.01
    #: K: the larger, the more a small group counts.
    adjustment: NotNegative = 0.0
    #: Sample every group with the same mass; otherwise every example once per epoch.
    balanced: bool = True

    def __post_init__(self) -> None:
        check_ranges(self)


def train(task: Task, stages: Stages, inferred: Inferred, options: GdroOptions) -> Fitted:
    groups = inferred.worst_case_over
    sampling = GroupSampling(groups)
    n, batch_size = len(groups), stages.settings.batch_size
    trained = stages.train(
        "train",
        task,
        weighted(sampling, n, batch_size) if options.balanced else shuffled(n, batch_size),
        objective=GroupDro(groups, options.eta, options.adjustment),
    )
    probabilities = sampling.probabilities if options.balanced else np.full(n, 1 / n)
    return Fitted(trained, inferred, probabilities)


TRAINER = Trainer("gdro", train, GdroOptions)
METHOD = combined(
    TRUTH,
    TRAINER,
    name="gdro",
    title="Group DRO on the true groups: the worst group's loss counts most",
    paper="Sagawa et al. 2020",
)
