"""PGI: predictive group invariance.

Ahmed, Bengio, van Seijen, Courville: Systematic Generalisation with Group Invariant Predictions,
ICLR 2021.

    train plainly for T epochs; divide the examples into a majority and a minority
    continue from there: the two count the same, and within a class their mean predictions are
    pulled together (objectives/invariance.py)

Departures: majority and minority are EIIL's two environments, as the SPARE paper describes PGI,
over all classes at once unless `per_class`; PGI itself trains one small network per class for the
same objective. And both are sampled with the same mass, where PGI samples every example once per
epoch and has batches of 512.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.groups.weights import GroupSampling
from spare.limits import CountOrNone, NotNegative, check_ranges
from spare.methods.eiil import INFERENCE as EIIL
from spare.methods.method import Fitted, Inferred, Trainer, combined
from spare.objectives.invariance import GroupInvariance
from spare.training.batches import weighted
from spare.training.stages import Stages


@dataclass(frozen=True)
class InvarianceOptions:
    #: w: weight of the divergence once it has grown.
    invariance_weight: NotNegative = 1.0
    #: Epochs over which it grows from 0.
    invariance_epochs: CountOrNone = 5

    def __post_init__(self) -> None:
        check_ranges(self)


def train(task: Task, stages: Stages, inferred: Inferred, options: InvarianceOptions) -> Fitted:
    if inferred.early is None:
        warnings.warn(
            "pgi continues from one early model, and these groups come without one: it starts "
            "from fresh weights.",
            SpareWarning,
            stacklevel=2,
        )
    minority = ~inferred.groups.in_majority()
    n, batch_size = len(minority), stages.settings.batch_size
    # Both with the same mass, or a batch of 32 hardly ever has a minority to compare with.
    sampling = GroupSampling(minority)
    trained = stages.train(
        "train",
        task,
        weighted(sampling, n, batch_size),
        objective=GroupInvariance(
            minority,
            options.invariance_weight,
            options.invariance_epochs * math.ceil(n / batch_size),
        ),
        start=inferred.early,
    )
    return Fitted(trained, inferred, sampling.probabilities)


TRAINER = Trainer("pgi", train, InvarianceOptions)
METHOD = combined(
    EIIL,
    TRAINER,
    name="pgi",
    title="predictive group invariance: predictions of a class should not depend on its groups",
    paper="Ahmed et al. 2021",
    cost="1x + T/epochs",
)
