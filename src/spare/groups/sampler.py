"""SPARE's sampling for people's own training loops, also across processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch.distributed
from torch.utils.data import Sampler

from spare.errors import InputError
from spare.groups.weights import GroupSampling, Power
from spare.limits import check_seed


class ImportanceSampler(Sampler[int]):
    """Samples examples with replacement by inverse cluster size; hand it to a `DataLoader`.

    Call `set_epoch` before every epoch, as with `DistributedSampler`: the same seed and epoch give
    the same sample. `state_dict` counts the examples handed out; a `DataLoader` with worker
    processes asks for some before they are used, so when saving in the middle of an epoch with
    workers set the state's `position` to the examples that were really trained on.

    Parameters
    ----------
    groups : Groups or array of int, shape (examples,)
        What `infer_groups` returned, or any group ids. Plain ids all get the same mass, or, with
        `labels`, the same mass within their class.
    num_samples : int, optional
        Length of an epoch over all processes; by default the number of examples.
    seed : int
    num_replicas, rank : int, optional
        Each process takes its own stride of one common sample, so no two take the same part of it;
        found automatically when torch.distributed is running.
    labels : array of shape (examples,), optional
        Class labels; `Groups` brings its own.
    power : float or dict, optional
        Sampling power of all classes, or by class; by default the one that `infer_groups` chose.
    class_mass : str
        "equal", or "natural" for classes as frequent as they are in the data.

    Examples
    --------
    >>> sampler = ImportanceSampler([0, 0, 0, 0, 0, 0, 0, 1], num_samples=1000)
    >>> 400 < sum(index == 7 for index in sampler) < 600
    True
    """

    def __init__(
        self,
        groups: Any,
        *,
        num_samples: int | None = None,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        labels: Any = None,
        power: Power | None = None,
        class_mass: str = "equal",
    ):
        running = torch.distributed.is_available() and torch.distributed.is_initialized()
        if num_replicas is None:
            num_replicas = torch.distributed.get_world_size() if running else 1
        if rank is None:
            rank = torch.distributed.get_rank() if running else 0
        if num_replicas < 1 or not 0 <= rank < num_replicas:
            raise InputError(
                f"rank is from 0 to num_replicas - 1; got rank {rank} of {num_replicas}."
            )
        check_seed(seed)
        self._sampling = GroupSampling(groups, labels, power, class_mass)
        total = len(self._sampling.codes) if num_samples is None else num_samples
        if total < 1:
            raise InputError(f"num_samples is at least 1, not {total}.")
        self.num_replicas = num_replicas
        self.rank = rank
        self.seed = seed
        self.epoch = 0
        self.position = 0
        self._first = 0  # where the next epoch starts: after `load_state_dict`, in its middle
        self.num_samples = -(-total // num_replicas)  # the same for every process, rounded up

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng([self.seed, self.epoch])
        common = self._sampling.sample(self.num_samples * self.num_replicas, rng)
        mine = common[self.rank :: self.num_replicas]
        self.position, self._first = self._first, 0
        for index in mine[self.position :].tolist():
            self.position += 1
            yield index
        self.position = 0

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.position = self._first = 0

    def state_dict(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "num_samples": self.num_samples,
            "num_replicas": self.num_replicas,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        for name in ("num_samples", "num_replicas"):
            if state[name] != getattr(self, name):
                raise InputError(
                    f"{name} is {getattr(self, name)} here but {state[name]} in the saved state: "
                    f"make the sampler with the same {name}."
                )
        self.seed = state["seed"]
        self.epoch = state["epoch"]
        self.position = self._first = state["position"]
