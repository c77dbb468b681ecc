"""The named stages of one run: what a method's recipe trains with.

A recipe says `stages.train("early", ...)`, `stages.outputs(...)`; this adds what every recipe needs
and none should repeat: fresh weights, a checkpoint per stage (so a killed run goes on where it
was), selection, progress, and the clock. It holds no task, so a recipe cannot reach through it to
group labels that it was not given.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from spare.batches import Batches
from spare.errors import InputError
from spare.model import build
from spare.task import Split, Task
from spare.train import (
    Objective,
    Outputs,
    Settings,
    State,
    Trained,
    Validate,
    cross_entropy,
    outputs,
    train,
)

#: (what is being done, steps done, steps in all)
Report = Callable[[str, int, int], None]
#: (epoch, correct predictions on validation, inferred validation groups) -> what to remember
Judge = Callable[[int, np.ndarray, np.ndarray | None], dict[str, float]]


class Stages:
    def __init__(
        self,
        *,
        seed: int,
        settings: Settings,
        folder: Path | None,
        judge: Judge,
        needs_inferred_groups: bool = False,
        report: Report = lambda what, done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ):
        self.seed = seed
        self.settings = settings
        #: True when the selection rule wants groups that the method inferred on held-out data.
        self.needs_inferred_groups = needs_inferred_groups
        #: By stage: the part that it belongs to, seconds, examples seen.
        self._spent: dict[str, tuple[str, float, int]] = {}
        self._clocks = {"outputs": 0.0, "inference": 0.0}
        self._folder = folder
        self._judge = judge
        self._report = report
        self._should_stop = should_stop

    def train(
        self,
        name: str,
        task: Task,
        batches: Batches,
        *,
        settings: Settings | None = None,
        objective: Objective = cross_entropy,
        start: State | None = None,
        start_from: str | None = None,
        validate: bool = True,
        inferred_groups: np.ndarray | None = None,
        as_part: str = "train",
        initial: int = 0,
    ) -> Trained:
        """Train a fresh model (or one with the weights `start`) on the task's training split.

        start_from  name of an earlier, shorter stage of the same part to go on from.
        as_part     the clock that this counts for, and what its batches are drawn by: stages of
                    one part are one training.
        initial     number of the initial weights; the same number is the same weights whatever the
                    part, so a second training can start where the first did.
        """
        key = (self.seed, zlib.crc32(as_part.encode()), initial)
        if task.build_model is None:
            raise InputError(f"task {task.name!r} has no model: give it a build_model.")
        model = build(task.build_model, (self.seed, initial))
        if start is not None:
            model.load_state_dict(start)
        trained = train(
            model,
            task.train,
            settings or self.settings,
            batches=batches,
            key=key,
            objective=objective,
            validate=self._validation(task, inferred_groups) if validate else None,
            checkpoint=self._checkpoint(name),
            start_from=self._checkpoint(start_from) if start_from else None,
            on_step=lambda done, total: self._report(as_part, done, total),
            should_stop=self._should_stop,
        )
        if start_from is not None:  # its time and examples are in this stage's, which went on
            self._spent.pop(start_from, None)
        self._spent[name] = (as_part, trained.seconds, trained.examples_seen)
        return trained

    def outputs(self, trained: Trained, split: Split) -> Outputs:
        """The outputs of a trained stage's last epoch."""
        trained.model.load_state_dict(trained.last)
        with self.timed("outputs"):
            return outputs(
                trained.model,
                split,
                batch_size=self.settings.eval_batch_size,
                workers=self.settings.workers,
                on_step=lambda done, total: self._report("outputs", done, total),
            )

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        self._report(part, 0, 1)
        try:
            yield
        finally:
            self._report(part, 1, 1)
            self._clocks[part] = self._clocks.get(part, 0.0) + time.perf_counter() - started

    def _validation(self, task: Task, inferred_groups: np.ndarray | None) -> Validate | None:
        val = task.val
        if val is None:
            return None

        def validate(model: torch.nn.Module, epoch: int) -> dict[str, float]:
            said = outputs(
                model,
                val,
                batch_size=self.settings.eval_batch_size,
                workers=self.settings.workers,
            )
            correct = said.logits.argmax(1).numpy() == val.labels
            return self._judge(epoch, correct, inferred_groups)

        return validate

    def _checkpoint(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{name}.checkpoint"

    @property
    def seconds(self) -> dict[str, float]:
        """Time by part, that of interrupted processes included."""
        found = {"early": 0.0, **self._clocks, "train": 0.0}
        for part, seconds, _ in self._spent.values():
            found[part] += seconds
        return found

    @property
    def examples_seen(self) -> int:
        return sum(examples for _, _, examples in self._spent.values())
