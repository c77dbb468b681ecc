"""weights.safetensors: the weights that a run keeps, by name.

`selected` and `last` are epochs of the trained model; `early` is the plain model whose outputs were
clustered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from spare.files.reading import read_tensors
from spare.files.writing import write_tensors
from spare.records.layout import WEIGHTS


def write_weights(folder: Path, states: Mapping[str, Mapping[str, Tensor]]) -> None:
    tensors = {
        f"{when}/{name}": value for when, state in states.items() for name, value in state.items()
    }
    write_tensors(folder / WEIGHTS, tensors, {})


def read_weights(folder: Path) -> dict[str, dict[str, Tensor]]:
    """The weights that this folder has; {} where it kept none."""
    if not os.path.lexists(folder / WEIGHTS):
        return {}
    return _states(read_tensors(folder / WEIGHTS)[0])


def selected_weights(tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The selected weights among the tensors of such a file; None if it is another kind of file."""
    return _states(tensors).get("selected")


def _states(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    states: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        when, slash, rest = name.partition("/")
        if slash:
            states.setdefault(when, {})[rest] = value
    return states
