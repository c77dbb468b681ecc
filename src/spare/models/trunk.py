"""A network cut at one of its layers: what comes before it is frozen, the rest is trained.

The layer is the first that is trained. Its input is what the layers before it, the trunk, make of a
picture, and what is kept. The rest is the network itself with placeholders for the layers before:
its own forward runs, the placeholders cost nothing, and the layer gets what was kept in place of
what they give. So any network can be cut where one tensor passes, whatever its code; whether the
rest gives what the whole network gives is tried once, on noise.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from spare.errors import InputError, unknown
from spare.models.classifier import Classifier, Shape, evaluating
from spare.models.heads import example_of, inspecting

SHARE = re.compile(r"[0-9]*\.[0-9]+|[01]")


@dataclass(frozen=True)
class Cut:
    """Where a network is cut."""

    #: The first layer that is trained: a path within the network's features.
    layer: str
    #: By path: the shape of one example's output of every outermost layer before it.
    before: dict[str, Shape]
    #: Of one input of the whole network.
    shape: Shape
    #: The share of the parameters before the head that are frozen.
    share: float
    #: Placeholders have memory of their own, for networks that work in place.
    whole: bool = False


def find_cut(model: Classifier, shape: Shape, until: str) -> Cut:
    """Where to cut a model whose inputs have this shape.

    Parameters
    ----------
    until
        The path of a layer; or a share of the parameters before the head, for the first layer that
        has at least so many before it and where the network can be cut. What is both, as 0.1 is in
        a sequence of sequences, is the layer.
    """
    with inspecting(model):
        calls = _Calls(model.features, shape)
        if until not in calls.layers() and SHARE.fullmatch(until):
            wanted = float(until)
            if not 0 < wanted < 1:
                raise InputError(
                    f"frozen_until is a layer or a share above 0 and below 1, not {until}: "
                    f"frozen=true trains only the last layer."
                )
            cuts = (calls.cut(layer) for layer in calls.layers())
            for cut in cuts:
                if wanted <= cut.share < 1 and (found := _tried(model, cut)) is not None:
                    return found
            raise InputError(
                f"{_kind(model)} cannot be cut after {100 * wanted:g} % of its parameters: name a "
                f"layer, or use a smaller share."
            )
        if until not in calls.layers():
            raise unknown(f"layer of {_kind(model)}", until, calls.layers())
        found = _tried(model, calls.cut(until))
    if found is None:
        raise InputError(
            f"{_kind(model)} cannot be cut at {until!r}, because more than its input passes from "
            f"the layers before it to those after it: name another layer, such as the block that "
            f"it is in."
        )
    return found


def trunk_output(model: Classifier, cut: Cut, x: Tensor) -> Tensor:
    """What the layers before the cut make of these inputs; the layers after it are not run."""

    def stop(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        raise _Reached(inputs[0])

    layer = model.features.get_submodule(cut.layer)
    hook = layer.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        model.features(x)
    except _Reached as reached:
        return reached.tensor
    finally:
        hook.remove()
    raise InputError(f"{_kind(model)} did not come to its layer {cut.layer!r}: name another layer.")


def rest_of(model: Classifier, cut: Cut) -> Classifier:
    """The model from the cut on, whose inputs are outputs of the trunk; parameters have the names
    that they have in the whole model."""
    rest = copy.deepcopy(model)
    for path, shape in cut.before.items():
        rest.features.set_submodule(path, _Placeholder(shape, cut.whole))
    rest.features.register_forward_pre_hook(partial(_begin, cut))
    layer = rest.features.get_submodule(cut.layer)
    layer.register_forward_pre_hook(_take, with_kwargs=True)
    return rest


class _Reached(Exception):
    """Ends a forward pass where the trunk ends."""

    def __init__(self, tensor: Tensor):
        super().__init__()
        self.tensor = tensor


class _Placeholder(nn.Module):
    """Stands for a frozen layer: zeros of the shape that its output would have."""

    def __init__(self, shape: Shape, whole: bool):
        super().__init__()
        self.shape = shape
        self.whole = whole

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        first = next(value for value in (*inputs, *named.values()) if isinstance(value, Tensor))
        return _zeros(first, (len(first), *self.shape), self.whole)

    def extra_repr(self) -> str:
        return f"shape={self.shape}"


def _zeros(like: Tensor, shape: Shape, whole: bool) -> Tensor:
    return like.new_zeros(shape) if whole else like.new_zeros(1).expand(shape)


#: Where a layer finds what was kept. Hooks know modules by their paths and keep nothing themselves,
#: so that a copy of the network is a network of its own.
_KEPT = "_output_of_the_trunk"


def _begin(cut: Cut, network: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    network.get_submodule(cut.layer).__dict__[_KEPT] = inputs[0]
    return (_zeros(inputs[0], (len(inputs[0]), *cut.shape), cut.whole),)


def _take(
    layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (layer.__dict__.pop(_KEPT), *inputs[1:]), named


@dataclass
class _Call:
    """When a layer began and ended, counted in steps of one forward pass, and what it gave."""

    began: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    takes_tensor: bool = True
    output: Any = None


class _Calls:
    """What each layer did in one forward pass on noise."""

    def __init__(self, network: nn.Module, shape: Shape):
        self.network = network
        self.shape = shape
        self.calls: dict[str, _Call] = {}
        self.steps = 0
        hooks = []
        for path, module in network.named_modules():
            if path:
                begin, end = partial(self._begin, path), partial(self._end, path)
                hooks.append(module.register_forward_pre_hook(begin))
                hooks.append(module.register_forward_hook(end))
        try:
            network(example_of(network, shape))
        finally:
            for hook in hooks:
                hook.remove()

    def _begin(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        call = self.calls.setdefault(path, _Call())
        call.takes_tensor &= bool(inputs) and isinstance(inputs[0], Tensor)
        call.began.append(self._step())

    def _end(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self.calls[path].ended.append(self._step())
        self.calls[path].output = output

    def _step(self) -> int:
        self.steps += 1
        return self.steps

    def layers(self) -> list[str]:
        """Those that can be the first that is trained, in the order in which they run."""
        once = {
            path: call.began[0]
            for path, call in self.calls.items()
            if len(call.began) == 1 and call.takes_tensor
        }
        return sorted(once, key=lambda path: once[path])

    def cut(self, layer: str) -> Cut:
        began = self.calls[layer].began[0]
        before: dict[str, Shape] = {}
        for path, call in self.calls.items():  # a module is called before its children
            inside = any(path.startswith(f"{outer}.") for outer in before)
            if inside or len(call.ended) != 1 or call.ended[0] > began:
                continue
            if isinstance(call.output, Tensor) and call.output.ndim:
                before[path] = tuple(call.output.shape[1:])
        frozen = sum(_size(self.network.get_submodule(path)) for path in before)
        return Cut(layer, before, self.shape, frozen / max(_size(self.network), 1))


def _size(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _tried(model: Classifier, cut: Cut) -> Cut | None:
    """The cut if what is after it gives what the whole network gives, else None."""
    if not cut.before:
        return None
    x = example_of(model, cut.shape)
    expected = model.features(x)
    kept = trunk_output(model, cut, x)
    tolerance = 1e-4 * float(expected.abs().max())
    for whole in (False, True):
        tried = replace(cut, whole=whole)
        rest = rest_of(model, tried)
        try:
            with evaluating(rest):
                found = rest.features(kept.clone())
        except Exception:  # whatever the network's own code raises
            continue
        if found.shape == expected.shape and torch.allclose(
            found, expected, rtol=1e-3, atol=tolerance
        ):
            return tried
    return None


def _kind(model: Classifier) -> str:
    return type(model.features).__name__


#: Makes a model.
Builder = Callable[[], Classifier]


def rest_builder(build: Builder, cut: Cut) -> Builder:
    """Makes the rest of what another builder makes."""
    return lambda: rest_of(build(), cut)
