"""Where networks look in chosen pictures: the picture, and beside it what decided, a network a
column.

    what was chosen     {title: numbers of examples of one split}
    networks            {name: network}, all on the split's own inputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.report.thumbnails import assembled, read
from spare.saliency import saliency
from spare.task import Split

SIDE = 96
#: Examples of one kind, and kinds at most.
SHOWN = 3
MOST_KINDS = 12
#: How much of the picture shines through.
PICTURE = 0.55


def looking(
    networks: Mapping[str, nn.Module],
    split: Split,
    chosen: Mapping[str, np.ndarray],
    class_names: Sequence[str],
    layer: str = "",
) -> dict[str, Any] | None:
    """What the page shows; None where there are no pictures, or none of them can be read."""
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *chosen.values()]).astype(np.int64)
    shown = read(split.inputs, rows)
    if shown is None:
        return None
    there = [
        (int(row), picture) for row, picture in zip(rows, shown, strict=True) if picture is not None
    ]
    if not there:
        return None
    x = split.inputs.take(np.array([row for row, _ in there]))
    seen = {name: _seen(network, x, layer) for name, network in networks.items()}
    tiles: list[Tensor | None] = []
    examples: dict[int, dict[str, Any]] = {}
    for place, (row, picture) in enumerate(there):
        cells = [{"tile": len(tiles), "says": ""}]
        tiles.append(picture)
        for maps, predicted, sure in seen.values():
            says = class_names[int(predicted[place])]
            cells.append({"tile": len(tiles), "says": says, "sure": float(sure[place])})
            tiles.append(overlay(picture, maps[place]))
        label = class_names[int(split.labels[row])]
        examples[row] = {"id": row, "class": label, "cells": cells}
    return {
        "title": "Where it looks" if len(networks) == 1 else "Where they look",
        "names": list(networks),
        "side": SIDE,
        "tiles": tiles,
        "sprite": assembled(tiles, SIDE),
        "kinds": [
            {"title": title, "examples": [examples[int(row)] for row in of if int(row) in examples]}
            for title, of in chosen.items()
        ],
    }


def _seen(network: nn.Module, x: Tensor, layer: str) -> tuple[Tensor, Tensor, Tensor]:
    """Maps, predicted classes, and how sure the network is of them."""
    maps = saliency(network, x, layer=layer)
    network.eval()
    with torch.inference_mode():
        sure, predicted = network(x).softmax(1).max(1)
    return maps, predicted, sure


def overlay(picture: Tensor, map_: Tensor) -> Tensor:
    """The picture under its map: red where most of the decision comes from, blue where none."""
    size = (picture.shape[1], picture.shape[2])
    value = nn.functional.interpolate(map_[None, None], size, mode="bilinear")[0, 0]
    # The jet colours: red, green and blue are the same tent, a quarter apart.
    tents = [1.5 - (4 * value - top).abs() for top in (3, 2, 1)]
    colours = torch.stack(tents).clamp(0, 1) * 255
    return (PICTURE * picture.float() + (1 - PICTURE) * colours).round().to(torch.uint8)


def some_of_each(
    ids: np.ndarray, names: Sequence[str], wanted: Sequence[str], key: Sequence[int]
) -> dict[str, np.ndarray]:
    """A few random examples of each of these groups."""
    rng = np.random.default_rng(key)
    place = {name: i for i, name in enumerate(names)}
    found = {}
    for name in wanted[:MOST_KINDS]:
        own = np.flatnonzero(ids == place[name])
        found[name] = np.sort(rng.permutation(own)[:SHOWN])
    return found
