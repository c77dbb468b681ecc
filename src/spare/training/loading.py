"""The batches of an epoch as tensors, made here or by loader processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare.data.task import Split
from spare.processes.world import World


def training_batches(
    split: Split, plan: list[np.ndarray], key: list[int], first: int, workers: int, world: World
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """The batches of one epoch from number `first` on: augmented, each from a generator of its own.

    Rows are of the whole batch, inputs those of this process's share of it. Data in memory is
    indexed here; anything else goes through a DataLoader and its processes.
    """
    mine = [rows[world.share(len(rows))] for rows in plan]
    of_rank = [] if world.size == 1 else [world.rank]
    loaded = _load(_BatchDataset(split, mine, key, of_rank), range(first, len(plan)), workers)
    yield from zip(plan[first:], loaded, strict=True)


def evaluation_batches(
    split: Split, batch_size: int, workers: int, rows: range | None = None
) -> tuple[int, Iterator[Tensor]]:
    """How many batches there are, and all examples, or these, in order, un-augmented."""
    everyone = np.arange(len(split)) if rows is None else np.asarray(rows)
    plan = [everyone[i : i + batch_size] for i in range(0, len(everyone), batch_size)]
    return len(plan), _load(_BatchDataset(split, plan, None), range(len(plan)), workers)


def _load(batches: _BatchDataset, steps: range, workers: int) -> Iterator[Tensor]:
    if batches.split.inputs.in_memory:
        return (batches[step] for step in steps)
    loader: Any = torch.utils.data.DataLoader(
        batches,
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),  # so that a transfer need not be waited for
    )
    return iter(loader)


class _BatchDataset(torch.utils.data.Dataset[Tensor]):
    """Batch number -> tensor: what a DataLoader's worker is asked for."""

    def __init__(
        self,
        split: Split,
        plan: list[np.ndarray],
        key: list[int] | None,
        of_rank: Sequence[int] = (),
    ):
        self.split, self.plan, self.key, self.of_rank = split, plan, key, of_rank

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Tensor:
        rng = None if self.key is None else np.random.default_rng([*self.key, step, *self.of_rank])
        return self.split.inputs.take(self.plan[step], rng)
