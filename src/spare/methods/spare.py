"""SPARE: separate early, then resample.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024.

    train plainly for T_init epochs; take every training example's output (eval, not augmented)
    cluster the outputs of each class (groups/clusters.py)
    train a fresh model, sampling example i of cluster V in class c with probability ~ |V|^-power_c,
    every class with the same mass

How T_init is chosen is in separation.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from spare.data.task import Task
from spare.errors import InputError, unknown
from spare.groups.clusterers import clusterer_named
from spare.groups.weights import CLASS_MASSES, GroupSampling
from spare.limits import check_ranges
from spare.methods.method import Fitted, Inference, Inferred, Trainer, combined
from spare.methods.outputs import clustered, warn_of_concerns
from spare.methods.outputs import infer as infer_from_outputs
from spare.methods.reference import early_settings
from spare.methods.separation import (
    Separation,
    SeparationOptions,
    choose,
    early_outputs,
    separations,
)
from spare.training.batches import shuffled, weighted
from spare.training.loop import Objective, cross_entropy
from spare.training.stages import Stages


@dataclass(frozen=True)
class SamplingOptions:
    #: Mass of a class: equal, as in the paper, or natural, the share of the examples that it has.
    class_mass: str = "equal"
    #: Continue from the early weights instead of fresh ones.
    warm_start: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.class_mass not in CLASS_MASSES:
            raise unknown("class_mass", self.class_mass, CLASS_MASSES)


def infer(task: Task, stages: Stages, options: SeparationOptions) -> Inferred:
    """Train a little, and cluster what the model says of each class."""
    if task.holds_outputs:
        return infer_from_outputs(task, stages, options)
    clusterer_named(options.clusterer)  # one that cannot be used is refused before any training
    tried = separations(task, stages, options, partial(separate, task, stages, options))
    chosen = choose(tried, task, stages, options)
    warn_of_concerns(chosen.groups, task)
    return Inferred(
        chosen.groups,
        {
            name: chosen.assign(stages, split, options)
            for name, split in task.splits().items()
            if name != "train"
        },
        {
            "separated_at": chosen.epoch,
            "weight_seed": chosen.weight_seed,
            "early_lr": chosen.lr,
        },
        # The groups are those of a model with these initial weights: training starts from the same.
        weight_seed=chosen.weight_seed,
        early=chosen.models[0].last if len(chosen.models) == 1 else None,
        early_epoch=chosen.epoch,
        early_outputs=early_outputs(tried, chosen),
    )


def separate(
    task: Task,
    stages: Stages,
    options: SeparationOptions,
    epoch: int,
    weight_seed: int = 0,
    continues: str = "",
) -> Separation:
    """The groups after this many epochs of plain training."""
    settings = early_settings(stages.settings, options.early_lr, options.early_weight_decay)
    model = stages.train(
        f"early/{weight_seed}-{epoch}",
        task,
        shuffled(len(task.train), settings.batch_size),
        settings=replace(settings, epochs=epoch),
        continues=continues,
        weight_seed=weight_seed,
    )
    outputs = stages.outputs(model, task.train)
    groups = clustered(outputs.named(options.output), task, stages, options)
    return Separation(weight_seed, epoch, settings.lr, (model,), groups, outputs.logits)


def train(
    task: Task,
    stages: Stages,
    inferred: Inferred,
    options: SamplingOptions,
    *,
    objective: Objective = cross_entropy,
) -> Fitted:
    """Train a fresh model on examples that are sampled by the inverse size of their cluster."""
    if options.warm_start and inferred.early is None:
        raise InputError("warm_start needs one early model to continue from, and there is none.")
    with stages.timed("inference"):
        sampling = GroupSampling(inferred.groups, class_mass=options.class_mass)
        batches = weighted(sampling, len(task.train), stages.settings.batch_size)
    trained = stages.train(
        "train",
        task,
        batches,
        objective=objective,
        start=inferred.early if options.warm_start else None,
    )
    return Fitted(trained, inferred, sampling.probabilities)


INFERENCE = Inference(
    "spare",
    lambda options: "val" if options.separate_at == "val" else "none",
    infer,
    SeparationOptions,
)
TRAINER = Trainer("spare", train, SamplingOptions)
METHOD = combined(
    INFERENCE,
    TRAINER,
    name="spare",
    title="SPARE: cluster early outputs, sample clusters by inverse size",
    paper="Yang et al. 2024",
    cost="1x + T/epochs",
)
