"""What a folder's record stands for, again: its plan, its data, its networks.

A folder may come from anyone: what it names is looked up, but nothing of it is run. Only with
`trust` is anything imported that is a user's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from spare.data.inputs import ConcatInputs, SubsetInputs, shape_of
from spare.data.task import Split, Task
from spare.datasets import locate, names_code
from spare.datasets.source import HUGGING_FACE
from spare.errors import InputError, RunError, SpareError, reason
from spare.methods import discovery_with, method_named
from spare.models import builder
from spare.models.named import GIVEN
from spare.progress import Progress
from spare.records.groups_file import read_recorded_groups
from spare.records.record import DiscoveryRecord, is_run
from spare.records.weights_file import read_weights
from spare.runs.plan import Plan, make_plan
from spare.training.frozen import full_network


def plan_of(record: DiscoveryRecord, data: Path | None = None, trust: bool = False) -> Plan:
    """The plan of a folder's run, for the data as it is now."""
    settings = record["settings"] | record["options"]
    for what, name in (("model", settings.get("model", "")), ("method", record["method"])):
        if str(name).startswith(GIVEN):
            raise InputError(f"its {what} ({name}) was given in Python and is not stored.")
    if not trust:
        _refuse_code(record, settings)
    source = locate(record["task"], data, settings)
    name = record["method"]
    method = method_named(name) if is_run(record) else discovery_with(name)
    return make_plan(source, method, settings)


def load_data(
    task: str, data: Path | None, overrides: Mapping[str, Any], progress: Progress
) -> Task:
    """The data alone, without a method to train on it."""
    source = locate(task, data, overrides)
    return make_plan(source, method_named("erm"), overrides).load_task(0, progress)


def _refuse_code(record: DiscoveryRecord, settings: Mapping[str, Any]) -> None:
    """Nothing that a folder names is imported or fetched: the folder may be anyone's."""
    task = record["task"]
    if task.startswith(HUGGING_FACE):
        raise InputError(
            f"its data set is {task!r}, which might be fetched: use --trust if that is meant."
        )
    model = str(settings.get("model", ""))
    named = {
        "method": record["method"],
        "model": "" if model.startswith("timm:") else model,
        "selection rule": str(settings.get("selection", "")),
        "clusterer": str(settings.get("clusterer", "")),
        "data set": task if names_code(task) else "",
    }
    for what, name in named.items():
        if ":" in name:
            raise InputError(
                f"its {what} is {name!r}, which would be imported: use --trust if it is yours."
            )


def check_unchanged(plan: Plan, record: DiscoveryRecord) -> None:
    if plan.source.fingerprint != record["data"]:
        raise SpareError(f"{record['task']} has changed since.")


def task_by_name(
    folder: Path, record: DiscoveryRecord, plan: Plan, progress: Progress
) -> Task | None:
    """The examples of a folder's groups with the pictures that are still there under their names,
    for data of which files are gone; None if there are none. True groups are not looked for."""
    groups = read_recorded_groups(folder, record["discovery"])
    if groups is None or groups.names is None or "skip_bad" not in plan.choices:
        return None
    assert groups.labels is not None
    tolerant = replace(plan, choices=plan.choices | {"skip_bad": True})
    task = tolerant.load_task(record["seed"], progress)
    splits = task.splits()
    names = [name for split in splits for name in task.names[split]]
    row_of = {name: row for row, name in enumerate(names)}
    rows = np.array([row_of.get(name, -1) for name in groups.names])
    if (rows < 0).all():
        return None
    classes = list(record["discovery"] or {})
    inputs = SubsetInputs(ConcatInputs(*(split.inputs for split in splits.values())), rows)
    return Task(
        name=task.name,
        train=Split(inputs, np.array([classes.index(label) for label in groups.labels])),
        val=None,
        test=None,
        class_names=tuple(classes),
        attribute_values={},
    )


def networks_of(
    folder: Path, wanted: Mapping[str, str], plan: Plan, task: Task, progress: Progress
) -> dict[str, nn.Module]:
    """Stored networks by the names that a page has for them; {} for data without pictures.

    wanted  by the name of the stored weights (`selected`, `early`): what the page calls it
    """
    if len(shape_of(task.train.inputs)) != 3:
        return {}
    states = read_weights(folder)
    return {
        name: network_with(states[state], plan, task, progress)
        for state, name in wanted.items()
        if state in states
    }


def network_with(
    state: Mapping[str, Tensor], plan: Plan, task: Task, progress: Progress
) -> nn.Module:
    """The network of this plan with these weights, on the task's own inputs.

    task    with the pictures as they are, not the features of a frozen network.
    """
    if plan.model.frozen:
        return full_network(
            task, plan.model, plan.settings, state, progress, given=plan.given_model
        )
    shape = shape_of(task.train.inputs)
    # Where training started from does not matter any more, and need not be fetched again.
    from_scratch = replace(plan.model, weights="none")
    network = builder(from_scratch, len(task.class_names), shape, given=plan.given_model)()
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise RunError(f"the stored weights do not fit the model ({reason(error)}).") from error
    return network
