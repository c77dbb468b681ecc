"""The optimizer that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from spare.training.settings import Settings


def optimizer_of(model: nn.Module, memory: nn.Module | None, settings: Settings) -> Optimizer:
    """For the weights of a model, and of an objective that has any."""
    weights = [*model.parameters(), *([] if memory is None else memory.parameters())]
    parameters: list[Any] = weights
    if not settings.decay_biases:
        parameters = [
            {"params": [weight for weight in weights if weight.ndim >= 2]},
            {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
        ]
    if settings.optimizer == "adamw":
        return _without_compiler(torch.optim.AdamW)(
            parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
    sgd = _without_compiler(torch.optim.SGD)(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.nesterov,
        fused=True,
    )
    if settings.precision == "float16" and settings.momentum:
        # A first step that is left out would leave torch's own memory of it unset.
        for weight in weights:
            if weight.requires_grad:
                sgd.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return sgd


def _without_compiler(optimizer: type[Optimizer]) -> Callable[..., Optimizer]:
    """The same optimizer, without the decorators that import torch's compiler.

    Nothing is compiled here, and the import takes 150 MB and two seconds.
    """

    def plain(name: str) -> Any:
        method = getattr(optimizer, name)
        return getattr(method, "__wrapped__", method)

    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: plain(name) for name in names} | {"step": torch.no_grad()(plain("step"))}
    return type(optimizer.__name__, (optimizer,), methods)
