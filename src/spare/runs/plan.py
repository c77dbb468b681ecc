"""What is asked for: task, method, settings. Everything that decides a run's numbers but its seed.

Settings come in three layers: defaults beside the code, presets/<task>.toml, and `--set key=value`.
A key belongs to the training settings, to the choice of a model, to the data set's choices or to
the method's options; they share one flat space of names, and a key that is in none of them is an
error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import shlex
import typing
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from spare.data.inputs import shape_of
from spare.data.task import Task
from spare.datasets import Source
from spare.datasets.arrays import MEMBER, labels_file
from spare.datasets.source import fingerprint_of
from spare.errors import InputError, unknown
from spare.methods import Method, method_named, with_given_groups
from spare.models import ModelChoice, builder, check_model
from spare.progress import Progress
from spare.records.record import FORMAT, Request
from spare.runs.layers import from_scratch, method_preset, preset_of
from spare.runs.values import convert, plain, typed_fields, written
from spare.training.device import device_named
from spare.training.frozen import with_frozen_layers
from spare.training.selection import rule_named
from spare.training.settings import Settings

#: Settings that may name a file that the data is read with. `label` is not here, because in most
#: data it names a column, nor is `groups`, which has its own digest.
NAMING_FILES = ("classes", "backgrounds")
#: Between the fingerprint of the data and that of the weights.
BEFORE_WEIGHTS = "+"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides a run's numbers besides its seed."""

    source: Source
    method: Method
    settings: Settings
    model: ModelChoice
    choices: dict[str, Any]
    options: Any
    #: A model that was given in Python: a network, or a function that makes one.
    given_model: Any = None

    @property
    def method_name(self) -> str:
        """As the record has it; a discovery goes by the name of its inference."""
        if self.method.trains or self.method.halves is None:
            return self.method.name
        return self.method.halves[0].name

    # Fingerprints are taken once: a record says what its run was started with, whatever becomes of
    # the files meanwhile.
    @cached_property
    def fingerprint(self) -> str:
        """Of the data and of the weights to start from: a changed file is another run."""
        weights = Path(os.path.expanduser(self.model.weights))
        if not weights.suffix or not os.path.isfile(weights):  # `imagenet` and `none` have none
            return self.data_fingerprint
        return f"{self.data_fingerprint}{BEFORE_WEIGHTS}{fingerprint_of(weights)}"

    @cached_property
    def data_fingerprint(self) -> str:
        """Of the data and of the files that it is read with."""
        prints = [self.source.fingerprint]
        for key in NAMING_FILES:
            file = os.path.expanduser(str(self.choices.get(key) or ""))
            if os.path.isfile(file):
                prints.append(f"{key} {fingerprint_of(Path(file))}")
        path = self.source.path
        if self.source.kind == "arrays" and path.suffix.lower() == MEMBER:
            labels = labels_file(path, self.choices["label"])
            prints += [] if labels is None else [f"label {fingerprint_of(labels)}"]
        if len(prints) == 1:
            return prints[0]
        return hashlib.sha256(" ".join(prints).encode()).hexdigest()[:16]

    def flat_settings(self) -> dict[str, Any]:
        """The training settings, the model and the data set's choices, as run.json stores them."""
        model = dataclasses.asdict(self.model)
        return plain(dataclasses.asdict(self.settings) | model | self.choices)

    def flat_options(self) -> dict[str, Any]:
        return plain(dataclasses.asdict(self.options))

    def values_of(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of these settings and options, as JSON can hold them."""
        values = self.flat_settings() | self.flat_options()
        return {key: values[key] for key in keys}

    def request(self, seed: int) -> Request:
        """What a run folder is checked against before it is skipped or continued."""
        return {
            "format": FORMAT,
            "task": self.source.name,
            "data": self.fingerprint,
            "method": self.method_name,
            "seed": seed,
            "settings": self.flat_settings(),
            "options": self.flat_options(),
        }

    def changed(self) -> dict[str, Any]:
        """What differs from the preset, by key."""
        default = make_plan(self.source, self.method, {})
        now = self.flat_settings() | self.flat_options()
        before = default.flat_settings() | default.flat_options()
        return {key: value for key, value in now.items() if value != before[key]}

    def command(self, seed: int) -> str:
        """A command that gives this run again, wherever the data is."""
        verb, option, default = "train", "--method", ""
        if not self.method.trains:
            verb, option, default = "discover", "--inference", "spare"
        words = ["spare", verb, self.source.name]
        if self.method_name != default:
            words += [option, self.method_name]
        words += ["--seed", str(seed)]
        for key, value in self.changed().items():
            words += ["--set", f"{key}={written(value)}"]
        return shlex.join(words)

    def training_command(self, groups: Path) -> str:
        """The command that trains with the groups of a discovery, on the same data and model."""
        trains = method_named(with_given_groups("spare"))
        known = {key for keys in known_settings(self.source, trains).values() for key in keys}
        words = ["spare", "train", self.source.name, "--groups", str(groups)]
        for key, value in self.changed().items():
            if key in known:
                words += ["--set", f"{key}={written(value)}"]
        return shlex.join(words)

    def load_task(self, seed: int, progress: Progress) -> Task:
        """Read the data with these choices; the model is not chosen here."""
        arguments = _load_arguments(self.source, self.choices)
        progress.report("data", 0, 1)
        task = self.source.load(self.source.path, seed, progress, **arguments)
        progress.report("data", 1, 1)
        return task


def with_model(task: Task, plan: Plan, progress: Progress) -> Task:
    """The task with the model that the plan names; what frozen layers give is computed once."""
    choice, given = plan.model, plan.given_model
    if task.holds_outputs:
        return task
    if choice.freezes:
        augment = str(plan.choices.get("augment", ""))
        return with_frozen_layers(
            task, choice, plan.settings, progress, given=given, augment=augment
        )
    shape = shape_of(task.train.inputs)
    build_model = builder(choice, len(task.class_names), shape, given=given)
    return dataclasses.replace(task, build_model=build_model)


def known_settings(source: Source, method: Method) -> dict[str, dict[str, Any]]:
    """Every key that may be set for this task and method, with its type, by where it belongs."""
    return {
        "settings": typed_fields(Settings),
        "model": typed_fields(ModelChoice),
        "choices": _choices(source)[0],
        "options": typed_fields(method.options),
    }


def make_plan(
    source: Source, method: Method, overrides: Mapping[str, Any], given_model: Any = None
) -> Plan:
    """Merge the three layers for one task and one method; values are checked before any folder."""
    kinds = known_settings(source, method)
    _refuse_name_twice(source, method, kinds)
    values: dict[str, dict[str, Any]] = {home: {} for home in kinds}
    origin, preset = preset_of(source)
    layers = [
        (preset.get("settings", {}), origin),
        (method_preset(preset, method, kinds), origin),
        (from_scratch(preset, overrides, kinds["options"]), origin),
        (overrides, "--set"),
    ]
    for layer, layer_origin in layers:
        for key, value in layer.items():
            home = next((name for name, types_ in kinds.items() if key in types_), None)
            if home is None:
                known = [name for types_ in kinds.values() for name in types_]
                raise unknown(
                    f"setting for {method.name} on {source.name} ({layer_origin})", key, known
                )
            values[home][key] = convert(key, value, kinds[home][key])
    choices = _choices(source)[1] | values["choices"]
    _load_arguments(source, choices)  # what does not go together is refused now
    return Plan(
        source=source,
        method=method,
        settings=Settings(**values["settings"]).on_named_device(),
        model=ModelChoice(**values["model"]),
        choices=choices,
        options=method.options(**values["options"]),
        given_model=given_model,
    )


def check_names(plan: Plan) -> None:
    """Refuse names of rules, models, weights and devices that do not exist. Not for the plan of a
    record: what that names may be gone, and nothing of it is imported."""
    if plan.method.trains:
        rule_named(plan.settings.selection)
    check_model(plan.model, plan.given_model)
    device_named(plan.settings.device)


def _refuse_name_twice(
    source: Source, method: Method, kinds: Mapping[str, Mapping[str, Any]]
) -> None:
    """Settings, choices and options share one space of names: a key must mean one thing."""
    for choice in kinds["choices"]:
        home = next((h for h in ("settings", "model", "options") if choice in kinds[h]), None)
        if home is not None:
            owner = f"an option of {method.name}" if home == "options" else "a setting"
            raise InputError(
                f"{source.name} has a choice called {choice!r}, which is the name of {owner}: call "
                f"the parameter of its load something else."
            )


def _choice_types(source: Source) -> dict[str, Any]:
    """The keyword-only parameters of a data set's `load`, with their types."""
    hints = typing.get_type_hints(source.load, include_extras=True)
    types_ = {}
    for name, parameter in inspect.signature(source.load).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if name not in hints or (
            parameter.default is parameter.empty and not dataclasses.is_dataclass(hints[name])
        ):
            raise InputError(
                f"the parameter {name!r} of the load of {source.name} needs a type and a default, "
                f"as in {name}: float = 0.5."
            )
        types_[name] = hints[name]
    return types_


def _load_arguments(source: Source, choices: Mapping[str, Any]) -> dict[str, Any]:
    """A data set's choices as its `load` takes them, some of them within dataclasses."""
    arguments: dict[str, Any] = {}
    for name, kind in _choice_types(source).items():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            fields = [field.name for field in dataclasses.fields(kind)]
            arguments[name] = kind(**{field: choices[field] for field in fields})
        else:
            arguments[name] = choices[name]
    return arguments


def _choices(source: Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types and the defaults of a data set's choices; a parameter that is a dataclass stands
    for its fields, because several data sets share it."""
    types_: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    parameters = inspect.signature(source.load).parameters
    for name, kind in _choice_types(source).items():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            types_ |= typed_fields(kind)
            defaults |= dataclasses.asdict(kind())
        else:
            types_[name] = kind
            defaults[name] = parameters[name].default
    return types_, defaults
