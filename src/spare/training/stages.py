"""The named stages of one run: what a method's recipe trains with.

A recipe says `stages.train("early/0", ...)`, `stages.outputs(...)`; this adds what every recipe
needs and none should repeat: fresh weights, a checkpoint per stage (so a killed run continues where
it was), selection, progress, and the clock. It holds no task, and what validation groups say of an
epoch goes to the runner: a recipe is handed no group label.

A stage's name is its phase, and after a slash whatever tells the stages of a phase apart. Stages of
one phase are one training: they share a clock, and their batches are drawn by the same seed. The
phase `early` is plain training beforehand: no epoch of it is selected. Any other phase is one whose
model may be the run's, whatever a recipe calls it. A recipe may also return a stage for which no
epoch was selected, an early one or one with a rule of its own: its last epoch is then the run's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import nn

from spare.data.task import Split, Task
from spare.errors import InputError
from spare.files.building import CHECKPOINT
from spare.models import build, drawn_at_random
from spare.processes.world import current
from spare.progress import SILENT, Progress
from spare.training.batches import Batches
from spare.training.checkpoint import State
from spare.training.cost import EARLY, Cost, phase_of
from spare.training.device import device_named, placed
from spare.training.frozen import task_of_features
from spare.training.loop import Kept, Objective, Trained, Validate, cross_entropy, train
from spare.training.outputs import Outputs, outputs, share_of
from spare.training.selection import Epoch, Rule, rule_named
from spare.training.settings import Settings

Value = TypeVar("Value")

#: How good an epoch is by each rule, and what else to remember of it.
Judge = Callable[[Epoch], tuple[dict[str, float], dict[str, float]]]


@dataclass(frozen=True)
class Candidate:
    """Weights that a recipe made, for the run's rule to choose from."""

    state: State
    #: What they say of the validation examples; None where there are none.
    val_logits: np.ndarray | None
    #: For the history: their loss, and what tells them from the others.
    about: dict[str, float]


