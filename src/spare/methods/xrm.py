"""XRM: environments from what twin networks get wrong about examples that they did not learn.

Pezeshki, Bouchacourt, Ibrahim, Ballas, Vincent, Lopez-Paz: Discovering Environments with XRM, ICML
2024.

    hold every training example in for one of two networks, at random, and out for the other
    train both, replacing labels by what the network that they are held out for is sure of
    (objectives/twins.py)
    environment of a training example: whether the network that it was held out for gets its real
    label wrong; of any other example: whether either network does
    train with Group DRO over the groups (class, environment)

No network is stopped early: once labels are replaced, a longer training only confirms the shortcut.
How long, and with which learning rate, are options. The paper chooses such values without group
labels too, by the number of labels that were replaced; that number is in the record as
`flipped_labels`.

Departures: the halves are stratified by class, so that no network misses a class with two examples
or more; and both are trained with the optimizer of the run.

`val_groups` is for the selection rule val_cross_mistakes, which goes with any method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from spare.data.folds import folds
from spare.data.task import Split, Task
from spare.groups.mistakes import warn_of_few
from spare.groups.result import groups_from_parts
from spare.limits import CountOrNone, NotNegative, check_ranges
from spare.methods.gdro import TRAINER as GDRO
from spare.methods.method import Inference, Inferred, combined, sees
from spare.methods.reference import OwnDecay, refuse_outputs
from spare.objectives.twins import Twins
from spare.training.batches import shuffled
from spare.training.checkpoint import snapshot
from spare.training.loop import Trained
from spare.training.settings import early_settings
from spare.training.stages import Stages


@dataclass(frozen=True)
class XrmOptions:
    #: Epochs of the twins; 0 for half of the run's, rounded up: two networks then cost as much as
    #: one plain training.
    twin_epochs: CountOrNone = 0
    #: Their learning rate and weight decay; 0 and -1 for those of the settings.
    twin_lr: NotNegative = 0.0
    twin_weight_decay: OwnDecay = -1.0

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class _Trained:
    """Both twins after their training."""

    twins: tuple[Trained, Trained]
    #: Which twin learned each training example.
    held_by: np.ndarray
    #: The labels that they were taught in the end.
    labels: np.ndarray

    def mistakes_of_training(self, task: Task, stages: Stages) -> np.ndarray:
        """Which training examples the twin that did not learn them gets wrong."""
        wrong = np.empty(len(task.train), dtype=bool)
        for number, twin in enumerate(self.twins):
            rows = np.flatnonzero(self.held_by != number)
            if len(rows):
                wrong[rows] = _mistakes(stages, twin, task.train.subset(rows))
        return wrong

    def mistakes_of_held_out(self, split: Split, stages: Stages) -> np.ndarray:
        """Which held-out examples at least one of the twins gets wrong."""
        first, second = (_mistakes(stages, twin, split) for twin in self.twins)
        return np.asarray(first | second)


def infer(task: Task, stages: Stages, options: XrmOptions) -> Inferred:
    trained = _train_twins(task, stages, options)
    wrong = trained.mistakes_of_training(task, stages)
    warn_of_few(
        wrong,
        "of what each twin did not learn, the two get wrong",
        "change twin_lr or twin_epochs so that more labels are flipped",
    )
    groups = groups_from_parts(wrong, task.train.labels, rank_names=("right", "cross-mistaken"))
    held_out = {
        name: _groups(split, trained.mistakes_of_held_out(split, stages))
        for name, split in task.splits().items()
        if name != "train"
    }
    return Inferred(
        groups,
        held_out,
        {
            "cross_mistakes": int(wrong.sum()),
            "flipped_labels": int((trained.labels != task.train.labels).sum()),
            "twin_epochs": len(trained.twins[0].history),
        },
    )


def val_groups(task: Task, stages: Stages, options: XrmOptions) -> np.ndarray:
    """Class x environment of the validation examples, whatever the run's own method infers.

    The stage is the one that `infer` trains: in a run of xrm it is trained, and counted, once.
    """
    assert task.val is not None
    trained = _train_twins(task, stages, options)
    return _groups(task.val, trained.mistakes_of_held_out(task.val, stages))


def _train_twins(task: Task, stages: Stages, options: XrmOptions) -> _Trained:
    refuse_outputs(task)
    labels = np.asarray(task.train.labels)
    held_by = folds(labels, 2, np.random.default_rng([stages.seed, 0x7817]))
    settings = early_settings(stages.settings, options.twin_lr, options.twin_weight_decay)
    epochs = options.twin_epochs or math.ceil(settings.epochs / 2)
    objective = Twins(stages.fresh(task, weight_seed=1), labels, held_by)
    first = stages.train(
        "early/twins",
        task,
        shuffled(len(labels), settings.batch_size),
        settings=replace(settings, epochs=epochs),
        objective=objective,
        weight_seed=0,
    )
    second = replace(first, model=objective.second, last=snapshot(objective.second))
    return _Trained((first, second), held_by, objective.labels.cpu().numpy())


def _mistakes(stages: Stages, trained: Trained, split: Split) -> np.ndarray:
    predictions = stages.outputs(trained, split).logits.argmax(1).numpy()
    return np.asarray(predictions != split.labels)


def _groups(split: Split, wrong: np.ndarray) -> np.ndarray:
    """Numbered as the training groups are."""
    return np.asarray(2 * np.asarray(split.labels) + wrong)


INFERENCE = Inference("xrm", sees("none"), infer, XrmOptions)
METHOD = combined(
    INFERENCE,
    GDRO,
    name="xrm",
    title="what twin networks get wrong of the half that they did not learn, then Group DRO",
    paper="Pezeshki et al. 2024",
    paper_rule="val_inferred_groups",
    cost="1x + 2 T/epochs",
)
