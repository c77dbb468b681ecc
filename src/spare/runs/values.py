"""Values of settings: from text, TOML or Python to the type that a key declares, and back.

Every value that a person gives passes through `convert`, before any folder is made. A number is
written in the digits 0 to 9, with a sign, a point and an exponent where they belong: `1_000`,
`0x10` and digits of other scripts are refused, as are NaN and infinity, and whatever is outside the
range that the key's type declares.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.limits import check_value
from spare.text import shown

WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,9})?")
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def convert(key: str, value: Any, kind: Any) -> Any:
    """A value as the type that the key declares, checked against the range that it declares.

    >>> from spare.limits import Count
    >>> convert("epochs", "20", Count), convert("lr_steps", "3, 5", tuple[int, ...])
    (20, (3, 5))
    >>> convert("epochs", "0", Count)
    Traceback (most recent call last):
    spare.errors.InputError: epochs is from 1 to 1,000,000, not 0.
    """
    converted = _converted(key, value, kind)
    check_value(key, converted, kind)
    return converted


def _converted(key: str, value: Any, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _converted(key, value, typing.get_args(kind)[0])
    if origin in (types.UnionType, typing.Union):
        for choice in typing.get_args(kind):
            try:
                return _converted(key, value, choice)
            except InputError:
                continue
        raise InputError(f"{key} cannot be {shown(value)}.")
    if origin is tuple:
        item = typing.get_args(kind)[0]
        if isinstance(value, str):
            value = _parts(key, value.strip("[]() "))
        elif not isinstance(value, list | tuple):
            value = [value]
        return tuple(_converted(key, part, item) for part in value)
    if kind is type(None):
        if value is None:
            return None
        raise InputError(f"{key} cannot be {shown(value)}.")
    if kind not in _CONVERTERS:  # a type that someone's own data set or method declares
        raise InputError(
            f"{key} has a type that cannot be set ({getattr(kind, '__name__', kind)}): declare it "
            f"as bool, int, float, str, or a tuple of these."
        )
    return _CONVERTERS[kind](key, value)


def _parts(key: str, text: str) -> list[str]:
    """Words between commas; none may be missing, and a comma may end them, as in Python."""
    parts = text.split(",")
    if not parts[-1].strip():
        parts.pop()
    if not all(part.strip() for part in parts):
        raise InputError(f"{key} has nothing between two commas: {shown(text)}.")
    return parts


def _truth(key: str, value: Any) -> bool:
    if isinstance(value, np.bool_):
        value = bool(value)
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in WORDS:
        raise InputError(f"{key} is true or false, not {shown(value)}.")
    return WORDS[word]


def _whole(key: str, value: Any) -> int:
    if isinstance(value, str) and WHOLE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():  # as TOML and JSON may have it
        return int(value)
    raise InputError(f"{key} is a whole number, not {shown(value)}.")


def _number(key: str, value: Any) -> float:
    if (isinstance(value, str) and NUMBER.fullmatch(value.strip())) or (
        isinstance(value, numbers.Real) and not isinstance(value, bool)
    ):
        try:
            return float(value)
        except OverflowError:
            pass
    raise InputError(f"{key} is a number, not {shown(value)}.")


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | os.PathLike):
        raise InputError(
            f"{key} is text, not a {type(value).__name__}: name your own as package.module:NAME, "
            f"so that the record can name it too."
        )
    try:
        text = str(value)
        text.encode()
        if "\0" in text:
            raise ValueError
    except ValueError:  # bytes that are no text, or a number of thousands of digits
        raise InputError(
            f"{key} is {shown(value)}, which cannot be written to the record: use plain text."
        ) from None
    return text


_CONVERTERS = {bool: _truth, int: _whole, float: _number, str: _text}


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """`key=value` words to a mapping."""
    overrides: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set takes key=value, not {shown(pair)}.")
        overrides[key.strip()] = value.strip()
    return overrides


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: tuples are lists."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def written(value: Any) -> str:
    """A value as it is typed after `key=`."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def typed_fields(kind: type) -> dict[str, Any]:
    """The fields of a dataclass with their types, and the ranges that these declare."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
