"""A device that is not the CPU: torch's dispatcher, autograd and autocast take it for a real one.

It is registered once in a process, and there only within `elsewhere()`. What is computed on it is
computed on the host in the end, by one fallback for all operations, so its numbers are those of
the host to the bit; but a tensor of the host among those of the device is an error, as it is for
CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

NAME = "elsewhere"
#: These may take indices or values from the host, as they may with CUDA.
CROSSING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::copy_", "aten::_to_copy")


class Elsewhere(torch.Tensor):
    """A tensor on the device; its values are in a tensor of the host, `held`."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        return _run(op, *args, **kwargs or {})

    def tolist(self):  # which torch has for no tensor of another class
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents=None):
        return f"elsewhere({self.held})"


def is_elsewhere(x) -> bool:
    return isinstance(x, Elsewhere)


def _held(x):
    return x.held if is_elsewhere(x) else x


def _sent(values: torch.Tensor) -> Elsewhere:
    tensor = torch.Tensor._make_wrapper_subclass(
        Elsewhere,
        values.shape,
        strides=values.stride(),
        storage_offset=values.storage_offset(),
        dtype=values.dtype,
        device=torch.device(NAME, 0),
    )
    tensor.held = values
    return tensor


class _Backend(_DummyBackendModule):
    """What torch asks a device's module."""

    def __init__(self):
        self.there = False
        #: How often the host waited for a value.
        self.waits = 0
        #: Raise at this many operations from now, as a device without memory does.
        self.room = None
        self._generator = torch.Generator()

    def is_available(self):
        return self.there

    def device_count(self):
        return 2 if self.there else 0

    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]

    def get_rng_state(self, device=None):
        return self._generator.get_state()[:64]

    def set_rng_state(self, state, device=None):
        assert state.device.type == "cpu"

    def manual_seed_all(self, seed):
        self._generator.manual_seed(seed)


BACKEND = _Backend()


@torch.inference_mode(False)
@torch.no_grad()
def _run(op, *args, **kwargs):
    """Any operation of the device."""
    name = op.name().partition(".")[0]
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    strays = any(not is_elsewhere(x) and x.ndim for x in given)
    if strays and (name not in CROSSING or ("index" in name and not is_elsewhere(args[0]))):
        raise RuntimeError(f"{name} of tensors on the host and elsewhere")
    if BACKEND.room is not None:
        BACKEND.room -= 1
        if BACKEND.room < 0:
            raise torch.OutOfMemoryError("elsewhere out of memory. Tried to allocate 2.50 GiB.")
    target = kwargs.get("device")
    to_host = (name == "aten::copy_" and not is_elsewhere(args[0])) or (
        target is not None and torch.device(target).type == "cpu"
    )
    BACKEND.waits += to_host or name == "aten::_local_scalar_dense"
    if target is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    wrappers = {id(x.held): x for x in given if is_elsewhere(x)}
    held, options = tree_map(_held, (args, kwargs))
    result = op(*held, **options)

    def returned(x):
        if to_host or not isinstance(x, torch.Tensor):
            return x
        return wrappers[id(x)] if id(x) in wrappers else _sent(x)

    return tree_map(returned, result)


_setup_privateuseone_for_python_backend(NAME, backend_module=BACKEND)
_LIBRARY = torch.library.Library("_", "IMPL")
_LIBRARY.fallback(_run, "PrivateUse1")


def _cast(name, dtype_of):
    """In autocast, this operation takes floats of the type that `dtype_of` says."""
    op = getattr(torch.ops.aten, name).default
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(autocast):
            dtype = dtype_of()
            args, kwargs = tree_map(
                lambda x: x.to(dtype) if is_elsewhere(x) and x.is_floating_point() else x,
                (args, kwargs),
            )
            return op(*args, **kwargs)

    torch.library.impl(f"aten::{name}", "AutocastPrivateUse1")(kernel)


_LIBRARY.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
for _name in ("linear", "conv2d", "matmul"):
    _cast(_name, lambda: torch.get_autocast_dtype(NAME))
_cast("cross_entropy_loss", lambda: torch.float32)


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Within it the machine has two devices `elsewhere`."""
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    BACKEND.there, BACKEND.waits, BACKEND.room = True, 0, None
    try:
        yield torch.device(NAME)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
        BACKEND.there, BACKEND.room = False, None
