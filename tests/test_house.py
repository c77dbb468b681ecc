"""Imports point one way: one strict order of rooms, and no cycle inside a room."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "spare"

#: From the foundation up: a room may import from the rooms before it, and from itself.
ROOMS = [
    "text",
    "errors",
    "limits",
    "files",
    "imports",
    "progress",
    "processes",
    "data",
    "groups",
    "records",
    "images",
    "synthetic",
    "datasets",
    "engines",
    "models",
    "training",
    "objectives",
    "methods",
    "findings",
    "runs",
    "report",
    "theory",
    "api",
    "cli",
    "__main__",
]
RANK = {room: rank for rank, room in enumerate(ROOMS)}
#: Rooms that a room may use, where that is less than the order allows.
ONLY = {
    "limits": {"text", "errors"},
    "files": {"text", "errors", "limits"},
    "imports": {"errors"},
    "progress": set(),
    "processes": {"text", "errors"},
    "groups": {"text", "errors", "limits", "imports"},  # works with anyone's trainer
    "synthetic": {"errors", "limits", "files", "progress", "images"},
    "datasets": {
        "text",
        "errors",
        "limits",
        "files",
        "imports",
        "progress",
        "data",
        "images",
        "synthetic",
    },
}
#: Rooms that a room must not know, although they come before it.
NEVER = {
    "report": {"methods", "objectives"},
    "findings": {"datasets"},
    "theory": {"methods", "objectives", "findings"},
}
#: Where the studies of the theory on data sets train as everyone does; the others simulate.
ON_DATA = {"theory.early", "theory.nsr"}


def modules_imported(path: Path) -> set[str]:
    """The modules of this package that a file imports, as dotted names below it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full.removeprefix("spare.") in MODULES else node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix("spare.") for name in names if name.startswith("spare.")}


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]
MODULES = {module_of(path): path for path in FILES}


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[0] for name in modules_imported(path)} & RANK.keys()


def test_every_room_has_its_place_in_the_order():
    assert {module.split(".")[0] for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    room = module.split(".")[0]
    others = rooms_imported(MODULES[module]) - {room}
    for other in others:
        assert RANK[other] < RANK[room], f"{room} imports {other}, which comes after it"
    assert others <= ONLY.get(room, others)
    assert not others & NEVER.get(room, set())


def test_only_studies_on_data_sets_reach_up_to_runs():
    reaching = {
        module
        for module, path in MODULES.items()
        if module.split(".")[0] == "theory" and "runs" in rooms_imported(path)
    }
    assert reaching <= ON_DATA


@pytest.mark.parametrize("room", [room for room in ROOMS if (SOURCE / room).is_dir()])
def test_no_cycle_inside_a_room(room):
    graph = {
        module: {
            name
            for name in modules_imported(path)
            if name in MODULES and name != module and name.split(".")[0] == room
        }
        for module, path in MODULES.items()
        if module.split(".")[0] == room
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"{room} goes in circles: {' -> '.join(error.args[1])}")


def test_the_root_is_small():
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_long_modules_give_a_reason():
    for path in FILES:
        text = path.read_text()
        if text.count("\n") > 300:
            assert "lines" in (ast.get_docstring(ast.parse(text)) or ""), f"{path.name} is long"
