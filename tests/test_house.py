"""Imports point one way: nothing downstream is imported upstream."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "spare"

#: From the foundation up; a module may import only from rooms before its own (or its own).
FLOORS = [
    ["errors"],
    [
        "associations",
        "console",
        "files",
        "folders",
        "folds",
        "imported",
        "inputs",
        "saliency",
        "silhouettes",
        "verdict",
        "weights",
        "metrics",
        "selection",
    ],
    ["task", "groups", "images", "batches", "sampler", "models"],
    ["train", "datasets", "discovery", "report", "sheets"],
    ["stages", "objectives"],
    ["methods", "frozen"],
    ["presets"],
    ["networks"],
    ["run"],
    ["bench", "discover", "figures", "remake"],
    ["cli"],
    ["__main__"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "spare":
                names = [f"spare.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("spare.")}
    return rooms


FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__init__.py" or path.parent != SOURCE
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    assert room in FLOOR, f"{room} has no floor: give it one in this test"
    for other in imported_rooms(path) - {room}:
        assert FLOOR[other] <= FLOOR[room], f"{room} imports {other}, which is above it"


def test_data_sets_know_no_method_and_no_training():
    for path in (SOURCE / "datasets").rglob("*.py"):
        assert not imported_rooms(path) & {"methods", "train", "stages", "groups"}


@pytest.mark.parametrize(
    "module",
    [
        "silhouettes",
        "weights",
        "metrics",
        "groups/clusters",
        "groups/mistakes",
        "groups/environments",
        "groups/strata",
    ],
)
def test_what_others_use_with_their_own_trainer_needs_no_trainer(module):
    assert not imported_rooms(SOURCE / f"{module}.py") & {"train", "models", "task", "inputs"}