class Stages:
    """What a recipe trains with.

    Parameters
    ----------
    judge
        Scores an epoch on validation; the recipe never sees what it says.
    keep
        Given every trained stage of which the judge selected epochs, with these epochs. Of other
        stages the runner needs no more than the recipe has.
    """

    def __init__(
        self,
        *,
        seed: int,
        settings: Settings,
        judge: Judge,
        folder: Path | None = None,
        keep: Callable[[Trained], None] = lambda trained: None,
        progress: Progress = SILENT,
    ):
        self.seed = seed
        self.settings = settings
        self._judge = judge
        self._folder = folder
        self._keep = keep
        self._progress = progress
        self.cost = Cost(progress)
        self._weight_seed = 0
        self._val_groups: np.ndarray | None = None
        self._cross_mistakes: np.ndarray | None = None
        #: Whether heads are trained beside a whole network, and cost next to nothing.
        self._heads_are_free = False

    def use_groups(self, val_groups: np.ndarray | None, weight_seed: int = 0) -> None:
        """Tell the stages to come what an inference found.

        Parameters
        ----------
        val_groups
            Inferred groups of the validation examples, by which an epoch can be selected.
        weight_seed
            Which initial weights the groups belong to: training starts from the same.
        """
        self._val_groups = val_groups
        self._weight_seed = weight_seed

    def use_cross_mistakes(self, val_groups: np.ndarray) -> None:
        """Tell the stages to come the groups that the rule val_cross_mistakes selects by."""
        self._cross_mistakes = val_groups

    def train(
        self,
        name: str,
        task: Task,
        batches: Batches,
        *,
        settings: Settings | None = None,
        objective: Objective = cross_entropy,
        start: State | None = None,
        continues: str = "",
        select: str | Rule = "",
        patience: int = 0,
        weight_seed: int | None = None,
    ) -> Trained:
        """Train a fresh model (or one with the weights `start`) on the task's training split.

        What comes back has the last weights, the losses and, with `select`, the weights of the
        epoch that this rule selects: which epoch the run's rule selects is the runner's business.

        Parameters
        ----------
        name
            Phase, or phase/stage.
        continues
            Name of an earlier, shorter stage of the same phase to continue from.
        select
            A rule that needs no group label, or one of the recipe's own, whose weights the recipe
            may have; the history says how good each epoch is by it.
        patience
            End when so many epochs in a row were no better by `select`; 0 for never.
        weight_seed
            Which initial weights: the same number is the same weights, whatever the phase.
        """
        phase = phase_of(name)
        weight_seed = self._weight_seed if weight_seed is None else weight_seed
        model = self.fresh(task, weight_seed)
        if start is not None:
            model.load_state_dict(start)
        selects_epoch = phase != EARLY and not select
        trained = train(
            model,
            task.train,
            settings or self.settings,
            batches=batches,
            key=(self.seed, zlib.crc32(phase.encode()), weight_seed),
            objective=objective,
            validate=self._validation(task, select) if selects_epoch or select else None,
            patience=patience,
            checkpoint=self._checkpoint(name),
            continue_from=self._checkpoint(continues) if continues else None,
            phase=phase,
            progress=self._progress,
        )
        free = self._heads_are_free and not getattr(model, "trains_features", True)
        self.cost.add(name, trained.seconds, 0 if free else trained.examples_seen, continues)
        trained = replace(trained, name=name)
        if select:
            return trained
        if selects_epoch:
            self._keep(trained)
        losses = [{key: record[key] for key in ("epoch", "loss")} for record in trained.history]
        return replace(trained, kept={}, history=losses)

    def fresh(self, task: Task, weight_seed: int | None = None) -> nn.Module:
        """A model with the initial weights of this number."""
        if task.build_model is None:
            raise InputError(f"task {task.name!r} has no model: give it a build_model.")
        seed = self._weight_seed if weight_seed is None else weight_seed
        return placed(
            build(task.build_model, (self.seed, seed)), device_named(self.settings.device)
        )

    def adopt(self, trained: Trained, state: State) -> Trained:
        """Weights that a recipe made from those of a stage by other means than training."""
        adopted = replace(trained, last=state, kept={})
        self._keep(adopted)
        return adopted

    def choose(self, trained: Trained, task: Task, candidates: Iterable[Candidate]) -> Trained:
        """Weights that a recipe made from those of a stage by other means than training, of which
        the run's rule selects one as if each were an epoch; which, the recipe does not learn.

        The last are those that count where nothing is selected.
        """
        best: dict[str, float] = {}
        kept: dict[str, Kept] = {}
        history: list[dict[str, Any]] = []
        losses: list[dict[str, Any]] = []
        for number, candidate in enumerate(candidates, 1):
            scores: dict[str, float] = {}
            more: dict[str, float] = {}
            if task.val is not None and candidate.val_logits is not None:
                labels = np.asarray(task.val.labels)
                scores, more = self._judge(
                    Epoch(number, candidate.val_logits, labels, inferred_groups=self._val_groups)
                )
            for rule, score in scores.items():
                if rule not in best or score > best[rule]:
                    best[rule], kept[rule] = score, Kept(number, candidate.state)
            losses.append({"epoch": number, **candidate.about})
            history.append(losses[-1] | more)
        chosen = replace(trained, last=candidate.state, kept=kept, history=history)
        self._keep(chosen)
        return replace(chosen, kept={}, history=losses)

    def outputs(
        self, trained: Trained, split: Split, *, features: bool = False, shared: bool = False
    ) -> Outputs:
        """The outputs of a trained stage's last epoch.

        Parameters
        ----------
        features
            Whether to keep what passes into the last layer too.
        shared
            Whether a process keeps only the outputs that it computed, those of `share_of`.
        """
        trained.model.load_state_dict(trained.last)
        on_step = self._progress.steps_of("outputs")
        with self.timed("outputs"):
            return outputs(
                trained.model, split, self.settings, features=features, shared=shared,
                on_step=on_step,
            )  # fmt: skip

    def task_of_features(self, task: Task) -> Task:
        """The task with the features that its network gives before any training, for linear heads.

        Every example passes through the network once. That is what counts as seen: a head's passes
        over kept features do not, beside a network that trains more than its head.
        """
        model = self.fresh(task)
        if drawn_at_random(model, self.fresh(task, self._weight_seed + 1)):
            raise InputError(
                "the layers before the head start with random weights, and linear heads on what "
                "they give would show nothing: train the network itself early, with "
                "early_layers=all and cross_fit=0 (for images weights=none does so), or let it "
                "start from trained weights."
            )
        on_step = self._progress.steps_of("outputs")
        with self.timed("outputs"):
            features = {
                name: outputs(model, split, self.settings, features=True, on_step=on_step).features
                for name, split in task.splits().items()
            }
        if getattr(model, "trains_features", True):
            self._heads_are_free = True
            self.cost.add(f"{EARLY}/features", 0.0, len(task.train))
        return task_of_features(task, features)

    def share_of(self, split: Split) -> slice:
        """The examples of a split that this process evaluates; alone, all of them."""
        return share_of(split, self.settings)

    def once(self, phase: str, work: Callable[[], Value]) -> Value:
        """What `work` returns, timed, and done by one process for all where there are several."""
        with self.timed(phase):
            return current().once(work)

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Count the time within it for a phase."""
        return self.cost.timed(phase)

    def _validation(self, task: Task, select: str | Rule) -> Validate | None:
        val = task.val
        if val is None:
            return None
        rule = rule_named(select) if isinstance(select, str) and select else select
        groups = {"inferred_groups": self._val_groups, "cross_mistakes": self._cross_mistakes}

        def validate(model: nn.Module, number: int) -> tuple[dict[str, float], dict[str, float]]:
            logits = outputs(model, val, self.settings).logits.numpy()
            epoch = Epoch(number, logits, np.asarray(val.labels), **groups)
            if isinstance(rule, Rule):
                score = {rule.name: rule.score(epoch)}
                return score, score
            return self._judge(epoch)

        return validate

    def _checkpoint(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{name.replace('/', '-')}{CHECKPOINT}"
