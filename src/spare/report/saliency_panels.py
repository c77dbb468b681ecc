"""Where networks look in chosen pictures: the picture, and beside it what decided, a network a
column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Split, Task
from spare.errors import reason
from spare.models.saliency import saliency
from spare.report.thumbnails import assembled, read

SIDE = 96
#: Examples of one kind, and kinds at most.
SHOWN = 3
MOST_KINDS = 12
#: How much of the picture shines through.
PICTURE = 0.55


@dataclass(frozen=True)
class Pictured:
    """Where a page's pictures come from, and the networks that are shown looking at them."""

    task: Task
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    #: The layer at which they are looked at; empty: it is found.
    layer: str = ""


def looking(
    pictured: Pictured, split: Split, chosen: Mapping[str, np.ndarray], says: str
) -> dict[str, Any] | None:
    """What the page shows; None where there are no pictures, or none of them can be read.

    chosen  numbers of examples of the split, by the title that they are shown under
    says    what they are, in a sentence
    """
    networks, class_names = pictured.networks, pictured.task.class_names
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
    title = "Where it looks" if len(networks) == 1 else "Where they look"
    try:
        seen = {name: _seen(network, x, pictured.layer) for name, network in networks.items()}
    except Exception as error:  # whatever a network raises: a page is worth more than this part
        if pictured.layer:
            raise
        return {"title": title, "problem": reason(error), "kinds": []}
    tiles: list[Tensor | None] = []
    examples: dict[int, dict[str, Any]] = {}
    for place, (row, picture) in enumerate(there):
        cells = [{"tile": len(tiles), "says": ""}]
        tiles.append(picture)
        for maps, predicted, sure in seen.values():
            taken_for = class_names[int(predicted[place])]
            cells.append({"tile": len(tiles), "says": taken_for, "sure": float(sure[place])})
            tiles.append(overlay(picture, maps[place]))
        label = class_names[int(split.labels[row])]
        examples[row] = {"id": row, "class": label, "cells": cells}
    return {
        "says": says,
        "title": title,
        "names": list(networks),
        "side": SIDE,
        "tiles": tiles,
        "sprite": assembled(tiles, SIDE),
        "kinds": [
            {"title": kind, "examples": [examples[int(row)] for row in of if int(row) in examples]}
            for kind, of in chosen.items()
        ],
    }


def looking_at_groups(
    records: Sequence[Mapping[str, Any]], pictured: Pictured
) -> dict[str, Any] | None:
    """The same for examples of the groups on which some of these runs are worst."""
    task = pictured.task
    split = next((name for name in ("test", "val") if name in task.splits()), None)
    if split is None:
        return None
    own = task.splits()[split]
    scores = [record["scores"][split]["selected"]["groups"] for record in records]
    names = task.group_names if own.attributes else task.class_names
    ids = task.groups(own) if own.attributes else np.asarray(own.labels)
    worst = {
        name: min((of[name]["accuracy"] for of in scores if name in of), default=1.0)
        for name in names
        if any(name in of for of in scores)
    }
    chosen = _some_of_each(ids, names, sorted(worst, key=lambda name: worst[name]), [0x100C])
    says = f"Random {split} examples of each group, the groups with most mistakes first."
    return looking(pictured, own, chosen, says)


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


def _some_of_each(
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
