"""LfF: learning from failure.

Nam, Cha, Ahn, Lee, Shin: Learning from Failure: De-biasing Classifier from Biased Classifier,
NeurIPS 2020.

    train two networks on the same batches: a biased one, whose loss favors what it finds easy, and
    the one that is kept, in which an example counts by how much harder the biased one finds it
    (objectives/failure.py)

A departure: both are trained by the run's optimizer, by default SGD with momentum; the paper has
Adam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spare.data.task import Task
from spare.limits import Range, check_ranges
from spare.methods.method import Fitted, Method, sees
from spare.objectives.failure import LearningFromFailure
from spare.training.batches import shuffled
from spare.training.stages import Stages


@dataclass(frozen=True)
class LffOptions:
    #: q of the generalized cross-entropy: how much the biased network favors what is easy.
    gce_q: Annotated[float, Range(0, 1, open_low=True)] = 0.7
    #: How much of an example's average loss is kept when it is seen again.
    loss_average: Annotated[float, Range(0, 1, open_high=True)] = 0.7

    def __post_init__(self) -> None:
        check_ranges(self)


def fit(task: Task, stages: Stages, options: LffOptions) -> Fitted:
    labels = task.train.labels
    objective = LearningFromFailure(
        # Not the initial weights of the network that is kept.
        stages.fresh(task, weight_seed=1),
        labels,
        options.gce_q,
        options.loss_average,
    )
    batches = shuffled(len(labels), stages.settings.batch_size)
    return Fitted(stages.train("train", task, batches, objective=objective))


METHOD = Method(
    name="lff",
    title="learning from failure: what a biased network finds hard counts more",
    paper="Nam et al. 2020",
    sees=sees("none"),
    fit=fit,
    options=LffOptions,
    cost="2x",
)
