"""From stored weights back to the whole network, from pixels to classes, as saliency needs it.

A run folder keeps states by name in weights.safetensors: `selected` and `last`, and `early` of the
plain model whose outputs were clustered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import nn

from spare.data.inputs import shape_of
from spare.data.task import Task
from spare.errors import RunError, reason
from spare.files import read_tensors, write_tensors
from spare.models import builder
from spare.runs.plan import Plan
from spare.training.checkpoint import State
from spare.training.frozen import thawed
from spare.training.stages import Report

WEIGHTS = "weights.safetensors"


def write_states(folder: Path, states: Mapping[str, State]) -> None:
    tensors = {
        f"{when}/{name}": value for when, state in states.items() for name, value in state.items()
    }
    write_tensors(folder / WEIGHTS, tensors, {})


def read_states(folder: Path) -> dict[str, State]:
    """The states that this folder has; {} where it kept none."""
    if not (folder / WEIGHTS).is_file():
        return {}
    found: dict[str, State] = {}
    for name, value in read_tensors(folder / WEIGHTS)[0].items():
        when, _, rest = name.partition("/")
        found.setdefault(when, {})[rest] = value
    return found


def network_with(state: State, planned: Plan, task: Task, report: Report) -> nn.Module:
    """The network of this plan with these weights, on the task's own inputs.

    task    with the pictures as they are, not the features of a frozen backbone.
    """
    if planned.model.frozen:
        return thawed(task, planned.model, planned.settings, state, report)
    shape = shape_of(task.train.inputs)
    # Where training started from is of no matter any more, and need not be fetched again.
    fresh = replace(planned.model, weights="none")
    network = builder(fresh, len(task.class_names), shape)()
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"the stored weights do not fit the model ({reason(error)}).") from error
    return network
