"""Values of settings: from text or TOML to the type that a key declares, and back."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from typing import Any

from spare.errors import InputError


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
        if not isinstance(value, str | int | float | os.PathLike):
            raise InputError(
                f"{key} is text, not a {type(value).__name__}: name your own as "
                f"package.module:NAME, so that the record can name it too."
            )
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


def written(value: Any) -> str:
    """A value as it is typed after `key=`."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def typed_fields(kind: type) -> dict[str, Any]:
    """The fields of a dataclass with their types."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
