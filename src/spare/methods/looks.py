"""What early models say at one moment, a look, and what is put together of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare.data.task import Split
from spare.engines.processes import shared
from spare.errors import InputError
from spare.groups.arrays import rows_by_class
from spare.groups.blocks import Block
from spare.groups.result import Groups
from spare.methods.method import EarlyOutputs
from spare.methods.outputs import ClusteringOptions, early_outputs
from spare.training.loop import Trained
from spare.training.outputs import Outputs
from spare.training.stages import Stages


@dataclass(frozen=True)
class Look:
    """What early models say of the training examples at one moment, and how that clusters."""

    epoch: int
    lr: float
    #: One, or with cross-fitting one for each half.
    models: tuple[Trained, ...]
    #: Of this process's share of the training examples, shifted by the offsets.
    logits: Tensor
    #: What each training example is taken for.
    predicted: np.ndarray
    offsets: Tensor
    #: Of the classes that had not fallen apart before.
    groups: Groups
    blocks: Mapping[Any, Block]
    #: Of models that did not see the example: their loss, and how deep each class's mistakes lie.
    loss: float = math.nan
    depths: Mapping[Any, float] | None = None

    def of(self, stages: Stages, split: Split, output: str) -> Tensor:
        """The named output of held-out examples, by the mean of the same models' logits.

        Of those that this process evaluates.
        """
        wide = output == "features"
        of_models = [
            stages.outputs(model, split, features=wide, shared=True) for model in self.models
        ]
        logits = torch.stack([outputs.logits for outputs in of_models]).mean(0)
        return Outputs(logits + self.offsets, of_models[0].hidden).named(output)


def evidence(looks: Sequence[Look], chosen: Mapping[Any, Look]) -> dict[Any, Block]:
    """The block of every class by the look that it keeps.

    Its depth is that at the look whose models are the best fitted: before, margins are noise, and
    after, all of them are large.
    """
    blocks = {label: look.blocks[label] for label, look in chosen.items()}
    fitted = min(looks, key=lambda look: look.loss)
    if fitted.depths is None:
        return blocks
    return {label: replace(block, depth=fitted.depths[label]) for label, block in blocks.items()}


@dataclass(frozen=True)
class Separation:
    """The look that each class keeps, and the groups put together from them."""

    looks: tuple[Look, ...]
    #: By class.
    chosen: Mapping[Any, Look]
    blocks: Mapping[Any, Block]
    groups: Groups

    def assign(self, stages: Stages, split: Split, options: ClusteringOptions) -> np.ndarray:
        """The groups of held-out examples, each by the look that its class keeps."""
        labels = np.asarray(split.labels)
        for label in np.unique(labels):
            if label not in self.chosen:
                raise InputError(f"class {label} has no training example to learn it from.")
        here = labels[stages.share_of(split)]
        points = self._joined(here, lambda look: look.of(stages, split, options.output))
        ids = self.groups.assign(points, here) if len(here) else np.empty(0, dtype=np.int64)
        return shared(ids).gather(ids)

    def early_outputs(self, stages: Stages, split: Split) -> tuple[EarlyOutputs, ...]:
        """What was said at each look, and last what each class was clustered by."""
        at_looks = self.looks
        if len({look.epoch for look in self.looks}) < len(self.looks):
            at_looks = ()  # rates were tried, not epochs
        here = np.asarray(split.labels)[stages.share_of(split)]
        last = self._joined(here, lambda look: look.logits).softmax(1).numpy()
        return (
            *(early_outputs(look.epoch, look.logits.softmax(1).numpy()) for look in at_looks),
            early_outputs(max(self.epochs().values()), last, here),
        )

    def predicted(self) -> np.ndarray:
        """What each training example is taken for, by the look that its class keeps."""
        labels = self.groups.labels
        return self._joined(labels, lambda look: torch.from_numpy(look.predicted)).numpy()

    def epochs(self) -> dict[Any, int]:
        return {label: look.epoch for label, look in self.chosen.items()}

    def _joined(self, labels: np.ndarray, of: Callable[[Look], Tensor]) -> Tensor:
        """Every example's row by the look that its class keeps."""
        looks = {id(look): look for look in self.chosen.values()}  # which classes may share
        by_look = {key: of(look) for key, look in looks.items()}
        joined = torch.zeros_like(next(iter(by_look.values())))
        for label, rows in rows_by_class(labels).items():
            joined[rows] = by_look[id(self.chosen[label])][rows]
        return joined
