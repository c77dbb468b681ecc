"""What a folder's record stands for, again: its plan, its data, its networks.

A folder may come from anyone: what it names is looked up, but nothing of it is run, fetched or
followed. Code that it names is imported only with `trust`. Files that it names (its data, weights,
lists) are read only if this user's own request named them (records/seal.py), if they lie below the
`data` that the user names now, or with `trust`. Data sets by name are always fine.
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
from spare.datasets import DATASETS, Source, locate, names_code
from spare.datasets.source import HUGGING_FACE, IMPORT_PATH, IN_MEMORY
from spare.errors import InputError, RunError, SpareError, reason
from spare.methods import discovery_with, method_named
from spare.models import builder
from spare.models.named import GIVEN
from spare.models.small import OF_FEATURES, OF_IMAGES
from spare.progress import Progress
from spare.records.groups_file import GroupTable, read_recorded_groups
from spare.records.record import DiscoveryRecord, is_run
from spare.records.seal import is_own
from spare.records.weights_file import read_weights
from spare.runs.plan import BEFORE_WEIGHTS, Plan, make_plan
from spare.text import printable
from spare.training.device import HOST, is_there
from spare.training.frozen import full_network

#: Settings that name files, and what they say where they name none.
FILES = {
    "classes": ("",),
    "groups": ("",),
    "backgrounds": ("",),
    "weights": ("", "imagenet", "none"),
}


def plan_of(
    folder: Path, record: DiscoveryRecord, data: Path | None = None, trust: bool = False
) -> Plan:
    """The plan of a folder's run, for the data as it is now.

    Parameters
    ----------
    data
        Where the data is: the folder of data sets, or the very file or folder that was used.
    trust
        Whether what the record names may be imported, fetched and read.
    """
    settings = record["settings"] | record["options"]
    for what, name in (("model", settings.get("model", "")), ("method", record["method"])):
        if str(name).startswith(GIVEN):
            raise InputError(f"its {what} ({printable(name)}) was given in Python, not stored.")
    if not trust:
        _refuse_code(record, settings)
    own = trust or is_own(folder, record)
    if not own:
        _refuse_files(settings)
    source = _source(record["task"], data, settings, own)
    name = record["method"]
    method = method_named(name) if is_run(record) else discovery_with(name)
    return make_plan(source, method, settings)


def _source(task: str, data: Path | None, settings: Mapping[str, Any], own: bool) -> Source:
    """Where a record's data is now; someone else's path is followed only below `data`."""
    elsewhere = names_code(task) or task.startswith(HUGGING_FACE)
    if task in DATASETS or (own and (data is None or elsewhere)):
        return locate(task, data, settings)
    if data is None and task.endswith(IN_MEMORY):
        raise InputError("its data was given as a Python object: give the object again.")
    if data is None:
        raise InputError(
            f"its data is {printable(task)!r}, and this is not a folder that you made here: name "
            f"the data with --data, or use --trust if you trust the folder."
        )
    for path in (Path(task).expanduser(), data / task):
        if _exists(path) and (own or path.resolve().is_relative_to(data.resolve())):
            return locate(task if own else path, data, settings)
    return locate(data, data, settings)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


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
            f"its data set is {printable(task)!r}, which might be fetched: use --trust if that is "
            f"meant."
        )
    named = {
        "method": record["method"] if ":" in record["method"] else "",
        "data set": task if names_code(task) else "",
    }
    for key, text in _texts(settings):
        code = key in NAMING_CODE and ":" in text
        if (code or IMPORT_PATH.fullmatch(text)) and not _of_timm(key, text):
            named[NAMING_CODE.get(key, key)] = text
    for what, name in named.items():
        if name:
            raise InputError(
                f"its {what} is {printable(name)!r}, which would be imported: use --trust if it is "
                f"yours."
            )


#: Settings that may name someone's own code, and what they are called.
NAMING_CODE = {"model": "model", "selection": "selection rule", "clusterer": "clusterer"}


def _texts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every text among settings, with its key."""
    return [
        (key, part)
        for key, value in settings.items()
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, str)
    ]


def _of_timm(key: str, value: str) -> bool:
    return key == "model" and value.startswith("timm:")


def _refuse_files(settings: Mapping[str, Any]) -> None:
    """Nothing is read that someone else's record points at besides its data, nor fetched for it."""
    for key, text in _texts(settings):
        leads_out = text.startswith(("/", "~")) or ".." in Path(text).parts
        if leads_out or text.endswith(".npy") or text not in FILES.get(key, (text,)):
            raise InputError(
                f"its {printable(key)} is the file {printable(text)!r}, and this is not a folder "
                f"that you made here: use --trust if you trust it."
            )
    if settings.get("allow_outside"):
        raise InputError(
            "it allows pictures from outside of its data's folder, and this is not a folder that "
            "you made here: use --trust if you trust it."
        )
    ours = settings.get("model") in (*OF_IMAGES, *OF_FEATURES)
    freezes = settings.get("frozen") or settings.get("frozen_until")
    if freezes and not ours and settings.get("weights") == "imagenet":
        raise InputError(
            f"the weights of its model {printable(settings.get('model'))!r} might be fetched, and "
            f"this is not a folder that you made here: use --trust if you trust it."
        )


def check_unchanged(plan: Plan, record: DiscoveryRecord) -> None:
    """Refuse data that is not what it was, and other weights in frozen layers.

    A network that was trained as a whole no longer needs the weights that it started from: all of
    its own are stored.
    """
    data, _, weights = record["data"].partition(BEFORE_WEIGHTS)
    if plan.data_fingerprint == data:
        if weights and plan.model.freezes and plan.fingerprint != record["data"]:
            raise SpareError(f"{printable(plan.model.weights)} has changed since, or is gone.")
        return
    if plan.source.name == record["task"]:
        raise SpareError(f"{printable(record['task'])} has changed since.")
    raise SpareError(f"{plan.source.name} is not what {printable(record['task'])} was then.")


def check_fits(groups: GroupTable | None, record: DiscoveryRecord, task: Task) -> None:
    """Refuse groups that are of other examples or classes than the data has."""
    if groups is None:
        return
    unknown_classes = set(record["discovery"] or {}) - set(task.class_names)
    if unknown_classes or len(groups.ids) != len(task.train):
        raise SpareError(f"its groups are not of {task.name}: run its command again.")


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

    task    with the pictures as they are, not what frozen layers make of them.
    """
    if plan.model.freezes:
        # A record may come from a machine with other devices.
        device = plan.settings.device if is_there(plan.settings.device) else HOST.type
        settings = replace(plan.settings, device=device)
        return full_network(task, plan.model, settings, state, progress, given=plan.given_model)
    shape = shape_of(task.train.inputs)
    # Where training started from does not matter any more, and need not be fetched again.
    from_scratch = replace(plan.model, weights="none")
    network = builder(from_scratch, len(task.class_names), shape, given=plan.given_model)()
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise RunError(f"the stored weights do not fit the model ({reason(error)}).") from error
    return network
