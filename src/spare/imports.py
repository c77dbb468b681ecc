"""Code of the user's own, named as `package.module:name`: a method, a model, a data set."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from spare.errors import InputError, reason, unknown


def import_object(what: str, path: str, fits: Callable[[Any], bool]) -> Any:
    """What `package.module:name` names.

    The current folder is searched last, so that a file in it never stands in for a package.
    """
    module_name, _, name = path.partition(":")
    try:
        with current_folder_importable():
            module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module raises
        raise InputError(
            f"{what} {path!r}: {module_name!r} cannot be imported "
            f"({type(error).__name__}: {reason(error)})."
        ) from error
    fitting = {key: value for key, value in vars(module).items() if fits(value)}
    if name not in fitting:
        kind = "function" if fits is callable else what
        raise unknown(f"{kind} of {module_name}", name, fitting)
    return fitting[name]


def check_text(what: str, value: Any, objects: str = "") -> None:
    """Refuse an object where a name is asked for.

    Parameters
    ----------
    objects
        The kind of object that would have been taken too, if any.
    """
    if not isinstance(value, str):
        asked = f"a name, package.module:NAME or an object of type {objects}"
        if not objects:
            asked = "a name or package.module:NAME, because records store it as text"
        raise InputError(f"the {what} must be {asked}; got one of type {type(value).__name__}.")


@contextlib.contextmanager
def current_folder_importable() -> Iterator[None]:
    """The current folder at the end of the path, where it can shadow nothing."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]
