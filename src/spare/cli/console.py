"""What a person sees: lines that are safe to show, JSON for machines, and progress bars."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spare.errors import SpareError
from spare.processes.environment import follows
from spare.text import printable, printable_lines

if TYPE_CHECKING:
    from spare.progress import Progress

#: How characters are written for an encoding that lacks them; others as a backslash escape.
SUBSTITUTES = {"±": "+/-", "–": "-", "—": "-", "×": "x", "…": "...", "’": "'", "“": '"', "”": '"'}


class OutputError(SpareError):
    """What was to be printed could not be; the work itself is done and kept."""


def open_streams() -> None:
    """Make the standard streams safe to write to, whatever they are.

    A stream that is closed leaves its number to the next file that is opened, which would then get
    what others print; and an encoding may lack the characters of a name.
    """
    codecs.register_error("spare", _substituted)
    with contextlib.suppress(OSError):
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="spare")


def _substituted(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    escaped = "".join(
        SUBSTITUTES.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing
    )
    return escaped, error.end


def write(line: object = "") -> None:
    """Print one line; what a terminal could obey, a line break too, is written as an escape."""
    _print(printable(line))


def write_text(text: object) -> None:
    """Print a text whose line breaks are ours, such as a table of safe cells."""
    _print(printable_lines(text))


def write_json(value: Any) -> None:
    """Print JSON, in characters that every encoding has."""
    _print(json.dumps(value, indent=2, allow_nan=False))


def _print(text: str) -> None:
    if sys.stdout is None:
        raise OutputError("standard output is closed: what was made is kept.")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_output()
        raise
    except OSError as error:
        discard_output()
        raise OutputError(
            f"standard output cannot be written ({error.strerror}): what was made is kept."
        ) from error


def complain(line: object) -> None:
    """Print one line to standard error, where nobody may be."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=sys.stderr, flush=True)


def discard_output() -> None:
    """Let what is still to be written go nowhere, or it would be tried again at the very end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


#: Words for the phases of a run, as a person reads them beside a bar.
PHASES = {
    "starting": "starting",
    "data": "loading data",
    "images": "decoding images",
    "labels": "reading labels",
    "features": "computing features",
    "drawing": "drawing pictures",
    "early": "training a little",
    "outputs": "taking outputs",
    "inference": "clustering",
    "train": "training",
    "refitting": "refitting the last layer",
    "findings": "describing groups",
    "report": "writing the report",
}


class Bars:
    """Progress bars on a terminal; without one, only what `say` is told.

    Opened before the heavy imports, which take seconds themselves.
    """

    #: Whether a signal has come; the program says how to find out.
    should_stop: Callable[[], bool] = staticmethod(lambda: False)

    def __enter__(self) -> Bars:
        self._display: Any = None
        self._bars: dict[str, Any] = {}
        if sys.stderr.isatty() and not follows():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._display = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._display.start()
            self.report("starting", 0, 1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._display is not None:
            self._display.stop()

    def progress(self) -> Progress:
        """What is passed down to the work."""
        from spare.progress import Progress

        return Progress(self.report, self.say, self.should_stop)

    def report(self, what: str, done: int, total: int) -> None:
        """Move a bar; `run/phase` is the bar of one run of a bench."""
        if self._display is None:
            return
        run, _, phase = what.rpartition("/")
        if phase not in PHASES and phase != "done":
            run, phase = "", what
        key = run or phase
        if key != "starting" and "starting" in self._bars:
            self._display.remove_task(self._bars.pop("starting"))
        if run and phase == "done":
            if run in self._bars:
                self._display.remove_task(self._bars.pop(run))
            return
        text = PHASES.get(phase, phase)
        text = printable(f"{run}: {text}" if run else text)
        if key not in self._bars:
            self._bars[key] = self._display.add_task(text, total=total)
        self._display.update(
            self._bars[key], description=text, completed=done, total=total, visible=done < total
        )

    def say(self, line: str) -> None:
        if self._display is not None:
            line = printable(line)
            self._display.console.print(line, markup=False, highlight=False, emoji=False)
        else:
            complain(line)
