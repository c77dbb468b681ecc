"""When SPARE separates the groups: how long the early model is trained, and what it is asked.

- separate_at=auto: look after every early epoch until each class has fallen apart by evidence that
  needs no group label (groups/blocks.py), within a budget. Each class keeps the look at which it
  was clearest: classes need not share one.
- separate_at=T: one look after T epochs, as in the paper.
- separate_at=val: of the candidate epochs, the one whose clusters of validation's outputs find most
  of validation's true minorities, as in the paper.
- cross_fit=N: the same with outputs of models that did not see the example. With early_lrs, looks
  differ in the learning rate instead of the epoch.
- early_layers=head: the early model is a linear head on the features of the network as it is given.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch

from spare.data.task import Task
from spare.engines.processes import shared
from spare.errors import InputError, SpareWarning, unknown
from spare.groups.arrays import rows_by_class
from spare.groups.blocks import CLEAR, class_offsets, clusters_of, depths, powers_of
from spare.groups.clusters import infer_groups
from spare.groups.result import Groups, groups_from_clusters
from spare.limits import Count, NotNegative, Positive, Range, Share
from spare.methods.cross_fit import cross_fitted, loss_over_classes
from spare.methods.looks import Look, Separation, evidence
from spare.methods.outputs import (
    ClusteringOptions,
    clustered,
    weighs_by_evidence,
)
from spare.methods.reference import OwnDecay
from spare.training.batches import shuffled
from spare.training.loop import Trained
from spare.training.metrics import smallest_recall
from spare.training.outputs import Outputs
from spare.training.settings import Settings, early_settings
from spare.training.stages import Stages

EARLY_LAYERS = ("all", "head")
#: In fewer steps than this a network learns nothing, not even a shortcut.
LEAST_STEPS = 25
#: A cross-fitted model whose loss on what it did not see is so many times the lowest has only
#: become surer of itself: its blocks are clear whether there is a shortcut or not.
OVERSURE = 1.1


@dataclass(frozen=True)
class SeparationOptions(ClusteringOptions):
    #: T_init: an epoch, or "auto" (by evidence, no group label) or "val" (by validation groups).
    separate_at: Count | str = "auto"
    #: "auto" only: the most early epochs, as a share of the epochs of training.
    early_budget: Share = 0.3
    #: "val" only: the epochs among which it chooses.
    candidates: tuple[Count, ...] = (1, 2)
    #: Shift the early model's logits so that it predicts classes as often as they occur.
    match_classes: bool = True
    #: Learning rate and weight decay of the early epochs; 0 and -1 for those of the settings.
    early_lr: NotNegative = 0.0
    early_weight_decay: OwnDecay = -1.0
    #: How often the training set is halved so that each example's output comes from models that
    #: did not see it; 0 for the outputs of one model that saw all. For heads on given features,
    #: which learn the examples that they are trained on by heart too soon.
    cross_fit: Annotated[int, Range(0, 1000)] = 0
    #: With cross_fit: learning rates tried in turn, one epoch each, until every class has fallen
    #: apart, or the loss on what the models did not see rises; none for early_lr, epoch by epoch.
    early_lrs: tuple[Positive, ...] = ()
    #: What the early model trains: "all" layers, or only a linear "head" on the features that the
    #: network gives before any training. For pretrained networks: trained as a whole, they know the
    #: examples that a shortcut misleads by heart before the shortcut shows.
    early_layers: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.separate_at, str) and self.separate_at not in ("val", "auto"):
            raise InputError(f"separate_at is an epoch, 'val' or 'auto', not {self.separate_at!r}.")
        if self.early_layers not in EARLY_LAYERS:
            raise unknown("early_layers", self.early_layers, EARLY_LAYERS)
        if self.output == "features" and self.early_layers == "head":
            raise InputError(
                "a head changes no features: with output=features, set early_layers=all and "
                "cross_fit=0."
            )
        if self.cross_fit and self.output == "features":
            raise InputError(
                "features of different models cannot be averaged: with output=features, set "
                "cross_fit=0."
            )
        if self.tries_rates and self.separate_at != "auto":
            raise InputError(
                "early_lrs are tried until classes have fallen apart: with separate_at="
                f"{self.separate_at}, set cross_fit=0, or early_lrs= for one rate."
            )
        if not self.candidates:
            raise InputError("candidates needs at least one number.")

    @property
    def tries_rates(self) -> bool:
        """Whether looks differ in the learning rate instead of the epoch."""
        return self.cross_fit > 0 and bool(self.early_lrs)

    def looks_after(self, steps: int, epochs: int) -> list[int]:
        """The epochs after which to look, when an epoch has so many steps and training so many."""
        if isinstance(self.separate_at, int):
            return [self.separate_at]
        # Where an epoch is too short to learn anything, several count as one.
        factor = math.ceil(LEAST_STEPS / steps)
        if self.separate_at == "val":
            return sorted({factor * epoch for epoch in self.candidates})
        most = max(round(self.early_budget * epochs), 2 * factor)
        return list(range(factor, most + 1, factor))


def separate(task: Task, stages: Stages, options: SeparationOptions) -> Separation:
    """Train a little, look, and go on until every class has fallen apart or the budget is used."""
    looks: list[Look] = []
    chosen: dict[Any, Look] = {}
    for look in _looks(task, stages, options, chosen):
        looks.append(look)
        for label, block in look.blocks.items():
            if label not in chosen or block.clarity > chosen[label].blocks[label].clarity:
                chosen[label] = look
        if options.separate_at == "auto" and not _unclear(chosen):
            break
    if options.separate_at == "val":
        best = max(looks, key=lambda look: _recall_on_validation(look, task, stages, options))
        chosen = dict.fromkeys(chosen, best)
    labels = np.asarray(task.train.labels)
    clusters = {label: clusters_of(chosen[label].groups)[label] for label in rows_by_class(labels)}
    powers = {label: look.groups.evidence[label].power for label, look in chosen.items()}
    blocks = evidence(looks, chosen)
    if weighs_by_evidence(options):
        powers = powers_of(blocks)
    groups = groups_from_clusters(clusters, labels, powers=powers, width=looks[0].groups.width)
    return Separation(tuple(looks), chosen, blocks, groups)


def _unclear(chosen: Mapping[Any, Look]) -> list[Any]:
    return [label for label, look in chosen.items() if look.blocks[label].clarity < CLEAR]


def _looks(
    task: Task, stages: Stages, options: SeparationOptions, chosen: Mapping[Any, Look]
) -> Iterator[Look]:
    """One look after the other; of classes that have fallen apart there is nothing more to see."""
    lowest = math.inf
    models: tuple[Trained, ...] = ()
    for settings in _moments(stages.settings, options, len(task.train)):
        if options.cross_fit:
            shorter = () if options.tries_rates else models
            models, logits = cross_fitted(task, stages, settings, options.cross_fit, shorter)
            loss = loss_over_classes(logits, task.train.labels)
            if loss > OVERSURE * lowest:
                return
            lowest = min(loss, lowest)
            outputs = Outputs(logits[stages.share_of(task.train)])
            look = _look(task, stages, options, chosen, settings, models, outputs)
            shifted = (logits + look.offsets).numpy()
            yield replace(look, loss=loss, depths=depths(shifted, np.asarray(task.train.labels)))
        else:
            model = stages.train(
                f"early/{settings.epochs}",
                task,
                shuffled(len(task.train), settings.batch_size),
                settings=settings,
                continues=models[0].name if models else "",
            )
            models = (model,)
            wide = options.output == "features"
            outputs = stages.outputs(model, task.train, features=wide, shared=True)
            yield _look(task, stages, options, chosen, settings, models, outputs)


def _moments(settings: Settings, options: SeparationOptions, examples: int) -> list[Settings]:
    """The trainings after which to look, each longer than the last or with a higher rate."""
    if options.tries_rates:
        rates = sorted(options.early_lrs)
        at = [early_settings(settings, lr, options.early_weight_decay) for lr in rates]
        return [replace(one, epochs=1) for one in at]
    early = early_settings(settings, options.early_lr, options.early_weight_decay)
    seen = examples / 2 if options.cross_fit else examples
    steps = math.ceil(seen / early.batch_size)
    looks = options.looks_after(steps, early.epochs)
    return [replace(early, epochs=epoch) for epoch in looks]


def _look(
    task: Task,
    stages: Stages,
    options: SeparationOptions,
    chosen: Mapping[Any, Look],
    settings: Settings,
    models: tuple[Trained, ...],
    outputs: Outputs,
) -> Look:
    labels = np.asarray(task.train.labels)
    here = labels[stages.share_of(task.train)]
    offsets = torch.zeros(outputs.logits.shape[1])
    if options.match_classes:
        offsets = torch.as_tensor(class_offsets(shared(outputs.logits.numpy()), labels)).float()
    outputs = Outputs(outputs.logits + offsets, outputs.hidden)
    predicted = outputs.logits.argmax(1).numpy()
    predicted = shared(predicted).gather(predicted)
    looked_at = np.unique(labels)
    if options.separate_at == "auto" and chosen:
        looked_at = np.array(_unclear(chosen))
    rows, rows_here = (np.flatnonzero(np.isin(of, looked_at)) for of in (labels, here))
    groups, blocks = clustered(
        outputs.named(options.output)[rows_here], here[rows_here], labels[rows], predicted[rows],
        task, stages, options,
    )  # fmt: skip
    # Of the outputs only the logits are kept: features of several looks may fill the memory.
    return Look(
        settings.epochs, settings.lr, models, outputs.logits, predicted, offsets, groups, blocks
    )


def _recall_on_validation(
    look: Look, task: Task, stages: Stages, options: SeparationOptions
) -> float:
    """How much of validation's true minorities lies outside the largest clusters of its outputs."""
    if task.val is None:
        raise InputError("separate_at='val' needs a validation split with group labels.")
    here, labels = look.of(stages, task.val, options.output).numpy(), task.val.labels
    outputs = shared(here).gather(here)

    def find() -> Groups:
        with warnings.catch_warnings():  # these clusters are looked at, and never used
            warnings.simplefilter("ignore", SpareWarning)
            return infer_groups(
                outputs, labels, k=options.k or None, k_max=options.k_max,
                clusterer=options.clusterer, seed=stages.seed,
            )  # fmt: skip

    clusters = stages.once("inference", find)
    return smallest_recall(task.val.labels, task.groups(task.val), clusters.in_majority())
