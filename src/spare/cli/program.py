"""One command from its words to its exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence

from cyclopts import CycloptsError, UnusedCliTokensError

# isort: off
from spare.cli import data, running, pages, theory, listing  # noqa: F401  (verbs, as they are listed)

# isort: on
from spare.cli.app import app
from spare.cli.console import Bars, complain, discard_output, open_streams
from spare.errors import Interrupted, SpareError, reason

__all__ = ["app", "run"]


def run(arguments: Sequence[str] | None, should_stop: Callable[[], bool]) -> int:
    """Do what the words say; whatever a person can put right is one line on standard error."""
    Bars.should_stop = staticmethod(should_stop)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        try:
            open_streams()
            app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
            if sys.stdout is not None:
                sys.stdout.flush()
        except UnusedCliTokensError as error:
            return _refused(
                _left_over(list(error.unused_tokens or ()), error.root_input_tokens or [])
            )
        except CycloptsError as error:
            return _refused(" ".join(str(error).split()))
        except Interrupted as error:
            complain(f"spare: {error}")
            return 130
        except SpareError as error:
            return _refused(error)
        except BrokenPipeError:  # the reader of our output has gone, as in `spare list | head`
            discard_output()
            return 1
        except OSError as error:  # a file or stream that the system refuses, wherever it is used
            discard_output()
            where = "" if error.filename is None else f"{os.fspath(error.filename)!r}: "
            return _refused(f"{where}{error.strerror or reason(error)}.")
        except MemoryError:
            return _refused("there is not enough memory: close other programs, or use less data.")
    return 0


def _left_over(words: list[str], typed: list[str]) -> str:
    """What to say of words that no option takes, which are nearly always values after a space."""
    first = words[0]
    if "=" in first and "--set" in typed:
        return f"{first!r} stands alone: every setting takes its own --set, as in --set {first}."
    return (
        f"{', '.join(map(repr, words))}: nothing takes {'this' if len(words) == 1 else 'these'}. "
        "Several values take commas and no spaces, as in --seeds 0,1,2; names with spaces take "
        "quotes."
    )


def _refused(what: object) -> int:
    complain(f"spare: error: {what}")
    return 1
