"""What the stages of a run have cost: time by phase, and examples passed through a network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from spare.progress import Progress

EARLY = "early"


def phase_of(stage: str) -> str:
    """The phase of a stage: its name up to the slash."""
    return stage.partition("/")[0]


class Cost:
    """Counts as a run goes on; time that interrupted processes spent on a stage included."""

    def __init__(self, progress: Progress):
        self._progress = progress
        #: By stage: seconds, examples seen.
        self._stages: dict[str, tuple[float, int]] = {}
        self._clocks = {"outputs": 0.0, "inference": 0.0}

    def add(self, stage: str, seconds: float, examples: int, continued: str = "") -> None:
        """Count a stage; what it continued is in its own time and examples."""
        self._stages.pop(continued, None)
        self._stages[stage] = (seconds, examples)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time within it for a phase."""
        started = time.perf_counter()
        self._progress.report(phase, 0, 1)
        try:
            yield
        finally:
            self._progress.report(phase, 1, 1)
            self._clocks[phase] = self._clocks.get(phase, 0.0) + time.perf_counter() - started

    @property
    def seconds(self) -> dict[str, float]:
        """Time by phase."""
        spent = {EARLY: 0.0, **self._clocks, "train": 0.0}
        for name, (seconds, _) in self._stages.items():
            spent[phase_of(name)] = spent.get(phase_of(name), 0.0) + seconds
        return spent

    @property
    def examples_seen(self) -> int:
        return sum(examples for _, examples in self._stages.values())
