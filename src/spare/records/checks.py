"""Whether what was read from a folder is what its type says, in words for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from spare.errors import RunError
from spare.text import printable

#: Sums of shares may be above 1 by what rounding adds.
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1 + 1e-4)]
Silhouette = Annotated[float, msgspec.Meta(ge=-1 - 1e-4, le=1 + 1e-4)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
#: The values of settings: what TOML and the command line can say.
PlainValue = str | int | float | bool | None
PlainValues = dict[str, PlainValue | list[PlainValue]]


class Asked(TypedDict):
    """Settings and options as they are written: plain values, and lists of them."""

    settings: PlainValues
    options: PlainValues


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "names with values",
}
_GOT = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"Expected `([^`]+)`((?: of length)? [<>]=? .+)")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def check_type(value: Any, kind: Any, path: Path | str, what_to_do: str) -> None:
    """Refuse a value that is not of this type: a TypedDict, with ranges where it declares them.

    >>> check_type({"a": "x"}, dict[str, int], "run.json", "run it again")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    spare.errors.RunError: run.json is damaged (a value of it is text, ...
    """
    try:
        try:
            msgspec.convert(value, kind, strict=True)
        except UnicodeEncodeError:  # it cannot look at names of files that are no text
            msgspec.convert(_as_text(value), kind, strict=True)
    except msgspec.ValidationError as error:
        raise damaged(path, _sentence(str(error)), what_to_do) from None


def damaged(path: Path | str, why: str, what_to_do: str) -> RunError:
    return RunError(f"{path} is damaged ({printable(why)}): {what_to_do}.")


def _as_text(value: Any) -> Any:
    """The same with every text made printable."""
    if isinstance(value, dict):
        return {_as_text(key): _as_text(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_text(part) for part in value]
    return printable(value) if isinstance(value, str) else value


def _sentence(message: str) -> str:
    """What msgspec says, in the words that our messages use."""
    problem, _, place = message.partition(" - at `")
    where = _place(place.rstrip("`"))
    if match := _MISSING.fullmatch(problem):
        return f"{where + ' has' if where else 'it has'} no {match[1]!r}"
    where = where or "it"
    if match := _GOT.fullmatch(problem):
        words = [_WORDS.get(word, word) for word in match[1].split(" | ")]
        wanted = " or ".join(words) if len(words) < 4 else "a plain value"
        return f"{where} is {_WORDS.get(match[2], match[2])}, {wanted} is expected"
    if match := _BOUND.fullmatch(problem):
        wanted = _WORDS.get(match[1], match[1])
        return f"{where} is not {wanted}{match[2]}"
    return f"{where}: {problem}"


def _place(path: str) -> str:
    """`$.scores[...].average` as "scores, average"; what is between is a name of the file's own."""
    parts = [part for part in re.split(r"[.\[\]]+", path.removeprefix("$")) if part]
    named = " in ".join(reversed(parts))
    if path.endswith("]"):
        return f"a value of {named or 'it'}"
    return named
