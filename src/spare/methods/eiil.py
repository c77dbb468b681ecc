"""EIIL: environment inference for invariant learning, with Group DRO as its second half.

Creager, Jacobsen, Zemel: Environment Inference for Invariant Learning, ICML 2021.

    train plainly for T epochs; two environments between which its loss varies most
    (groups/environments.py)
    train a fresh model with Group DRO over the environments, both sampled with the same mass
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from spare.data.task import Task
from spare.groups.environments import environments
from spare.groups.mistakes import warn_of_few
from spare.groups.result import groups_from_parts
from spare.limits import CountOrNone, Positive
from spare.methods.gdro import TRAINER as GDRO
from spare.methods.method import Inference, Inferred, combined, sees
from spare.methods.reference import TRAIN_LESS, ReferenceOptions, train_reference
from spare.training.stages import Stages


@dataclass(frozen=True)
class EiilOptions(ReferenceOptions):
    #: Steps and learning rate of the environments' weights; 0 steps for the maximum itself.
    environment_steps: CountOrNone = 10_000
    environment_lr: Positive = 0.001
    #: Infer environments within each class, and take the worst case over class x environment.
    per_class: bool = False


def infer(task: Task, stages: Stages, options: EiilOptions) -> Inferred:
    reference = train_reference(task, stages, options)
    parts: dict[str, np.ndarray] = {}
    for name, split in task.splits().items():
        logits = stages.outputs(reference, split).logits.numpy()
        labels = np.asarray(split.labels)
        # Held-out examples go where the maximum puts them: only training's have weights s.
        steps = options.environment_steps if name == "train" else 0
        find = partial(_environments, logits, labels, steps, options, stages.seed)
        parts[name] = stages.once("inference", find)
    warn_of_few(parts["train"], "the second environment has", TRAIN_LESS)
    groups = groups_from_parts(
        parts["train"], task.train.labels, rank_names=("environment 1", "environment 2")
    )
    held_out = {
        name: np.asarray(task.splits()[name].labels) * 2 + part
        for name, part in parts.items()
        if name != "train"
    }
    return Inferred(
        groups,
        held_out,
        {"second_environment": int(parts["train"].sum())},
        environments=None if options.per_class else parts["train"],
        early=reference.last,
        early_epoch=options.reference_epochs,
    )


def _environments(
    logits: np.ndarray, labels: np.ndarray, steps: int, options: EiilOptions, seed: int
) -> np.ndarray:
    """The environment of every example, 0 or 1."""
    subsets = [labels == c for c in np.unique(labels)] if options.per_class else [labels >= 0]
    part = np.zeros(len(labels), dtype=np.int64)
    for rows in subsets:
        part[rows] = environments(
            logits[rows], labels[rows], steps=steps, lr=options.environment_lr, seed=seed
        )
    return part


INFERENCE = Inference("eiil", sees("none"), infer, EiilOptions)
METHOD = combined(
    INFERENCE,
    GDRO,
    name="eiil",
    title="environments that an early model's loss varies most between, then Group DRO",
    paper="Creager et al. 2021",
    cost="1x + T/epochs",
)
