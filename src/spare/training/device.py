"""Where tensors live and in which precision they are computed: nothing else knows of a device.

Inputs, labels, what is kept of outputs and of weights are on the host, as NumPy sees them; models,
and a batch while it is computed with, are on the device.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from spare.errors import InputError, RunError, reason
from spare.processes.world import World

Module = TypeVar("Module", bound=nn.Module)

#: The machine's accelerator where there is one, else the CPU.
AUTO = "auto"
#: Where NumPy and people look at tensors.
HOST = torch.device("cpu")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: What torch.compile compiles with.
COMPILER = "inductor"
#: glibc's numbers for what `keep_freed_memory` sets, and how many bytes it may keep.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
KEPT = 2**30


def check_device_name(name: str) -> None:
    """Refuse what cannot be the name of a device; whether it is there is not asked."""
    try:
        known = name == AUTO or torch.device(name).type != "meta"
    except RuntimeError:
        known = False
    if not known:
        raise InputError(
            f"unknown device {name!r}: use auto, cpu, cuda, cuda:1 (the second), mps or xpu."
        )


def device_named(name: str) -> torch.device:
    """The device of this name; an error if this machine does not have it."""
    check_device_name(name)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if name == AUTO:
        return accelerator or HOST
    device = torch.device(name)
    if device.type == HOST.type:
        return HOST
    count = torch.accelerator.device_count() if accelerator is not None else 0
    if accelerator is None or device.type != accelerator.type or (device.index or 0) >= count:
        there = [HOST.type, *(f"{accelerator}:{number}" for number in range(count))]
        raise InputError(
            f"there is no device {name} here, only {', '.join(there)}: use --device auto or one "
            f"of these."
        )
    return device


def is_there(name: str) -> bool:
    """Whether this machine has the device."""
    try:
        device_named(name)
    except InputError:
        return False
    return True


@contextmanager
def own_device(device: torch.device, world: World) -> Iterator[None]:
    """Within it, a device without a number is another one in each process of a machine."""
    if world.size == 1 or device.type == HOST.type or device.index is not None:
        yield
        return
    count = torch.accelerator.device_count()
    if world.local_size > count:
        raise InputError(
            f"there are {world.local_size} processes on this machine and {count} devices: start as "
            f"many processes as there are devices, or use --device cpu."
        )
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(world.local_rank)
    try:
        yield
    finally:
        torch.accelerator.set_device_index(before)


@cache
def keep_freed_memory() -> bool:
    """Let this process use the memory of freed tensors again; whether that could be set.

    Every step allocates and frees the same large tensors. glibc gives each of them back to the
    system at once, which then clears every page anew: up to 40 % of the time in which a pretrained
    network is trained on a CPU. So it keeps up to 1 GiB. Other systems have other ways, and on an
    accelerator torch keeps memory itself.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc: the loader has no such name
        return False
    return bool(set_option(MMAP_MAX, 0) and set_option(TRIM_THRESHOLD, KEPT))


def to_host(tensor: Tensor) -> Tensor:
    """The same values where NumPy can see them, in float32 if they are floats of fewer bits."""
    host = tensor.detach().to(HOST)
    return host.float() if host.dtype in (torch.bfloat16, torch.float16) else host


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within it, forward passes compute in this precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=PRECISIONS[precision])


def scaler_for(precision: str, device: torch.device) -> torch.amp.GradScaler | None:
    """What keeps small gradients from becoming 0 in float16; other precisions need none."""
    return torch.amp.GradScaler(device.type) if precision == "float16" else None


def placed(model: Module, device: torch.device) -> Module:
    """The model on the device. There, convolutions have their channels last, which is faster; on
    the host, weights stay as they are, and so do the numbers of every run, to the bit."""
    if device.type == HOST.type:
        keep_freed_memory()
        return model.to(device)
    return model.to(device).to(memory_format=torch.channels_last)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A batch on the device; the host does not wait until it has arrived."""
    if device.type == HOST.type:
        return tensor
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    layout = torch.channels_last if tensor.ndim == 4 else torch.preserve_format
    return tensor.to(device, non_blocking=True, memory_format=layout)


@contextmanager
def compiled(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Within it, the layers that inputs pass through are compiled, if that is wanted."""
    if not wanted:
        yield
        return
    layers = getattr(model, "features", model)
    layers.forward = torch.compile(layers.forward, backend=COMPILER)
    try:
        yield
    except torch._dynamo.exc.TorchDynamoException as error:
        raise RunError(
            f"the network cannot be compiled ({reason(error)[:120]}): use compile=false."
        ) from error
    finally:
        del layers.forward


@contextmanager
def enough_memory(device: torch.device, doing: str, lower: str) -> Iterator[None]:
    """Within it, running out of memory is one sentence.

    Parameters
    ----------
    doing
        What was computed, with the sizes that decide how much memory it takes.
    lower
        What to do about it.
    """
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        # Only CUDA and a few others have a class of their own for it.
        if not isinstance(error, torch.OutOfMemoryError) and not _OUT_OF_MEMORY.search(text):
            raise
        asked = _ASKED.search(text)
        more = f" (it asked for {asked[1]} more)" if asked else ""
        raise RunError(f"{device} has too little memory for {doing}{more}: {lower}.") from error


_OUT_OF_MEMORY = re.compile(r"out of memory|DefaultCPUAllocator|not enough memory", re.I)
_ASKED = re.compile(
    r"(?:[Tt]ried to allocate|can't allocate memory: you tried to allocate) "
    r"([0-9.]+ \w+)"
)


@contextmanager
def own_random_state(device: torch.device) -> Iterator[None]:
    """Within it, torch's generators can be seeded and used without changing them for others."""
    with torch.random.fork_rng(devices=[]):
        before = random_state(device)
        try:
            yield
        finally:
            set_random_state(before, device)


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's generators, that of the device included, for a checkpoint."""
    states = {"torch_rng": torch.get_rng_state()}
    if _has_generator(device):
        states["device_rng"] = torch.get_device_module(device).get_rng_state(*_index(device))
    return states


def set_random_state(states: dict[str, Tensor], device: torch.device) -> None:
    """Set what `random_state` gave, here or on another device.

    A state of another kind of device is of no use here: the device's generator stays as it is.
    """
    torch.set_rng_state(states["torch_rng"])
    now = random_state(device).get("device_rng")
    kept = states.get("device_rng")
    if now is not None and kept is not None and now.shape == kept.shape:
        torch.get_device_module(device).set_rng_state(kept, *_index(device))


def _has_generator(device: torch.device) -> bool:
    return device.type != HOST.type and hasattr(torch.get_device_module(device), "get_rng_state")


def _index(device: torch.device) -> tuple[Any, ...]:
    return () if device.type == "mps" else (device,)  # of which a machine has one
