"""Any network whose output is a linear layer's, parted into features and head.

The head is found by looking at one forward pass, so that networks of others need not be known by
name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from spare.errors import InputError, reason, unknown
from spare.models.classifier import Classifier, Shape


def as_classifier(
    network: nn.Module, classes: int, shape: Shape, head: str = "", fresh_head: bool = True
) -> Classifier:
    """Part `network` into features and head, found by one forward pass or named by its path.

    The head is taken out of `network`, which becomes the features. With `fresh_head` a new one with
    PyTorch's initial weights takes its place; else only if it has not `classes` outputs.
    """
    path = head_path(network, shape, head)
    last = network.get_submodule(path)
    assert isinstance(last, nn.Linear)
    features: nn.Module = nn.Identity()
    if network is not last:
        with _looking_at(network):
            _take_head_out(network, path, last, shape)
            _use_channels_last(network, shape)
        features = network
    if fresh_head or last.out_features != classes:
        last = nn.Linear(last.in_features, classes)
    return Classifier(features, last)


def _take_head_out(network: nn.Module, path: str, head: nn.Linear, shape: Shape) -> None:
    """Put nothing in the head's place, once it is sure that nothing happens after it."""
    kind = type(network).__name__
    example = _example(shape)
    nothing = nn.Identity()
    try:
        _replace(network, head, nothing)
        features = _forward(network, example)
        if features.dim() != 2 or features.shape[1] != head.in_features:
            raise InputError(
                f"{kind} without its head gives the shape {tuple(features.shape)}, where "
                f"(examples, {head.in_features}) is needed: let its head be the last thing in "
                f"forward, on pooled or flattened features."
            )
        probe = _probe_head(features, head.out_features)
        _replace(network, nothing, probe)
        logits, wanted = _forward(network, example), probe(features)
        tolerance = 1e-4 * float(wanted.abs().max())
        if logits.shape != wanted.shape or not torch.allclose(
            logits, wanted, rtol=1e-3, atol=tolerance, equal_nan=True
        ):
            raise InputError(
                f"{kind} does something after its head, so the features cannot be parted from it: "
                f"return the head's own output (the loss takes the softmax)."
            )
    except InputError:
        _replace(network, network.get_submodule(path), head)
        raise
    _replace(network, probe, nothing)


def _probe_head(features: Tensor, outputs: int) -> nn.Linear:
    """A head after which anything would show, a ReLU (two signs) or a factor (a bias as large)."""
    generator = torch.Generator().manual_seed(0)
    half = (outputs + 1) // 2
    rows = torch.randn(half, features.shape[1], generator=generator)
    bias = torch.randn(half, generator=generator) * (features @ rows.T).abs().mean()
    probe = nn.Linear(features.shape[1], outputs)
    probe.weight.copy_(torch.cat([rows, -rows])[:outputs])
    probe.bias.copy_(torch.cat([bias, -bias])[:outputs])
    return probe


def head_path(network: nn.Module, shape: Shape, named: str) -> str:
    """The path of the linear layer whose output is the network's output."""
    kind = type(network).__name__
    linears = {
        path: module for path, module in network.named_modules() if isinstance(module, nn.Linear)
    }
    if not linears:
        raise InputError(
            f"{kind} has no linear layer, so it has no linear head: use another model."
        )
    if getattr(network, "aux_logits", False):
        raise InputError(
            f"{kind} has auxiliary outputs in training: build it with aux_logits=False."
        )
    if named:
        if named not in linears:
            raise unknown(f"linear layer of {kind}", named, linears)
        return named
    given: dict[str, Tensor] = {}

    def remember(path: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
        given[path] = output

    hooks = [
        module.register_forward_hook(partial(remember, path)) for path, module in linears.items()
    ]
    try:
        with _looking_at(network):
            logits = _forward(network, _example(shape))
    finally:
        for hook in hooks:
            hook.remove()
    same = [
        path
        for path, output in given.items()
        if output.data_ptr() == logits.data_ptr() and output.numel() == logits.numel()
    ]
    if not same:
        raise InputError(
            f"no linear layer's output is what {kind} returns, so it has no head to be found: let "
            f"it end in an nn.Linear and return that layer's own output (the loss takes the "
            f"softmax)."
        )
    return same[-1]


def _forward(network: nn.Module, example: Tensor) -> Tensor:
    """One pass; the result is a tensor, or an error that says what it was."""
    kind = type(network).__name__
    try:
        result = network(example)
    except Exception as error:  # whatever the network raises
        raise InputError(
            f"{kind} cannot take inputs of shape {tuple(example.shape[1:])} ({reason(error)}): "
            f"use another size or another model."
        ) from error
    if not isinstance(result, Tensor):
        raise InputError(
            f"{kind} returns a {type(result).__name__}: let it return one tensor of logits."
        )
    return result


def _example(shape: Shape) -> Tensor:
    """Two inputs of noise, from a generator of their own."""
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))


@contextlib.contextmanager
def _looking_at(network: nn.Module) -> Iterator[None]:
    """Passes within it leave no trace: no statistics, no random numbers, no training flags."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` stands: a module may have several names."""
    paths = [path for path, m in network.named_modules(remove_duplicate=False) if m is old]
    for path in paths:
        network.set_submodule(path, new)


def _use_channels_last(network: nn.Module, shape: Shape) -> None:
    """The layout that CPUs convolve faster, where the network's own code can live with it."""
    if len(shape) != 3 or not any(isinstance(m, nn.Conv2d) for m in network.modules()):
        return
    network.to(memory_format=torch.channels_last)
    try:
        network(_example(shape).contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # `x.view(n, -1)` needs the usual layout
        network.to(memory_format=torch.contiguous_format)
        network.register_forward_pre_hook(_usual_layout)


def _usual_layout(network: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0].contiguous(),)
