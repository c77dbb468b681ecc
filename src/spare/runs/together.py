"""A run of several processes: one opens the folder and writes, the others work along."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from spare.data.task import Task
from spare.errors import SpareError
from spare.processes.world import World
from spare.records.record import DiscoveryRecord

#: In the folder that is being filled; only who leads has a record in the end.
Work = Callable[[Path], DiscoveryRecord | None]


def led(
    world: World,
    work: Work,
    in_folder: Callable[[Callable[[Path], DiscoveryRecord]], DiscoveryRecord],
) -> DiscoveryRecord:
    """The record, in every process.

    Parameters
    ----------
    work
        Done by all processes at the same time.
    in_folder
        Opens the folder and does what it is given there, unless it is done already; called by the
        process that leads.
    """
    started: list[Path] = []

    def lead(place: Path) -> DiscoveryRecord:
        started.append(world.once(lambda: place))
        record = work(place)
        assert record is not None
        return record

    record: DiscoveryRecord | None = None
    if world.leads:
        try:
            record = in_folder(lead)
        except SpareError as error:
            if not started:
                world.once(partial(_refuse, error))  # in all processes
            raise
        if not started:
            world.once(lambda: None)
    else:
        place: Path | None = world.once(lambda: None)  # what the one that leads says
        if place is not None:
            work(place)
    known = world.once(lambda: record)
    assert known is not None
    return known


def _refuse(error: SpareError) -> None:
    raise error


def check_same_data(world: World, task: Task) -> None:
    """Refuse processes that have loaded different data: other labels, or first and last inputs."""
    if world.size > 1:
        world.agree("data", _digests(task))


def _digests(task: Task) -> dict[str, str]:
    digests = {}
    for name, split in task.splits().items():
        digest = hashlib.sha256(np.asarray(split.labels).tobytes())
        for column in (split.attributes or {}).values():
            digest.update(np.asarray(column).tobytes())
        ends = split.inputs.take(np.array([0, len(split) - 1])).contiguous()
        digest.update(ends.view(-1).view(torch.uint8).numpy().tobytes())
        digests[name] = f"{len(split)} examples, {digest.hexdigest()[:8]}"
    return digests
