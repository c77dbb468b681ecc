"""JTT: just train twice.

Liu et al.: Just Train Twice: Improving Group Robustness without Training Group Information, ICML
2021.

    train plainly for T epochs; E = the training examples that this model gets wrong
    train a fresh model plainly on every example once per epoch, and on those of E `upweight` times
    more

As halves: mistakes (`jtt`), and repeating the minorities of any inference (`jtt`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spare.data.task import Task
from spare.groups.mistakes import mistakes, warn_of_few
from spare.groups.result import groups_from_parts
from spare.limits import CountOrNone, check_ranges
from spare.methods.method import Fitted, Inference, Inferred, Trainer, combined, sees
from spare.methods.reference import TRAIN_LESS, ReferenceOptions, train_reference
from spare.training.batches import repeated
from spare.training.stages import Stages


@dataclass(frozen=True)
class UpweightOptions:
    #: How many more times per epoch an example of a minority is seen than any other.
    upweight: CountOrNone = 50

    def __post_init__(self) -> None:
        check_ranges(self)


def infer(task: Task, stages: Stages, options: ReferenceOptions) -> Inferred:
    reference = train_reference(task, stages, options)
    wrong = {
        name: mistakes(stages.outputs(reference, split).logits, split.labels)
        for name, split in task.splits().items()
    }
    warn_of_few(wrong["train"], "the early model gets wrong", TRAIN_LESS)
    groups = groups_from_parts(wrong["train"], task.train.labels, rank_names=("right", "mistaken"))
    held_out = {
        name: np.asarray(task.splits()[name].labels) * 2 + wrong[name]
        for name in wrong
        if name != "train"
    }
    return Inferred(
        groups,
        held_out,
        {"mistakes": int(wrong["train"].sum())},
        early=reference.last,
        early_epoch=options.reference_epochs,
    )


def train(task: Task, stages: Stages, inferred: Inferred, options: UpweightOptions) -> Fitted:
    copies = np.where(inferred.groups.in_majority(), 1, 1 + options.upweight)
    trained = stages.train("train", task, repeated(copies, stages.settings.batch_size))
    return Fitted(trained, inferred, copies / copies.sum())


INFERENCE = Inference("jtt", sees("none"), infer, ReferenceOptions)
TRAINER = Trainer("jtt", train, UpweightOptions)
METHOD = combined(
    INFERENCE,
    TRAINER,
    name="jtt",
    title="just train twice: examples that an early model gets wrong, many times more",
    paper="Liu et al. 2021",
    cost="1x + T/epochs + upweight x share of mistakes",
)
