"""Clustering inside a job of several processes: each has a share of the examples, and keeps it.

Every process calls `infer_groups` with its own outputs and labels. What travels between them are
sums over points (as many numbers as centers have), a few hundred points that are far from others,
and the points that silhouettes are measured from. Classes of at most `MANY` examples are gathered
in every process and clustered as in one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from spare.errors import InputError, SpareError, SpareWarning
from spare.groups.arrays import as_numpy, checked_points, class_labels, rows_by_class
from spare.groups.clusterers import DEFAULT
from spare.groups.clusters import concerns, silhouette_power
from spare.groups.one_class import cluster_class, resolved
from spare.groups.points import Points
from spare.groups.result import Groups, groups_from_clusters
from spare.groups.weights import Power, power_of
from spare.limits import Range, check_seed, whole_number
from spare.processes.losses import told_of_losses
from spare.processes.world import current

#: Seconds that processes wait for one that does not answer.
PATIENCE = 60.0


class SharedPoints(Points):
    """This process's share of some points; all processes of the group have one."""

    def __init__(self, array: np.ndarray, group: Any):
        import torch.distributed as dist

        super().__init__(array)
        self.group = group
        self.share = dist.get_rank(group)

    def total(self, values: np.ndarray) -> np.ndarray:
        return _reduced(values, self.group, "SUM")

    def largest(self, value: float) -> float:
        return float(_reduced(np.array([value]), self.group, "MAX")[0])

    def gather(self, values: np.ndarray) -> np.ndarray:
        import torch
        import torch.distributed as dist

        with told_of_losses():
            lengths = [
                torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(self.group))
            ]
            dist.all_gather(lengths, torch.tensor([len(values)]), group=self.group)
            counts = [int(length) for length in lengths]
            # Types that not every backend can send travel as bytes.
            row = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=int))
            mine = torch.zeros(max(counts) * row, dtype=torch.uint8)
            flat = np.ascontiguousarray(values).view(np.uint8).ravel()
            mine[: len(flat)] = torch.from_numpy(flat)
            parts = [torch.empty_like(mine) for _ in counts]
            dist.all_gather(parts, mine, group=self.group)
        arrays = [
            part.numpy()[: count * row].view(values.dtype).reshape(count, *values.shape[1:])
            for part, count in zip(parts, counts, strict=True)
        ]
        return np.concatenate(arrays)


def shared(array: np.ndarray) -> Points:
    """Rows of which every process of the job has some; of a process that is alone, all."""
    world = current()
    return Points(array) if world.size == 1 else SharedPoints(array, world.group)


def _reduced(values: np.ndarray, group: Any, operation: str) -> np.ndarray:
    import torch
    import torch.distributed as dist

    tensor = torch.from_numpy(np.array(values))
    with told_of_losses():
        dist.all_reduce(tensor, getattr(dist.ReduceOp, operation), group=group)
    return tensor.numpy()


def infer_groups(
    outputs: Any,
    labels: Any,
    *,
    k: int | None = None,
    k_max: int = 5,
    power: Power | None = None,
    clusterer: Any = DEFAULT,
    seed: int = 0,
    patience: float = PATIENCE,
    group: Any = None,
) -> Groups:
    """Cluster the outputs of each class, of which every process has a share.

    To be called in every process of a job with `torch.distributed` running, with its own share of
    the examples and the same options.

    Parameters
    ----------
    outputs, labels, k, k_max, power, clusterer, seed
        As in `spare.infer_groups`.
    patience : float
        Seconds that processes wait for one that does not answer.
    group : object, optional
        Connections of all processes, as torch.distributed has them; by default new ones are made.

    Returns
    -------
    Groups
        Ids of the examples that are here; the evidence is of all examples, and the same everywhere.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise InputError(
            "engine 'processes' needs torch.distributed running: start the job with torchrun, and "
            "call torch.distributed.init_process_group first."
        )
    if group is not None:
        return _infer(outputs, labels, k, k_max, power, clusterer, seed, group)
    with told_of_losses():
        group = dist.new_group(timeout=timedelta(seconds=patience), backend="gloo")
    try:
        return _infer(outputs, labels, k, k_max, power, clusterer, seed, group)
    finally:
        dist.destroy_process_group(group)


def _infer(
    outputs: Any,
    labels: Any,
    k: int | None,
    k_max: int,
    power: Power | None,
    clusterer: Any,
    seed: int,
    group: Any,
) -> Groups:
    problem, points, class_of = "", np.empty((0, 0)), np.empty(0)
    try:
        given = as_numpy(outputs, "outputs")
        # Where examples are few, a process may have none of them.
        points = given if given.ndim == 2 and len(given) == 0 else checked_points(given)
        class_of = class_labels(labels, len(points))
        seed = check_seed(seed)
        k = None if k is None else whole_number("k", k, Range(1))
        k_max = whole_number("k_max", k_max, Range(2)) if k is None else k_max
        resolved(clusterer, seed)
    except SpareError as error:  # the others must hear of it, or they would wait
        problem = str(error)
    rows = rows_by_class(class_of) if not problem else {}
    name = clusterer if isinstance(clusterer, str) else type(clusterer).__name__
    told = dict(power) if isinstance(power, Mapping) else power
    classes = _agreed(problem, rows, points, (k, k_max, name, seed, told), group)
    powers_given = {} if power is None else {label: power_of(power, label) for label in classes}
    clusters = {}
    for label in classes:
        here = points[rows[label]] if label in rows else points[:0]
        share = SharedPoints(here, group)
        clusters[label] = cluster_class(share, k=k, k_max=k_max, clusterer=clusterer, seed=seed)
    powers = {
        label: powers_given[label] if powers_given else silhouette_power(clustered)
        for label, clustered in clusters.items()
    }
    groups = groups_from_clusters(clusters, class_of, powers=powers, width=points.shape[1])
    if SharedPoints(points[:0], group).share == 0:
        for concern in concerns(groups):
            warnings.warn(concern, SpareWarning, stacklevel=4)
    return groups


def _agreed(
    problem: str,
    rows: dict[Any, np.ndarray],
    points: np.ndarray,
    options: tuple[Any, ...],
    group: Any,
) -> list[Any]:
    """The classes of all processes, if these can work together."""
    import torch.distributed as dist

    mine = (problem, list(rows), points.shape[1], options)
    every: list[Any] = [None] * dist.get_world_size(group)
    with told_of_losses():
        dist.all_gather_object(every, mine, group=group)
    for rank, (said, *_) in enumerate(every):
        if said:
            raise InputError(f"process {rank}: {said}")
    for what, place in (("values per example", 2), ("options", 3)):
        values = [told[place] for told in every]
        if any(value != values[0] for value in values):
            other = next(rank for rank, value in enumerate(values) if value != values[0])
            raise InputError(
                f"processes 0 and {other} were started with different {what}: {values[0]} and "
                f"{values[other]}."
            )
    if len({type(label) for told in every for label in told[1]}) > 1:
        raise InputError("some processes have numbers as labels, and others have text.")
    return sorted({label for told in every for label in told[1]})
