"""Code of the user's own: imported by a name such as `package.module:name`, known by its content.

It may be a method, a model, a data set, a selection rule or a clusterer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
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


def code_digest(code: Any) -> str:
    """Identifies a function or class by its content: eight digits that change when it does.

    The content is the source (the compiled code where there is no source), and the numbers and
    words that it uses from outside: defaults, enclosing variables, globals. Functions and classes
    of the same module that it uses count too, and what those use. Values that can change in place,
    and code of other modules, count by their type or name alone.

    >>> def scale(factor):
    ...     return lambda x: factor * x
    >>> code_digest(scale(2)) == code_digest(scale(2)) != code_digest(scale(3))
    True
    """
    digest = hashlib.sha256()
    function = code
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None)
    visited: set[int] = set()
    pending: list[Any] = [code]
    while pending:
        value = pending.pop()
        if id(value) in visited:
            continue
        if value is code or (_is_code(value) and value.__module__ == module):
            visited.add(id(value))
            digest.update(f"{_qualified_name(value)}\n{_source(value)}\n".encode())
            pending += _used_by(value)
        elif isinstance(value, functools.partial):
            pending += _used_by(value)
        else:
            digest.update(f"{_plain(value)}\n".encode())
    return digest.hexdigest()[:8]


def _is_code(value: Any) -> bool:
    return isinstance(value, type | FunctionType)


def _used_by(value: Any) -> list[Any]:
    """What a function, a class or an object that can be called uses, in a fixed order."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *_in_order(value.keywords)]
    if isinstance(value, MethodType):
        return [value.__func__, *_used_by(value.__self__)]
    if isinstance(value, type):
        members = [getattr(member, "__func__", member) for member in vars(value).values()]
        return [*value.__bases__, *filter(_is_code, members)]
    if not isinstance(value, FunctionType):
        return [type(value), *_in_order(getattr(value, "__dict__", {}))]
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    enclosing = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    names = _names(value.__code__) & value.__globals__.keys()
    return [
        *(value.__defaults__ or ()),
        *_in_order(value.__kwdefaults__ or {}),
        *_in_order(enclosing),
        *_in_order({name: value.__globals__[name] for name in names}),
    ]


def _in_order(values: Mapping[str, Any]) -> list[Any]:
    return [part for name in sorted(values) for part in (name, values[name])]


def _names(code: CodeType) -> set[str]:
    """The names that some code uses, the code within it too."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _source(value: Any) -> str:
    # A lambda's source is a line, which may hold two; and since Python 3.13 everything that was
    # compiled without a file seems to come from the text of `python -c`.
    compiled = isinstance(value, FunctionType) and value.__code__.co_filename == "<string>"
    if getattr(value, "__name__", "") != "<lambda>" and not compiled:
        with contextlib.suppress(OSError, TypeError):  # none if typed at a prompt, or compiled
            return inspect.getsource(value)
    return _compiled(value.__code__) if isinstance(value, FunctionType) else ""


def _compiled(code: CodeType) -> str:
    constants = [_compiled(c) if isinstance(c, CodeType) else _plain(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _plain(value: Any) -> str:
    """What cannot change in place, as text; of anything else only what it is called."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    return _qualified_name(value)


def _qualified_name(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"
