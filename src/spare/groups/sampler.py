"""SPARE's sampling for people's own training loops, also across processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch.distributed
from torch.utils.data import Sampler

from spare.errors import InputError
from spare.groups.weights import GroupSampling, Power
from spare.limits import Range, check_seed, half_of_memory, whole_number
from spare.text import shown

#: Memory that sampling takes for each example of an epoch.
BYTES = 32
EPOCH = Range(0, 2**32 - 1)
REPLICAS = Range(1, 1_000_000)
STATE = ("seed", "epoch", "position", "num_samples", "num_replicas")


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
        self.num_replicas = whole_number("num_replicas", num_replicas, REPLICAS)
        self.rank = whole_number("rank", rank, Range(0, self.num_replicas - 1))
        self.seed = check_seed(seed)
        self._sampling = GroupSampling(groups, labels, power, class_mass)
        total = len(self._sampling.codes) if num_samples is None else num_samples
        total = whole_number("num_samples", total, Range(1, half_of_memory() // BYTES))
        self.epoch = 0
        self.position = 0
        self._first = 0  # where the next epoch starts: after `load_state_dict`, in its middle
        self.num_samples = -(-total // self.num_replicas)  # the same for every process, rounded up

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
        epoch = whole_number("an epoch", epoch, EPOCH)
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
        if not isinstance(state, Mapping) or any(name not in state for name in STATE):
            raise InputError(
                f"a sampler's state is a dict with {', '.join(STATE)}, not {shown(state)}."
            )
        for name in ("num_samples", "num_replicas"):
            saved = whole_number(f"{name} of the saved state", state[name], Range(1))
            if saved != getattr(self, name):
                raise InputError(
                    f"{name} is {getattr(self, name)} here but {shown(saved)} in the saved state: "
                    f"make the sampler with the same {name}."
                )
        seed = check_seed(state["seed"])
        epoch = whole_number("the epoch of the saved state", state["epoch"], EPOCH)
        position = whole_number(
            "the position of the saved state", state["position"], Range(0, self.num_samples)
        )
        # Only now, so that a state that is refused changes nothing.
        self.seed, self.epoch = seed, epoch
        self.position = self._first = position
