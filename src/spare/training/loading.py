"""The batches of an epoch as tensors on the device, made here or by loader processes.

On the host, everything is done to a batch where it is loaded. To a device it is sent raw, as bytes
where images are bytes, without being waited for, and cropped, flipped and scaled there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import Inputs, in_two_steps
from spare.data.task import Split
from spare.processes.world import World
from spare.training.device import HOST, sent

#: Batches that are made at once where data is in memory, and how many bytes they may take.
AHEAD, AHEAD_BYTES = 16, 2**23


def training_batches(
    split: Split,
    plan: list[np.ndarray],
    key: list[int],
    first: int,
    workers: int,
    world: World,
    device: torch.device,
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """The batches of one epoch from number `first` on: augmented, each from a generator of its own.

    Rows are of the whole batch, inputs those of this process's share of it. Data in memory is
    indexed here; anything else goes through a DataLoader and its processes.
    """
    mine = [rows[world.share(len(rows))] for rows in plan]
    key_of = _Key(key, [] if world.size == 1 else [world.rank])
    loaded = _load(split.inputs, mine, key_of, range(first, len(plan)), workers, device)
    yield from zip(plan[first:], loaded, strict=True)


def evaluation_batches(
    split: Split, batch_size: int, workers: int, device: torch.device, rows: range | None = None
) -> tuple[int, Iterator[Tensor]]:
    """How many batches there are, and all examples, or these, in order, un-augmented."""
    everyone = np.arange(len(split)) if rows is None else np.asarray(rows)
    plan = [everyone[i : i + batch_size] for i in range(0, len(everyone), batch_size)]
    return len(plan), _load(split.inputs, plan, _Key(None), range(len(plan)), workers, device)


def _load(
    inputs: Inputs,
    plan: list[np.ndarray],
    key: _Key,
    steps: range,
    workers: int,
    device: torch.device,
) -> Iterator[Tensor]:
    if device.type == HOST.type:
        made = _loaded(_BatchDataset(inputs, plan, key), steps, workers)
    else:
        raw, rest = in_two_steps(inputs)
        batches = _loaded(_BatchDataset(raw, plan, key), steps, workers)
        made = (
            _channels_last(rest(sent(batch, device), key.generator(step)))
            for step, batch in zip(steps, batches, strict=True)
        )
    return (batch[: len(plan[step])] for step, batch in zip(steps, made, strict=True))


def _loaded(batches: _BatchDataset, steps: range, workers: int) -> Iterator[Tensor]:
    if batches.inputs.in_memory:
        return _some_at_once(batches, steps)
    loader: Any = torch.utils.data.DataLoader(
        batches,
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),  # so that a transfer need not be waited for
    )
    return iter(loader)


def _some_at_once(batches: _BatchDataset, steps: range) -> Iterator[Tensor]:
    """Small batches are made several at a time: the first after a step of the network takes a few
    times as long as those that follow at once, for which code and data are in the core's cache."""
    ahead = 1
    while steps:
        made = [batches[step] for step in steps[:ahead]]
        steps = steps[ahead:]
        ahead = max(1, min(AHEAD, AHEAD_BYTES // max(1, made[0].nbytes)))
        yield from made


def _channels_last(batch: Tensor) -> Tensor:
    return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch


class _Key:
    """Gives every batch a generator of its own, the same wherever it is asked for; or none."""

    def __init__(self, key: list[int] | None, of_rank: Sequence[int] = ()):
        self.key, self.of_rank = key, of_rank

    def generator(self, step: int) -> np.random.Generator | None:
        if self.key is None:
            return None
        return np.random.default_rng([*self.key, step, *self.of_rank])


class _BatchDataset(torch.utils.data.Dataset[Tensor]):
    """Batch number -> tensor: what a DataLoader's worker is asked for."""

    def __init__(self, inputs: Inputs, plan: list[np.ndarray], key: _Key):
        self.inputs, self.plan, self.key = inputs, plan, key

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Tensor:
        rows = self.plan[step]
        # Of a batch that is smaller than the number of processes, some have no example. They take
        # one for its shape, which `_load` cuts off.
        return self.inputs.take(rows if len(rows) else np.arange(1), self.key.generator(step))
