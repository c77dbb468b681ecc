"""Where networks look in chosen pictures: each picture, and beside it one map per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Split, Task
from spare.errors import reason
from spare.models.saliency import saliency
from spare.records.record import RunRecord
from spare.report.thumbnails import Sprite, make_sprite, read_pictures

SIDE = 96
#: Examples per panel, and panels at most.
MOST_EXAMPLES = 3
MOST_PANELS = 12
#: How much of the picture shows through its map.
PICTURE_SHARE = 0.55


@dataclass(frozen=True)
class Pictured:
    """Where a page's pictures come from, and the networks that are shown looking at them."""

    task: Task
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    #: The layer whose maps are shown; empty: it is found.
    layer: str = ""


@dataclass(frozen=True)
class Cell:
    """One picture: the number of its tile and, under a map, what the network predicts."""

    tile: int
    predicted: str = ""
    confidence: float = 0.0


@dataclass(frozen=True)
class Example:
    id: int
    class_name: str
    #: The picture, then one map per network.
    cells: list[Cell]


@dataclass(frozen=True)
class Panel:
    title: str
    examples: list[Example]


@dataclass(frozen=True)
class SaliencyPanels:
    """What a page shows of where networks look."""

    title: str
    caption: str = ""
    #: Why there is nothing to see, if so.
    problem: str = ""
    #: What the networks are called, in the order of the cells.
    names: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    tiles: list[Tensor | None] = field(default_factory=list)
    sprite: Sprite | None = None
    side: int = SIDE


def saliency_panels(
    pictured: Pictured, split: Split, chosen: Mapping[str, np.ndarray], caption: str
) -> SaliencyPanels | None:
    """Where the networks look; None where there are no pictures, or none can be read.

    Parameters
    ----------
    chosen
        Numbers of examples of the split, by the title of their panel.
    caption
        What they are, in a sentence.
    """
    networks, class_names = pictured.networks, pictured.task.class_names
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *chosen.values()]).astype(np.int64)
    shown = read_pictures(split.inputs, rows)
    if shown is None:
        return None
    readable = [
        (int(row), picture) for row, picture in zip(rows, shown, strict=True) if picture is not None
    ]
    if not readable:
        return None
    x = split.inputs.take(np.array([row for row, _ in readable]))
    title = "Where it looks" if len(networks) == 1 else "Where they look"
    try:
        views = [_view(network, x, pictured.layer) for network in networks.values()]
    except Exception as error:  # whatever a network raises: the page is worth more than this part
        if pictured.layer:
            raise
        return SaliencyPanels(title, problem=reason(error))
    tiles: list[Tensor | None] = []
    examples: dict[int, Example] = {}
    for i, (row, picture) in enumerate(readable):
        cells = [Cell(len(tiles))]
        tiles.append(picture)
        for maps, predicted, confidence in views:
            cells.append(Cell(len(tiles), class_names[int(predicted[i])], float(confidence[i])))
            tiles.append(overlay(picture, maps[i]))
        examples[row] = Example(row, class_names[int(split.labels[row])], cells)
    return SaliencyPanels(
        title,
        caption,
        names=list(networks),
        panels=[
            Panel(name, [examples[int(row)] for row in rows if int(row) in examples])
            for name, rows in chosen.items()
        ],
        tiles=tiles,
        sprite=make_sprite(tiles, SIDE),
    )


def worst_group_panels(records: Sequence[RunRecord], pictured: Pictured) -> SaliencyPanels | None:
    """Where the networks look in examples of the groups on which any of these runs is worst."""
    task = pictured.task
    name = next((name for name in ("test", "val") if name in task.splits()), None)
    if name is None:
        return None
    split = task.splits()[name]
    scores = [
        record["scores"][name]["selected"]["groups"]
        for record in records
        if name in record["scores"]
    ]
    group_names = task.group_names if split.attributes else task.class_names
    ids = task.groups(split) if split.attributes else np.asarray(split.labels)
    worst = {
        group: min((score[group]["accuracy"] for score in scores if group in score), default=1.0)
        for group in group_names
        if any(group in score for score in scores)
    }
    wanted = sorted(worst, key=lambda group: worst[group])[:MOST_PANELS]
    chosen = _some_of_each(ids, group_names, wanted, [0x100C])
    caption = f"Random {name} examples of each group, the groups with most mistakes first."
    return saliency_panels(pictured, split, chosen, caption)


def overlay(picture: Tensor, saliency_map: Tensor) -> Tensor:
    """The picture under its map: red where most of the decision comes from, blue where none."""
    size = (picture.shape[1], picture.shape[2])
    value = nn.functional.interpolate(saliency_map[None, None], size, mode="bilinear")[0, 0]
    # The jet colors: red, green and blue are the same tent, a quarter apart.
    tents = [1.5 - (4 * value - top).abs() for top in (3, 2, 1)]
    colors = torch.stack(tents).clamp(0, 1) * 255
    mixed = PICTURE_SHARE * picture.float() + (1 - PICTURE_SHARE) * colors
    return mixed.round().to(torch.uint8)


def _view(network: nn.Module, x: Tensor, layer: str) -> tuple[Tensor, Tensor, Tensor]:
    """Maps, predicted classes, and how sure the network is of them."""
    maps = saliency(network, x, layer=layer)
    network.eval()
    with torch.inference_mode():
        confidence, predicted = network(x).softmax(1).max(1)
    return maps, predicted, confidence


def _some_of_each(
    ids: np.ndarray, names: Sequence[str], wanted: Sequence[str], key: Sequence[int]
) -> dict[str, np.ndarray]:
    """A few random examples of each of the wanted groups."""
    rng = np.random.default_rng(key)
    number = {name: i for i, name in enumerate(names)}
    return {
        name: np.sort(rng.permutation(np.flatnonzero(ids == number[name]))[:MOST_EXAMPLES])
        for name in wanted
    }
