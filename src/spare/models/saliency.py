"""Where a network looks: Grad-CAM at a layer that is found automatically, or named.

Selvaraju et al., Grad-CAM, ICCV 2017: the maps of a late layer, each weighted by the mean gradient
of the predicted class over the picture, summed, with negative values set to zero.

Convolutional networks give maps; vision transformers give one vector per patch, after tokens that
are not patches, or maps with their channels last. All are treated as maps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from spare.errors import InputError, unknown
from spare.models.classifier import device_of, evaluating

#: At most this many tokens before the patches: a class token, a distillation token, registers.
MAX_EXTRA_TOKENS = 16
#: Pictures that go through the network at once.
BATCH_SIZE = 16


@dataclass(frozen=True)
class Grid:
    """How a layer's output lies on the picture: rows and columns, and where its channels are."""

    rows: int
    columns: int
    #: "maps" (n, c, h, w), "last" (n, h, w, c) or "tokens" (n, extra + h * w, c)
    layout: str
    extra: int = 0

    def maps(self, output: Tensor) -> Tensor:
        """As (n, c, h, w)."""
        if self.layout == "maps":
            return output
        if self.layout == "last":
            return output.permute(0, 3, 1, 2)
        patches = output[:, self.extra :].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], self.rows, self.columns)

    def output(self, maps: Tensor, before: Tensor) -> Tensor:
        """The layer's output with these maps, and with the other tokens of `before`."""
        if self.layout == "maps":
            return maps
        if self.layout == "last":
            return maps.permute(0, 2, 3, 1)
        return torch.cat([before[:, : self.extra], maps.flatten(2).transpose(1, 2)], 1)


def saliency(
    network: nn.Module, x: Tensor, *, targets: Tensor | None = None, layer: str = ""
) -> Tensor:
    """What speaks for the predicted class (or for `targets`) in each picture: (n, height, width).

    The largest value of a picture is 1; where nothing speaks for the class, all values are 0. The
    maps are on the host, wherever the network is.
    """
    x = x.to(device_of(network))
    path, grid = layer_and_grid(network, x[:BATCH_SIZE], layer)
    if targets is None:
        with torch.no_grad(), evaluating(network):
            targets = torch.cat([network(part).argmax(1) for part in torch.split(x, BATCH_SIZE)])
    targets = targets.to(x.device)
    from captum.attr import LayerGradCam

    with evaluating(network), _as_maps(network, path, grid) as watched:
        explain = LayerGradCam(network, watched)
        coarse = torch.cat(
            [
                explain.attribute(part.clone(), target, relu_attributions=True).detach()
                for part, target in zip(
                    torch.split(x, BATCH_SIZE), torch.split(targets, BATCH_SIZE), strict=True
                )
            ]
        )
    fine = nn.functional.interpolate(coarse, x.shape[2:], mode="bilinear", align_corners=False)
    fine = fine[:, 0]
    largest = fine.amax((1, 2), keepdim=True)
    return torch.where(largest > 0, fine / largest, 0.0).cpu()


def layer_and_grid(network: nn.Module, x: Tensor, named: str = "") -> tuple[str, Grid]:
    """The last layer whose output lies on the picture and influences the prediction.

    In a vision transformer only the class token of the last layers matters: they are skipped,
    because the prediction has no gradient at their patches.
    """
    if x.ndim != 4:
        raise InputError("saliency needs pictures, and these inputs are not pictures.")
    modules = dict(network.named_modules())
    if named and named not in modules:
        raise unknown(f"layer of {_kind(network)}", named, modules)
    outputs: list[tuple[str, Tensor]] = []

    def remember(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.requires_grad:
            outputs.append((path, output))

    # A transformer's linear layers mix queries, keys and values; the layer before them does not.
    candidates = {path: m for path, m in modules.items() if path and not isinstance(m, nn.Linear)}
    watched = {named: modules[named]} if named else candidates
    hooks = [m.register_forward_hook(partial(remember, path)) for path, m in watched.items()]
    try:
        with torch.enable_grad(), evaluating(network):
            logits = network(x.detach().clone().requires_grad_())
            # A different weight for every class: what decides between any two of them counts.
            factors = torch.arange(1.0, logits.shape[1] + 1, device=logits.device)
            mixed = (logits * factors).sum()
            gradients = torch.autograd.grad(
                mixed, [output for _, output in outputs], allow_unused=True
            )
    finally:
        for hook in hooks:
            hook.remove()
    for (path, output), gradient in reversed(list(zip(outputs, gradients, strict=True))):
        grid = _grid(output, x.shape[2], x.shape[3])
        if grid is None or gradient is None:
            continue
        if (grid.maps(gradient) != 0).any(1).flatten(1).sum(1).max() > 1:
            return path, grid
    if named:
        raise InputError(
            f"layer {named!r} of {_kind(network)} gives no maps of the picture that the prediction "
            f"depends on: name another layer, or none."
        )
    raise InputError(
        f"{_kind(network)} has no layer that gives maps of the picture, so it cannot be said where "
        f"it looks: name a layer."
    )


def _grid(output: Tensor, height: int, width: int) -> Grid | None:
    """How this output lies on a picture of that size, if it does; a single cell is not a grid."""

    def fits(rows: int, columns: int, slack: float = 1) -> bool:
        # Padding and strides round: a row more or less is the same shape.
        return rows * columns > 1 and abs(rows - columns * height / width) <= slack

    if output.ndim == 4:
        _, a, b, c = output.shape
        if fits(b, c):
            return Grid(b, c, "maps")
        return Grid(a, b, "last") if fits(a, b) else None
    if output.ndim == 3:
        tokens = output.shape[1]
        for extra in range(min(MAX_EXTRA_TOKENS, tokens)):
            patches = tokens - extra
            columns = max(1, round((patches * width / height) ** 0.5))
            if patches % columns == 0 and fits(patches // columns, columns, slack=0.5):
                return Grid(patches // columns, columns, "tokens", extra)
    return None


class _AsMaps(nn.Module):
    """A layer whose output passes through `maps` as maps, where Grad-CAM can watch it."""

    def __init__(self, layer: nn.Module, grid: Grid):
        super().__init__()
        self.layer = layer
        self.grid = grid
        self.maps = nn.Identity()

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        before = self.layer(*inputs, **named)
        # Passed on as a copy: a later layer that works in place must not change what was watched.
        return self.grid.output(self.maps(self.grid.maps(before)).clone(), before)


@contextlib.contextmanager
def _as_maps(network: nn.Module, path: str, grid: Grid) -> Iterator[nn.Module]:
    layer = network.get_submodule(path)
    wrapped = _AsMaps(layer, grid)
    network.set_submodule(path, wrapped)
    try:
        yield wrapped.maps
    finally:
        network.set_submodule(path, layer)


def _kind(network: nn.Module) -> str:
    inner = getattr(network, "features", network)
    return type(inner).__name__
