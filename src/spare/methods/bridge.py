"""Bridge: SPARE that also pulls a class's clusters together. Not in the paper; ours.

    groups and sampling: SPARE's (spare.py)
    the loss: cross-entropy, and a contrast that makes the features of a class's largest cluster and
    of its other clusters alike (objectives/bridge.py)
    the epoch: the best worst inferred group of validation

Sampling by inverse size shows the few examples without the shortcut often, but what they have in
common with their class is still learned from those few. Pulling them toward the many examples with
the shortcut teaches the network to ignore what tells the two apart. No group label is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from spare.data.task import Task
from spare.errors import SpareWarning
from spare.groups.result import Groups
from spare.limits import NotNegative, Positive
from spare.methods.method import Fitted, Inferred, Trainer, combined
from spare.methods.spare import INFERENCE as SPARE
from spare.methods.spare import SamplingOptions
from spare.methods.spare import train as train_as_spare
from spare.models import Classifier
from spare.objectives.bridge import pulled_together
from spare.training.stages import Stages


@dataclass(frozen=True)
class BridgeOptions(SamplingOptions):
    #: Weight of pulling together, beside cross-entropy.
    bridge_weight: NotNegative = 0.5
    #: Temperature of the cosine similarities: the lower, the more the nearest examples of other
    #: classes count.
    bridge_temperature: Positive = 0.1


def train(task: Task, stages: Stages, inferred: Inferred, options: BridgeOptions) -> Fitted:
    model = stages.fresh(task, inferred.weight_seed)
    assert isinstance(model, Classifier)
    if not model.trains_features:
        warnings.warn(
            "nothing before the model's head is trained, so bridge has nothing to pull together "
            "and does what spare does: choose a model whose features are trained, such as mlp.",
            SpareWarning,
            stacklevel=2,
        )
    objective = pulled_together(
        parts_of(inferred.groups),
        weight=options.bridge_weight,
        temperature=options.bridge_temperature,
    )
    return train_as_spare(task, stages, inferred, options, objective=objective)


def parts_of(groups: Groups) -> np.ndarray:
    """The part of every example: True for the majority, and for all of a class that is whole.

    Where the evidence leaves a class as it is (power 0), its clusters are hard and easy examples,
    and there is nothing to bridge.
    """
    whole = [label for label, power in groups.powers().items() if power == 0]
    return np.asarray(groups.in_majority() | np.isin(groups.labels, whole))


TRAINER = Trainer("bridge", train, BridgeOptions)
METHOD = combined(
    SPARE,
    TRAINER,
    name="bridge",
    title="ours: SPARE, with the features of a class's clusters pulled together",
    preset_from="spare",
    paper_rule="val_inferred_groups",
    cost="1x + T/epochs",
)
