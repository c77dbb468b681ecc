"""Settings in three layers: defaults beside the code, presets/<task>.toml, and `--set key=value`.

A key belongs to the training settings, to the choice of a model, to the data set's choices or to
the method's options; they share one flat space of names, and a key that is in none of them is an
error.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from spare.data.task import Task
from spare.datasets import Source
from spare.errors import InputError, unknown
from spare.methods import Method, method_named
from spare.models import ModelChoice
from spare.models.small import OF_IMAGES
from spare.records.folder import FORMAT
from spare.training.settings import Settings
from spare.training.stages import Report

#: Epochs at which groups are looked for when a network learns slowly: the paper's for Restricted
#: ImageNet. Images are large from so many pixels a side on.
SLOW_CANDIDATES = (2, 4, 6, 8)
LARGE_IMAGES = 128


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides a run's numbers besides its seed."""

    source: Source
    method: str
    settings: Settings
    model: ModelChoice
    choices: dict[str, Any]
    options: Any

    def flat_settings(self) -> dict[str, Any]:
        """The training settings, the model and the data set's choices, as run.json stores them."""
        model = dataclasses.asdict(self.model)
        return plain(dataclasses.asdict(self.settings) | model | self.choices)

    def changed(self) -> dict[str, Any]:
        """What differs from the preset, by key."""
        default = plan(self.source, method_named(self.method), {})
        now = self.flat_settings() | self.flat_options()
        was = default.flat_settings() | default.flat_options()
        return {key: value for key, value in now.items() if value != was[key]}

    def load_task(self, seed: int, report: Report) -> Task:
        """Read the data with these choices; the model is not chosen here."""
        parameters = _parameters(self.source)
        arguments: dict[str, Any] = {}
        for name, kind in _kinds(self.source).items():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                fields = [field.name for field in dataclasses.fields(kind)]
                arguments[name] = kind(**{field: self.choices[field] for field in fields})
            else:
                arguments[name] = self.choices[name]
        if "report" in parameters:
            arguments["report"] = report
        return self.source.module.load(self.source.path, seed, **arguments)

    def flat_options(self) -> dict[str, Any]:
        return plain(dataclasses.asdict(self.options))

    def request(self, seed: int) -> dict[str, Any]:
        """What a run folder is checked against before it is skipped or gone on with."""
        return {
            "format": FORMAT,
            "task": self.source.name,
            "data": self.source.fingerprint,
            "method": self.method,
            "seed": seed,
            "settings": self.flat_settings(),
            "options": self.flat_options(),
        }


def known_settings(source: Source, method: Method) -> dict[str, dict[str, Any]]:
    """Every key that may be set for this task and method, with its type, by where it belongs."""
    return {
        "settings": _fields(Settings),
        "model": _fields(ModelChoice),
        "choices": _choices(source)[0],
        "options": _fields(method.options),
    }


def plan(source: Source, method: Method, overrides: Mapping[str, Any]) -> Plan:
    """Merge the three layers for one task and one method."""
    kinds = known_settings(source, method)
    values: dict[str, dict[str, Any]] = {home: {} for home in kinds}
    preset = read_preset(source.preset)
    layers = [
        (preset.get("settings", {}), f"presets/{source.preset}.toml"),
        (_method_preset(preset, method, kinds), f"presets/{source.preset}.toml"),
        (overrides, "--set"),
    ]
    for layer, origin in layers:
        for key, value in layer.items():
            home = next((name for name, types_ in kinds.items() if key in types_), None)
            if home is None:
                known = [name for types_ in kinds.values() for name in types_]
                raise unknown(f"setting for {method.name} on {source.name} ({origin})", key, known)
            values[home][key] = convert(key, value, kinds[home][key])
    choices = _choices(source)[1] | values["choices"]
    if "candidates" in kinds["options"] and _learns_slowly(values["model"], choices):
        values["options"].setdefault("candidates", SLOW_CANDIDATES)
    return Plan(
        source=source,
        method=method.name,
        settings=Settings(**values["settings"]),
        model=ModelChoice(**values["model"]),
        choices=choices,
        options=method.options(**values["options"]),
    )


def _learns_slowly(model: Mapping[str, Any], choices: Mapping[str, Any]) -> bool:
    """From scratch on large images even a shortcut takes some epochs to learn."""
    choice = ModelChoice(**model)
    scratch = choice.weights == "none" or choice.model in OF_IMAGES
    if choice.frozen or not scratch:
        return False
    return bool((choices.get("crop") or choices.get("resize") or 0) >= LARGE_IMAGES)


def _method_preset(
    preset: Mapping[str, Any], method: Method, kinds: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A method's own part of a preset. A pair without a name of its own infers groups as the method
    that the first half comes from does, and trains as that of the second half."""
    parts: Mapping[str, dict[str, Any]] = preset.get("methods", {})
    if method.like:
        return parts.get(method.like, {}) | parts.get(method.name, {})
    if method.name in parts or method.halves is None:
        return parts.get(method.name, {})
    inference, trainer = method.halves
    inferring = _fields(inference.options)
    training = {
        **_fields(trainer.options),
        **kinds["settings"],
        **kinds["model"],
        **kinds["choices"],
    }
    first, second = parts.get(inference.name, {}), parts.get(trainer.name, {})
    return {key: value for key, value in first.items() if key in inferring} | {
        key: value for key, value in second.items() if key in training
    }


def read_preset(name: str) -> dict[str, Any]:
    file = resources.files("spare") / "presets" / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """`key=value` words to a mapping."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set takes key=value, not {pair!r}.")
        found[key.strip()] = value.strip()
    return found


def convert(key: str, value: Any, kind: Any) -> Any:
    """A value from TOML or the command line as the type that the key declares."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        for choice in typing.get_args(kind):
            try:
                return convert(key, value, choice)
            except InputError:
                continue
        raise InputError(f"{key} cannot be {value!r}.")
    if origin is tuple:
        item = typing.get_args(kind)[0]
        if isinstance(value, str):
            value = [part for part in value.strip("[]() ").split(",") if part.strip()]
        elif not isinstance(value, list | tuple):
            value = [value]
        return tuple(convert(key, part, item) for part in value)
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() in words:
            return words[str(value).lower()]
        raise InputError(f"{key} is true or false, not {value!r}.")
    if kind is str:
        return str(value)
    try:
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        return kind(value)
    except (TypeError, ValueError) as error:
        what = {int: "a whole number", float: "a number"}.get(kind, str(kind))
        raise InputError(f"{key} is {what}, not {value!r}.") from error


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: tuples are lists."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _parameters(source: Source) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(source.module.load).parameters


def _kinds(source: Source) -> dict[str, Any]:
    """The keyword-only parameters of a data set's `load`, with their types."""
    hints = typing.get_type_hints(source.module.load)
    return {
        name: hints[name]
        for name, parameter in _parameters(source).items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _choices(source: Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types and the defaults of a data set's choices; a parameter that is a dataclass stands
    for its fields, because several data sets share it."""
    types_: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    parameters = _parameters(source)
    for name, kind in _kinds(source).items():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            types_ |= _fields(kind)
            defaults |= {field.name: field.default for field in dataclasses.fields(kind)}
        else:
            types_[name] = kind
            defaults[name] = parameters[name].default
    return types_, defaults
