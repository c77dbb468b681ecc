"""Outputs from models that did not see the example: halved at random, trained on the other half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from spare.data.folds import halves
from spare.data.task import Task
from spare.groups.arrays import rows_by_class
from spare.groups.weights import GroupSampling
from spare.training.batches import weighted
from spare.training.loop import Trained
from spare.training.settings import Settings
from spare.training.stages import Stages


def cross_fitted(
    task: Task,
    stages: Stages,
    settings: Settings,
    times: int,
    shorter: Sequence[Trained] = (),
) -> tuple[tuple[Trained, ...], Tensor]:
    """Each example's logits, the mean of models that were trained on the other half.

    Parameters
    ----------
    times
        So many halvings, with two models each.
    shorter
        Models of the same halvings with fewer epochs, to be continued.
    """
    labels = np.asarray(task.train.labels)
    logits = torch.zeros(len(labels), len(task.class_names))
    models: list[Trained] = []
    for fold, (rows, others) in enumerate(_halvings(labels, times, stages.seed)):
        model = stages.train(
            f"early/{settings.lr:g}-{settings.epochs}-{fold}",
            replace(task, train=task.train.subset(rows)),
            # Classes in equal numbers, or a rare one is learned too little to fall apart.
            weighted(GroupSampling(labels[rows]), len(rows), settings.batch_size),
            settings=settings,
            continues=shorter[fold].name if shorter else "",
            weight_seed=fold,
        )
        logits[others] += stages.outputs(model, task.train.subset(others)).logits
        models.append(model)
    return tuple(models), logits / times


def loss_over_classes(logits: Tensor, labels: np.ndarray) -> float:
    """Cross-entropy, every class counting the same."""
    losses = cross_entropy(logits, torch.as_tensor(labels), reduction="none").numpy()
    return float(np.mean([losses[rows].mean() for rows in rows_by_class(labels).values()]))


def _halvings(labels: np.ndarray, times: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`times` random halvings, each class in half: what to train on, and what to look at."""
    rng = np.random.default_rng([seed, 0xF01D])
    # The only example of a class is trained on in both halves: no model can do without its class.
    alone = np.flatnonzero(np.bincount(labels)[labels] == 1)
    for _ in range(times):
        first, second = halves(labels, rng)
        yield np.union1d(first, alone), second
        yield np.union1d(second, alone), first
