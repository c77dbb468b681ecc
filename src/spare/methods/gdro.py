"""GDRO: Group DRO on the true groups (objectives/group_dro.py), each drawn with the same mass.

Sagawa, Koh, Hashimoto, Liang: Distributionally Robust Neural Networks for Group Shifts, ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.groups.weights import GroupDraw
from spare.methods.gb import INFERENCE as TRUTH
from spare.methods.method import Inferred, Trainer, combined
from spare.objectives.group_dro import GroupDro
from spare.training.batches import shuffled, weighted
from spare.training.loop import Trained
from spare.training.stages import Stages


@dataclass(frozen=True)
class GdroOptions:
    #: Step size of the groups' weights.
    eta: float = 0.01
    #: K: how much more a small group counts.
    adjustment: float = 0.0
    #: Draw every group with the same mass; else every example once an epoch.
    balanced: bool = True

    def __post_init__(self) -> None:
        if self.eta < 0 or self.adjustment < 0:
            raise InputError(
                f"eta and adjustment are at least 0, not {self.eta} and {self.adjustment}."
            )


def train(
    task: Task, stages: Stages, found: Inferred, options: GdroOptions
) -> tuple[Trained, np.ndarray]:
    over = found.worst_case_over
    draw = GroupDraw(over)
    n, batch_size = len(over), stages.settings.batch_size
    trained = stages.train(
        "train",
        task,
        weighted(draw, n, batch_size) if options.balanced else shuffled(n, batch_size),
        objective=GroupDro(over, options.eta, options.adjustment),
        initial=found.initial,
        inferred_groups=found.held_out.get("val"),
    )
    return trained, draw.probabilities if options.balanced else np.full(n, 1 / n)


TRAINER = Trainer("gdro", train, GdroOptions)
METHOD = combined(
    TRUTH,
    TRAINER,
    name="gdro",
    title="Group DRO on the true groups: the worst group's loss counts most",
    paper="Sagawa et al. 2020",
)
