"""What is passed down for people: how far the work is, what to tell them, whether to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _ignore_report(what: str, done: int, total: int) -> None:
    pass


def _ignore_line(line: str) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Progress:
    """The one connection from the work to whoever waits for it; by default nobody does.

    Attributes
    ----------
    report : callable
        Told what is being done, how many steps are done, and how many there are.
    say : callable
        Told a line that a person should read.
    should_stop : callable
        Asked after every step. When it returns True, the work is saved and `Interrupted` raised.

    Examples
    --------
    >>> lines = []
    >>> progress = Progress(say=lines.append)
    >>> progress.say("halfway")
    >>> lines, progress.should_stop()
    (['halfway'], False)
    """

    report: Callable[[str, int, int], None] = _ignore_report
    say: Callable[[str], None] = _ignore_line
    should_stop: Callable[[], bool] = _never

    def steps_of(self, what: str) -> Callable[[int, int], None]:
        """Return a function that reports the steps of one thing."""
        return lambda done, total: self.report(what, done, total)


#: For work that nobody waits for.
SILENT = Progress()
