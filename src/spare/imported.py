"""Things of the user's, named as `package.module:name`: a function that makes a model, a method."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from spare.errors import InputError, reason, unknown


def imported(what: str, path: str, fits: Callable[[Any], bool]) -> Any:
    """What `package.module:name` names; the current folder is looked in first."""
    module, _, name = path.partition(":")
    try:
        with current_folder_importable():
            found = importlib.import_module(module)
    except Exception as error:  # whatever the user's module raises
        raise InputError(
            f"{what} {path!r}: {module!r} cannot be imported "
            f"({type(error).__name__}: {reason(error)})."
        ) from error
    fitting = {key: value for key, value in vars(found).items() if fits(value)}
    if name not in fitting:
        kind = "function" if fits is callable else what
        raise unknown(f"{kind} of {module}", name, fitting)
    return fitting[name]


@contextlib.contextmanager
def current_folder_importable() -> Iterator[None]:
    """As `python -m` has it."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
