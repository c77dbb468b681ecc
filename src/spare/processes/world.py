"""The processes that do one job together: which of them this is, and what they tell each other.

Like torch.distributed itself, a process is in one world at a time, `current()`: alone, unless it
has joined others (`joined`). Alone, everything here gives back what it was given.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spare.errors import InputError, Interrupted, RunError, SpareError, reason
from spare.processes.environment import started_together
from spare.processes.losses import Lost, looks_like_a_loss, told_of_losses
from spare.processes.watch import Watch
from spare.text import printable

if TYPE_CHECKING:
    from torch import Tensor

Value = TypeVar("Value")

#: What others wait at most for the work of one process, such as clustering; a process that ends is
#: noticed at once, however long this is.
PATIENCE = timedelta(hours=2)
#: How long they wait for all of them to have started.
START = timedelta(minutes=5)
INTERFACE = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True)
class World:
    """Some processes, and which of them this is."""

    rank: int = 0
    size: int = 1
    #: Among the processes of the same machine.
    local_rank: int = 0
    local_size: int = 1
    #: Their connections, as torch.distributed has them.
    group: Any = None

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes, clusters and talks to people."""
        return self.rank == 0

    def share(self, count: int, rank: int | None = None) -> slice:
        """The part of `count` things that is this process's, or that of another."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.size, count * (rank + 1) // self.size)

    def lengths(self, count: int) -> list[int]:
        """How many of `count` things each process has."""
        parts = (self.share(count, rank) for rank in range(self.size))
        return [part.stop - part.start for part in parts]

    def once(self, work: Callable[[], Value]) -> Value:
        """What `work` returns, done by one process for all; its error is the error of all.

        What cannot be sent, such as a function, every process makes for itself.
        """
        if self.size == 1:
            return work()
        import torch.distributed as dist

        value: Any = None
        told: list[Any] = [None]
        problem: BaseException | None = None
        if self.leads:
            try:
                value = work()
                told = [(_packed(value), None)]
            except Lost:  # which the others notice themselves
                raise
            except SpareError as error:
                told, problem = [(None, error)], error
            except Exception as error:
                said = RunError(f"process 0 failed: {type(error).__name__}: {reason(error)}.")
                told, problem = [(None, said)], error
        with told_of_losses():
            dist.broadcast_object_list(told, src=0, group=self.group)
        packed, refused = told[0]
        if problem is not None or refused is not None:
            raise problem or refused
        if self.leads:
            return cast(Value, value)
        return work() if packed is None else cast(Value, pickle.loads(packed))

    def in_turn(self, work: Callable[[], Value]) -> Value:
        """`work` in every process: the first, then one on each machine, then all others.

        So what the first leaves on a disk is found there by the others.
        """
        if self.size == 1:
            return work()
        import torch.distributed as dist

        turn = 0 if self.leads else 1 if self.local_rank == 0 else 2
        for now in range(3):
            if now == turn:
                value = work()
            with told_of_losses():
                dist.barrier(self.group)
        return value

    def agree(self, what: str, value: Any) -> None:
        """Refuse processes of which one has another value."""
        if self.size == 1:
            return
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        with told_of_losses():
            dist.all_gather_object(values, value, group=self.group)
        other = next((rank for rank, its in enumerate(values) if its != values[0]), None)
        if other is not None:
            raise InputError(
                f"processes 0 and {other} were started with different {what} "
                f"({_difference(values[0], values[other])}): start all of them alike."
            )

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; the same to the bit in all of them."""
        if self.size > 1:
            import torch.distributed as dist

            with told_of_losses():
                sent = _sendable(tensor)
                dist.all_reduce(sent, group=self.group)
                if sent is not tensor:
                    tensor.copy_(sent)
        return tensor

    def gather(self, rows: Tensor, lengths: list[int]) -> Tensor:
        """The rows of all processes, those of the first first.

        Parameters
        ----------
        lengths
            How many rows each process has.
        """
        if self.size == 1:
            return rows
        import torch
        import torch.distributed as dist

        with told_of_losses():
            sent = _sendable(rows.detach())
            mine = sent.new_zeros(max(lengths), *rows.shape[1:])
            mine[: len(sent)] = sent
            parts = [torch.empty_like(mine) for _ in lengths]
            dist.all_gather(parts, mine, group=self.group)
        cut = [part[:length] for part, length in zip(parts, lengths, strict=True)]
        return torch.cat(cut).to(rows.device)


