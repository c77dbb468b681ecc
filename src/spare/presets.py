"""Settings in three layers: defaults beside the code, presets/<task>.toml, and `--set key=value`.

A key belongs to the training settings, to the data set's choices or to the method's options; the
three share one flat space of names, and a key that is in none of them is an error.
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

from spare.datasets import dataset_named
from spare.errors import InputError, unknown
from spare.methods import Method
from spare.train import Settings

#: Of run folders: raised when what run.json says changes its meaning.
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides a run's numbers besides its seed."""

    task: str
    method: str
    settings: Settings
    choices: dict[str, Any]
    options: Any

    def flat_settings(self) -> dict[str, Any]:
        """The training settings and the data set's choices, as run.json stores them."""
        return plain(dataclasses.asdict(self.settings) | self.choices)

    def flat_options(self) -> dict[str, Any]:
        return plain(dataclasses.asdict(self.options))

    def request(self, seed: int) -> dict[str, Any]:
        """What a run folder is checked against before it is skipped or gone on with."""
        return {
            "format": FORMAT,
            "task": self.task,
            "method": self.method,
            "seed": seed,
            "settings": self.flat_settings(),
            "options": self.flat_options(),
        }


def known_settings(task: str, method: Method) -> dict[str, dict[str, Any]]:
    """Every key that may be set for this task and method, with its type, by where it belongs."""
    return {
        "settings": _fields(Settings),
        "choices": _choices(task),
        "options": _fields(method.options),
    }


def plan(task: str, method: Method, overrides: Mapping[str, Any]) -> Plan:
    """Merge the three layers for one task and one method."""
    kinds = known_settings(task, method)
    values: dict[str, dict[str, Any]] = {"settings": {}, "choices": {}, "options": {}}
    preset = read_preset(task)
    layers = [
        (preset.get("settings", {}), f"presets/{task}.toml"),
        (preset.get("methods", {}).get(method.name, {}), f"presets/{task}.toml"),
        (overrides, "--set"),
    ]
    for layer, source in layers:
        for key, value in layer.items():
            home = next((name for name, types_ in kinds.items() if key in types_), None)
            if home is None:
                known = [name for types_ in kinds.values() for name in types_]
                raise unknown(f"setting for {method.name} on {task} ({source})", key, known)
            values[home][key] = convert(key, value, kinds[home][key])
    return Plan(
        task=task,
        method=method.name,
        settings=Settings(**values["settings"]),
        choices={key: _default(task, key) for key in kinds["choices"]} | values["choices"],
        options=method.options(**values["options"]),
    )


def read_preset(task: str) -> dict[str, Any]:
    file = resources.files("spare") / "presets" / f"{task}.toml"
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


def _parameters(task: str) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a data set's `load` are its choices."""
    signature = inspect.signature(dataset_named(task).load)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _choices(task: str) -> dict[str, Any]:
    hints = typing.get_type_hints(dataset_named(task).load)
    return {name: hints[name] for name in _parameters(task)}


def _default(task: str, key: str) -> Any:
    return _parameters(task)[key].default
