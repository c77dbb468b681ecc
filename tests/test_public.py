"""The public list is honest, and importing it is cheap."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import spare


def test_every_public_name_is_there_and_sorted():
    assert sorted(spare.__all__) == spare.__all__
    for name in spare.__all__:
        assert getattr(spare, name).__name__ == name
    assert set(spare.__all__) <= set(dir(spare))


@pytest.mark.parametrize("name", spare.__all__)
def test_every_public_name_is_explained_with_an_example(name):
    documentation = inspect.getdoc(getattr(spare, name)) or ""  # dedented in every Python
    assert "\nExamples\n--------\n" in documentation
    assert ">>> " in documentation


def test_silhouette_is_a_function_even_after_its_neighbors_were_imported():
    import spare.groups.clusters

    assert callable(spare.silhouette)


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_spare_and_its_command_line_loads_nothing_heavy():
    heavy = {"torch", "torchvision", "sklearn", "pyarrow", "matplotlib", "numpy"}
    assert not heavy & modules_after("import spare, spare.cli")


def test_the_library_does_not_load_torchvision():
    loaded = modules_after("import spare; spare.infer_groups; spare.ImportanceSampler")
    assert "torch" in loaded
    assert "torchvision" not in loaded
