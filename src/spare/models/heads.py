"""Any network that ends in a linear layer, divided into features and head.

The head is found by watching one forward pass, so that a network need not be known by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from spare.errors import InputError, reason, unknown
from spare.models.classifier import Classifier, Shape, device_of, evaluating


def as_classifier(
    network: nn.Module, classes: int, shape: Shape, head: str = "", fresh_head: bool = True
) -> Classifier:
    """Divide `network` into features and head, which is found by one forward pass or named.

    The head is removed from `network`, which becomes the features. A new head with PyTorch's
    initial weights replaces it if `fresh_head`, or if the old one does not have `classes` outputs.
    """
    path = head_path(network, shape, head)
    last = network.get_submodule(path)
    assert isinstance(last, nn.Linear)
    features: nn.Module = nn.Identity()
    if network is not last:
        with inspecting(network):
            _remove_head(network, path, last, shape)
            _use_channels_last(network, shape)
        features = network
    if fresh_head or last.out_features != classes:
        last = nn.Linear(last.in_features, classes, device=last.weight.device)
    return Classifier(features, last)


def _remove_head(network: nn.Module, path: str, head: nn.Linear, shape: Shape) -> None:
    """Replace the head with an identity, after checking that nothing happens after it."""
    kind = type(network).__name__
    example = example_of(network, shape)
    identity = nn.Identity()
    try:
        _replace(network, head, identity)
        features = _forward(network, example)
        if features.dim() != 2 or features.shape[1] != head.in_features:
            raise InputError(
                f"{kind} without its head gives the shape {tuple(features.shape)}, where "
                f"(examples, {head.in_features}) is needed: let its head be the last thing in "
                f"forward, on pooled or flattened features."
            )
        probe = _probe_head(features, head.out_features)
        _replace(network, identity, probe)
        logits, expected = _forward(network, example), probe(features)
        tolerance = 1e-4 * float(expected.abs().max())
        if logits.shape != expected.shape or not torch.allclose(
            logits, expected, rtol=1e-3, atol=tolerance, equal_nan=True
        ):
            raise InputError(
                f"{kind} does something after its head, so features and head cannot be separated: "
                f"return the output of the head itself (the loss applies the softmax)."
            )
    except InputError:
        _replace(network, network.get_submodule(path), head)
        raise
    _replace(network, probe, identity)


def _probe_head(features: Tensor, outputs: int) -> nn.Linear:
    """A head that reveals whatever comes after it: a ReLU (both signs), a factor (a large bias)."""
    generator, device = torch.Generator().manual_seed(0), features.device
    half = (outputs + 1) // 2
    rows = torch.randn(half, features.shape[1], generator=generator, device="cpu").to(device)
    bias = torch.randn(half, generator=generator, device="cpu").to(device)
    bias = bias * (features @ rows.T).abs().mean()
    probe = nn.Linear(features.shape[1], outputs, device=device)
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
    outputs: dict[str, Tensor] = {}

    def remember(path: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
        outputs[path] = output

    hooks = [
        module.register_forward_hook(partial(remember, path)) for path, module in linears.items()
    ]
    try:
        with inspecting(network):
            logits = _forward(network, example_of(network, shape))
    finally:
        for hook in hooks:
            hook.remove()
    candidates = [
        path
        for path, output in outputs.items()
        if output.data_ptr() == logits.data_ptr() and output.numel() == logits.numel()
    ]
    if not candidates:
        raise InputError(
            f"{kind} does not return the output of any linear layer, so no head was found: let "
            f"it end in an nn.Linear and return the output of that layer (the loss applies the "
            f"softmax)."
        )
    return candidates[-1]


def _forward(network: nn.Module, example: Tensor) -> Tensor:
    """One forward pass; an error if the result is not a tensor."""
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


def example_of(network: nn.Module, shape: Shape) -> Tensor:
    """Two inputs of noise where the network is, which leave the global generator alone."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, *shape, generator=generator, device="cpu").to(device_of(network))


@contextlib.contextmanager
def inspecting(network: nn.Module) -> Iterator[None]:
    """Forward passes within it leave no trace: no statistics, random numbers or training flags."""
    with evaluating(network), torch.random.fork_rng(devices=[]), torch.no_grad():
        yield


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` is: a module may have several names."""
    paths = [path for path, m in network.named_modules(remove_duplicate=False) if m is old]
    for path in paths:
        network.set_submodule(path, new)


def _use_channels_last(network: nn.Module, shape: Shape) -> None:
    """Use the layout that CPUs convolve faster, if the network's own code allows it."""
    if len(shape) != 3 or not any(isinstance(m, nn.Conv2d) for m in network.modules()):
        return
    network.to(memory_format=torch.channels_last)
    try:
        network(example_of(network, shape).contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # `x.view(n, -1)` needs the usual layout
        network.to(memory_format=torch.contiguous_format)
        network.register_forward_pre_hook(_usual_layout)


def _usual_layout(network: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0].contiguous(),)
