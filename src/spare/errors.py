"""What can go wrong, as sentences for people.

SpareError            anything the user can put right; the command line prints it as one line
├── InputError        arrays, labels or settings that cannot be used as given
├── DataError         files that are missing, corrupt or of another shape
├── RunError          a run folder that cannot be used, or a run that cannot continue
└── Interrupted       Ctrl-C or the end of a parent process, after the checkpoint was written

SpareWarning          something worth knowing that does not stop the work
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from spare.text import printable


class SpareError(Exception):
    """Base of every error that this package raises on purpose: one sentence, with what to do.

    Examples
    --------
    >>> import spare
    >>> try:
    ...     spare.infer_groups([[0.9, 0.1], [0.2, 0.8]], [0, 1, 1])
    ... except spare.SpareError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(SpareError, ValueError):
    pass


class DataError(SpareError):
    pass


class RunError(SpareError):
    pass


class Interrupted(SpareError):
    pass


class SpareWarning(UserWarning):
    """Something worth knowing that does not stop the work, such as a split that had to be made up.

    Examples
    --------
    To have the work stop instead:

    >>> import warnings
    >>> import spare
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", spare.SpareWarning)
    ...     warnings.warn("there is no test split", spare.SpareWarning)
    Traceback (most recent call last):
    spare.errors.SpareWarning: there is no test split
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, offering the nearest that does."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    return InputError(f"unknown {kind} {str(name)!r}: {hint}")


def reason(error: BaseException) -> str:
    """The first line of what an error says."""
    message = str(getattr(error, "reason", None) or error).strip() or type(error).__name__
    return printable(message.splitlines()[0].rstrip("."))
