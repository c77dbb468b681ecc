"""How large and how small: ranges of settings, and limits on what is read.

A range belongs to a setting's type: `epochs: Annotated[int, Range(1)] = 20`. A limit keeps a file
from taking the machine down; a person raises it with an environment variable.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from spare.errors import DataError, InputError
from spare.text import shown


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; an open end is not among them.

    >>> Range(0, 1, open_high=True).check("ema", 0.9)
    >>> Range(1).check("epochs", 0)
    Traceback (most recent call last):
    spare.errors.InputError: epochs is at least 1, not 0.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def check(self, name: str, value: float) -> None:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        # NaN is neither. An integer may be too large for a float, so isfinite would not do.
        if not (above and below and -math.inf < value < math.inf):
            raise InputError(f"{name} is {self}, not {shown(value)}.")

    def __str__(self) -> str:
        if self.high == math.inf:
            if self.low == -math.inf:
                return "a finite number"
            return f"{'above' if self.open_low else 'at least'} {self.low:,g}"
        start = f"{'above' if self.open_low else 'from'} {self.low:,g}"
        join = (
            "and below"
            if self.open_low and self.open_high
            else ("and at most" if self.open_low else "to below" if self.open_high else "to")
        )
        return f"{start} {join} {_number(self.high)}"


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


FINITE = Range()
#: What NumPy and torch can count with.
WHOLE = Range(-(2**63), 2**63 - 1)
SEED = Range(0, 2**32 - 1)
#: Epochs, copies, clusters: more than anyone can wait for is a slip of the finger.
Count = Annotated[int, Range(1, 1_000_000)]
CountOrNone = Annotated[int, Range(0, 1_000_000)]
Share = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, 1e9, open_low=True)]
NotNegative = Annotated[float, Range(0, 1e9)]


def check_seed(seed: Any) -> int:
    """The seed, unless NumPy, torch or scikit-learn would not take it."""
    return whole_number("a seed", seed, SEED)


def whole_number(name: str, value: Any, range_: Range) -> int:
    """A whole number of any library as Python's own; refused if it is another thing, or too large.

    >>> whole_number("k", 3, Range(1))
    3
    >>> whole_number("k", 2.5, Range(1))
    Traceback (most recent call last):
    spare.errors.InputError: k is a whole number, not 2.5.
    """
    try:
        if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
            raise TypeError
        number = operator.index(value)
    # Arrays and tensors of other libraries have an __index__ too, and raise what they like.
    except Exception:
        raise InputError(f"{name} is a whole number, not {shown(value)}.") from None
    range_.check(name, number)
    return number


def check_value(name: str, value: Any, kind: Any) -> None:
    """Refuse a number outside the range that a type declares, also within a tuple."""
    ranges = [part for part in getattr(kind, "__metadata__", ()) if isinstance(part, Range)]
    for number in _numbers(value):
        otherwise = WHOLE if isinstance(number, int) else FINITE
        for range_ in ranges or _ranges_within(kind) or (otherwise,):
            range_.check(name, number)


def check_ranges(settings: Any) -> None:
    """Refuse a dataclass of settings if a number in it is out of its range; call it when made."""
    of: Any = type(settings)
    for name, kind in _hints(of).items():
        check_value(name, getattr(settings, name), kind)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _ranges_within(kind: Any) -> tuple[Range, ...]:
    """The range of the items of a tuple, or of the number in a union."""
    return tuple(
        part
        for inner in typing.get_args(kind)
        for part in getattr(inner, "__metadata__", ())
        if isinstance(part, Range)
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@dataclass(frozen=True)
class Limit:
    """The most that is read of something, unless an environment variable says otherwise."""

    variable: str
    #: None for half of this machine's memory.
    default: int | None
    unit: str

    def value(self) -> int:
        given = os.environ.get(self.variable, "").strip()
        if given:
            return self._parsed(given)
        return self.default if self.default is not None else half_of_memory()

    def check(self, needed: int, what: str) -> None:
        """Refuse `what` if it needs more; said before any of it is taken."""
        allowed = self.value()
        if needed > allowed:
            raise DataError(
                f"{what} has {self._words(needed)}, and at most {self._words(allowed)} are read: "
                f"set {self.variable}={needed} to allow it."
            )

    def _words(self, count: int) -> str:
        if self.unit != "bytes":
            return f"{count:,} {self.unit}"
        return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"

    def _parsed(self, text: str) -> int:
        factor = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.get(text[-1].upper(), 1)
        try:
            value = float(text if factor == 1 else text[:-1]) * factor
            if not 0 < value < 2**62:
                raise ValueError
        except ValueError:
            raise InputError(
                f"{self.variable} is a number of {self.unit} such as 2000000 or 2G, not {text!r}."
            ) from None
        return int(value)


#: An array, or a table as it is in memory.
ARRAY = Limit("SPARE_MAX_ARRAY", None, "bytes")
#: A picture, before it is made smaller.
PICTURE = Limit("SPARE_MAX_PIXELS", 100_000_000, "pixels")
#: A table, or a list of examples.
ROWS = Limit("SPARE_MAX_ROWS", 20_000_000, "rows")
CLASSES = Limit("SPARE_MAX_CLASSES", 1_000, "classes")
#: Classes times the values of every attribute.
GROUPS = Limit("SPARE_MAX_GROUPS", 100_000, "groups")
#: A file of JSON, such as a record.
JSON = Limit("SPARE_MAX_JSON", 64_000_000, "bytes")


def half_of_memory() -> int:
    """Half of what this machine has, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
