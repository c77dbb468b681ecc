"""The named stages of one run: what a method's recipe trains with.

A recipe says `stages.train("early", ...)`, `stages.outputs(...)`; this adds what every recipe needs
and none should repeat: fresh weights, a checkpoint per stage (so a killed run goes on where it
was), selection, progress, and the clock. It holds no task, and what validation groups said of an
epoch goes to the runner alone: a recipe cannot reach through it to group labels that it was not
given.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from spare.batches import Batches
from spare.errors import InputError
from spare.models import Classifier, build
from spare.selection import rule_named
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
#: (epoch, correct predictions on validation, inferred validation groups) -> how good by each rule,
#: and what else to remember
Judge = Callable[[int, np.ndarray, np.ndarray | None], tuple[dict[str, float], dict[str, float]]]


class Stages:
    def __init__(
        self,
        *,
        seed: int,
        settings: Settings,
        folder: Path | None,
        judge: Judge,
        keep: Callable[[Trained], None] = lambda trained: None,
        report: Report = lambda what, done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ):
        self.seed = seed
        self.settings = settings
        #: By stage: the part that it belongs to, seconds, examples seen.
        self._spent: dict[str, tuple[str, float, int]] = {}
        self._clocks = {"outputs": 0.0, "inference": 0.0}
        self._folder = folder
        self._judge = judge
        self._keep = keep
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
        select: str = "",
        inferred_groups: np.ndarray | None = None,
        as_part: str = "train",
        initial: int = 0,
        outputs: int | None = None,
    ) -> Trained:
        """Train a fresh model (or one with the weights `start`) on the task's training split.

        What comes back has the last weights and the losses only: the epoch that the run's rule
        selects is the runner's business.

        select      a rule that needs no group label, whose weights the recipe may have.
        start_from  name of an earlier, shorter stage of the same part to go on from.
        as_part     the clock that this counts for, and what its batches are drawn by: stages of
                    one part are one training.
        initial     number of the initial weights; the same number is the same weights whatever the
                    part, so a second training can start where the first did.
        outputs     what the model predicts, where that is not the task's classes: so many values.
        """
        key = (self.seed, zlib.crc32(as_part.encode()), initial)
        model = self.fresh(task, initial, outputs)
        if start is not None:
            model.load_state_dict(start)
        trained = train(
            model,
            task.train,
            settings or self.settings,
            batches=batches,
            key=key,
            objective=objective,
            validate=self._validation(task, inferred_groups, select) if validate else None,
            checkpoint=self._checkpoint(name),
            start_from=self._checkpoint(start_from) if start_from else None,
            on_step=lambda done, total: self._report(as_part, done, total),
            should_stop=self._should_stop,
        )
        if start_from is not None:  # its time and examples are in this stage's, which went on
            self._spent.pop(start_from, None)
        self._spent[name] = (as_part, trained.seconds, trained.examples_seen)
        trained = replace(trained, name=name)
        if select:
            return trained
        self._keep(trained)
        losses = [{key: record[key] for key in ("epoch", "loss")} for record in trained.history]
        return replace(trained, kept={}, history=losses)

    def fresh(self, task: Task, initial: int = 0, outputs: int | None = None) -> nn.Module:
        """A model with the initial weights of this number."""
        if task.build_model is None:
            raise InputError(f"task {task.name!r} has no model: give it a build_model.")
        make = task.build_model
        if outputs is not None:
            make = partial(_with_outputs, task.build_model, outputs)
        return build(make, (self.seed, initial))

    def adopt(self, trained: Trained, state: State) -> Trained:
        """Weights that a recipe made from those of a stage by other means than training."""
        adopted = replace(trained, last=state, kept={})
        self._keep(adopted)
        return adopted

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

    def _validation(
        self, task: Task, inferred_groups: np.ndarray | None, select: str
    ) -> Validate | None:
        val = task.val
        if val is None:
            return None

        def validate(
            model: torch.nn.Module, epoch: int
        ) -> tuple[dict[str, float], dict[str, float]]:
            said = outputs(
                model,
                val,
                batch_size=self.settings.eval_batch_size,
                workers=self.settings.workers,
            )
            correct = said.logits.argmax(1).numpy() == val.labels
            if select:
                return {select: rule_named(select).score(epoch, correct, None)}, {}
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


def _with_outputs(build_model: Callable[[], nn.Module], outputs: int) -> nn.Module:
    model = build_model()
    if not isinstance(model, Classifier):
        raise InputError("a model whose outputs are to be changed must be a spare Classifier.")
    model.head = nn.Linear(model.head.in_features, outputs)
    return model
