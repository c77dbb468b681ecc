"""What a person sees while something is going on: progress bars, and lines between them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spare.progress import Progress


def speak(text: str, quiet: bool = False) -> None:
    print(text, file=sys.stderr if quiet else sys.stdout, flush=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


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

    def __enter__(self) -> Bars:
        self._display: Any = None
        self._bars: dict[str, Any] = {}
        if sys.stderr.isatty():
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

    def progress(self, should_stop: Callable[[], bool] = lambda: False) -> Progress:
        """What is passed down to the work."""
        from spare.progress import Progress

        return Progress(self.report, self.say, should_stop)

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
        text = f"{run}: {text}" if run else text
        if key not in self._bars:
            self._bars[key] = self._display.add_task(text, total=total)
        self._display.update(
            self._bars[key], description=text, completed=done, total=total, visible=done < total
        )

    def say(self, line: str) -> None:
        if self._display is not None:
            self._display.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)
