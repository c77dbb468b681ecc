"""A pretended accelerator, to find code that mixes tensors of the host and of a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

#: There need not be one: everything is computed on the host.
DEVICE = torch.device("cuda")
#: These may take values or indices from anywhere, as they may between real devices.
CROSSING = (
    torch.Tensor.copy_,
    torch.Tensor.__getitem__,
    torch.Tensor.__setitem__,
    torch._has_compatible_shallow_copy_type,  # what moving a module asks
    # Gradients that autograd makes do not show where they are.
    torch._fused_sgd_,
    torch._fused_adamw_,
)


class OnDevice(torch.Tensor):
    """A tensor that refuses what one on a real device would refuse.

    What is computed from it is on the device too. Tensors of the host meet it in no operation,
    except as numbers without dimensions and as indices.
    """

    device = property(lambda self: DEVICE)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs or {}))
        strays = [x for x in leaves if isinstance(x, torch.Tensor) and not isinstance(x, OnDevice)]
        if function not in CROSSING and any(stray.ndim for stray in strays):
            raise RuntimeError(f"{function.__name__} of tensors on the device and on the host")
        if function is torch.Tensor.numpy:
            raise RuntimeError("numpy of a tensor on the device")
        return super().__torch_function__(function, types, args, kwargs)


class _Moves(TorchFunctionMode):
    """Moves tensors between the host and the pretended device, and makes new ones there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        target = kwargs.get("device")
        if function in (torch.Tensor.to, torch.Tensor.cpu):
            named = [value for value in args[1:] if isinstance(value, torch.device | str)]
            target = named[0] if named else "cpu" if function is torch.Tensor.cpu else target
        if target is None:
            return function(*args, **kwargs)
        if function in (torch.Tensor.to, torch.Tensor.cpu):
            result = args[0].as_subclass(torch.Tensor)
        else:
            result = function(*args, **kwargs | {"device": "cpu"})
        return result.as_subclass(OnDevice) if torch.device(target) == DEVICE else result


@contextmanager
def pretended_device() -> Iterator[torch.device]:
    """Within it there is a device `cuda`, whatever the machine has."""
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with _Moves():
            yield DEVICE
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