def _packed(value: Any) -> bytes | None:
    """What is sent to the other processes of this job, as torch.distributed sends objects too.

    They run the same code for the same user; nothing that a file or a stranger brings is unpacked.
    """
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):  # a function within a function
        return None


def _sendable(tensor: Tensor) -> Tensor:
    """The tensor where it can be sent from: NCCL sends from a GPU, gloo from the host."""
    tensor = tensor if tensor.device.type in ("cpu", "cuda") else tensor.cpu()
    return tensor.contiguous()


def _difference(first: Any, other: Any) -> str:
    """The first thing that differs, in words."""
    if isinstance(first, dict) and isinstance(other, dict):
        for key in [*first, *other]:
            if first.get(key) != other.get(key):
                inner = _difference(first.get(key), other.get(key))
                nested = isinstance(first.get(key), dict) and isinstance(other.get(key), dict)
                return inner if nested else f"{key}: {inner}"
    return " and ".join(printable(repr(value))[:60] for value in (first, other))


ALONE = World()
_current = ALONE


def current() -> World:
    """The processes that this one works with."""
    return _current


def invited() -> bool:
    """Whether this process was started as one of several, by torchrun or in its way."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size() > 1
    return started_together() and _number("WORLD_SIZE", 1) > 1


@dataclass(frozen=True)
class Seat:
    """One of several processes on one machine, which find each other by a file."""

    rank: int
    size: int
    store: str


@contextmanager
def joined(seat: Seat | None = None) -> Iterator[World]:
    """Within it, this process works with the others of its job, if it is one of several.

    A process that ends meanwhile ends the others, each with one sentence.

    Parameters
    ----------
    seat
        Which of the processes of this machine it is, where torchrun does not say.
    """
    global _current
    if _current is not ALONE or (seat is None and not invited()):
        yield _current
        return
    import torch
    import torch.distributed as dist

    ours = not dist.is_initialized()
    # The first process of a team is someone's own, perhaps with a notebook in it.
    exits = seat is None or seat.rank > 0
    with told_of_losses(), _on_this_machine(seat):
        if ours:
            dist.init_process_group("gloo", timeout=START, **_how_to_meet(seat))
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        group: Any = dist.new_group(backend=backend, timeout=PATIENCE)
        watch = Watch(exits=exits)
    rank, size = dist.get_rank(), dist.get_world_size()
    local_rank, local_size = (
        (rank, size)
        if seat is not None
        else (_number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", size))
    )
    _current = World(rank, size, local_rank, local_size, group)
    try:
        yield _current
        with told_of_losses():
            dist.barrier(group)
        watch.leave(well=True)
    except BaseException as error:
        another_ended = watch.leave(well=isinstance(error, Interrupted))
        if another_ended and looks_like_a_loss(error):
            raise Lost(error) from error
        raise
    finally:
        _current = ALONE
        if ours and watch.ended:
            dist.destroy_process_group()


def _how_to_meet(seat: Seat | None) -> dict[str, Any]:
    if seat is None:
        return {}
    return {"init_method": f"file://{seat.store}", "rank": seat.rank, "world_size": seat.size}


@contextmanager
def _on_this_machine(seat: Seat | None) -> Iterator[None]:
    """Within it, gloo connects by the loopback, which works whatever the machine's name is."""
    if seat is None or INTERFACE in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ[INTERFACE] = "lo"
    try:
        yield
    finally:
        del os.environ[INTERFACE]


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        raise InputError(f"the environment says {name}={printable(value)}, which is no number.")
    return int(value)
