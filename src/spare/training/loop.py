"""THE training loop.

Everything random is drawn from generators keyed by (seed, phase, epoch, step), so a training that
continues from a checkpoint ends bit for bit as an undisturbed one does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.data.task import Split
from spare.errors import Interrupted
from spare.models import torch_seed
from spare.models.classifier import device_of
from spare.processes.world import current
from spare.progress import SILENT, Progress
from spare.training.average import MovingAverage
from spare.training.batches import Batches
from spare.training.checkpoint import Position, State, TrainingState, snapshot
from spare.training.device import (
    compiled,
    enough_memory,
    in_precision,
    own_random_state,
    scaler_for,
    sent,
)
from spare.training.loading import training_batches
from spare.training.losses import Losses, check_finite
from spare.training.optimizers import optimizer_of
from spare.training.parallel import Together
from spare.training.settings import Settings, learning_rate

Key = tuple[int, ...]
#: Given the model after an epoch and the epoch's number: how good it is by each selection rule, and
#: what else to remember of it.
Validate = Callable[[nn.Module, int], tuple[dict[str, float], dict[str, float]]]
#: (model, inputs, labels, rows in the training split) -> loss. Inputs and labels are on the model's
#: device. An objective that remembers something (Group DRO's weights, a second network) is an
#: nn.Module: it is moved there too, its parameters are trained along, and its state is in the
#: checkpoint. Networks of its own that it passes the inputs through are its `networks`. Across
#: processes (parallel.py) inputs are a share of the batch, and networks give the outputs of all.
Objective = Callable[[nn.Module, Tensor, Tensor, np.ndarray], Tensor]

#: A checkpoint is written after every epoch, and within a long one after this many seconds.
CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Kept:
    """The weights of the epoch that a selection rule likes best."""

    epoch: int
    state: State


@dataclass(frozen=True)
class Trained:
    """A model that was trained: its last weights, those that each rule kept, and how it went."""

    model: nn.Module
    last: State
    kept: dict[str, Kept]
    history: list[dict[str, Any]]
    seconds: float
    examples_seen: int
    #: The stage that it came from (stages.py).
    name: str = ""


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor, index: np.ndarray) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def train(
    model: nn.Module,
    split: Split,
    settings: Settings,
    *,
    batches: Batches,
    key: Key,
    objective: Objective = cross_entropy,
    validate: Validate | None = None,
    checkpoint: Path | None = None,
    continue_from: Path | None = None,
    patience: int = 0,
    phase: str = "train",
    progress: Progress = SILENT,
) -> Trained:
    """Train `model` in place for `settings.epochs` epochs, or fewer if it has patience for fewer.

    Parameters
    ----------
    key
        Seeds everything random here.
    validate
        Called after each epoch; the weights that each of its rules likes best are kept.
    checkpoint
        A file to continue from if it is there, and to keep up to date.
    continue_from
        A finished checkpoint of fewer epochs, for when `checkpoint` is not there yet.
    patience
        End when so many epochs in a row were no better by any rule of `validate`; 0 for never.
    phase
        What progress is reported as.
    """
    device = device_of(model)
    with own_random_state(device), enough_memory(device, *_memory(settings)):
        torch.manual_seed(torch_seed(key))
        memory = objective.to(device) if isinstance(objective, nn.Module) else None
        state = TrainingState(
            model=model,
            optimizer=optimizer_of(model, memory, settings),
            average=MovingAverage(model, settings.ema) if settings.ema else None,
            objective=memory,
            scaler=scaler_for(settings.precision, device),
        )
        world = current()
        files = [file for file in (checkpoint, continue_from) if file is not None]
        source = world.once(lambda: next((f for f in files if os.path.lexists(f)), None))
        if source is not None:
            state.load(source, settings.epochs)
        together = Together(world, [model, *getattr(objective, "networks", ())])
        together.check_alike()
        clock = _Clock(state, checkpoint if world.leads else None)
        with together.training(), compiled(model, settings.compile):
            while state.position.epoch < settings.epochs and not _settled(state.position, patience):
                _train_epoch(
                    state, split, settings, batches, key, objective, phase, progress, clock,
                    together,
                )  # fmt: skip
                _end_epoch(state, validate)
                clock.save()
        position = state.position
        return Trained(
            model=state.evaluated,
            last=snapshot(state.evaluated),
            kept={rule: Kept(position.best[rule][1], best) for rule, best in state.best.items()},
            history=position.history,
            seconds=position.seconds,
            examples_seen=position.examples_seen,
        )


def _memory(settings: Settings) -> tuple[str, str]:
    """What a step is made of, and what to lower if that is too much."""
    return (
        f"training with batches of {settings.batch_size} in {settings.precision}",
        "lower batch_size, and raise accumulate as much to keep the steps as they are",
    )


def _train_epoch(
    state: TrainingState,
    split: Split,
    settings: Settings,
    batches: Batches,
    key: Key,
    objective: Objective,
    phase: str,
    progress: Progress,
    clock: _Clock,
    together: Together,
) -> None:
    """The rest of the epoch that the state is in."""
    model, optimizer, position = state.model, state.optimizer, state.position
    scaler = state.scaler
    device = device_of(model)
    labels = torch.as_tensor(split.labels, dtype=torch.long)
    epoch_key = [*key, position.epoch]
    plan = batches(np.random.default_rng(epoch_key))
    losses = Losses(position, device)
    passes = len(together.networks)
    model.train()
    for index, x in training_batches(
        split, plan, epoch_key, position.step, settings.workers, together.world, device
    ):
        rate = learning_rate(settings, position.epoch + position.step / len(plan))
        for group in optimizer.param_groups:
            group["lr"] = rate
        step_key = [*epoch_key, position.step]
        with in_precision(settings.precision, device), together.batch(len(index), step_key):
            loss = objective(model, x, sent(labels[index], device), index)
        losses.add(loss, len(index), rate)
        loss = loss / settings.accumulate
        (loss if scaler is None else scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        position.step += 1
        whole_step = position.step % settings.accumulate == 0 or position.step == len(plan)
        if whole_step:
            together.average_gradients(state.parameters(), progress.should_stop)
            if scaler is None:
                optimizer.step()
            else:  # a step with gradients that are not finite is left out
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad(set_to_none=True)
            if state.average is not None:
                state.average.update()
        position.examples_seen += len(index) * passes
        done = position.epoch * len(plan) + position.step
        progress.report(phase, done, settings.epochs * len(plan))
        if not whole_step:  # half a step is in no checkpoint
            continue
        if together.should_stop(progress.should_stop):
            check_finite(state, losses)
            clock.save()
            raise Interrupted(
                "stopped; the checkpoint is written, and the same command continues from it."
            )
        if position.step < len(plan) and clock.since_saved() > CHECKPOINT_SECONDS:
            check_finite(state, losses)
            clock.save()
    check_finite(state, losses)


def _end_epoch(state: TrainingState, validate: Validate | None) -> None:
    """Score the epoch, and keep its weights if a rule likes it best."""
    position = state.position
    position.epoch += 1
    record: dict[str, Any] = {
        "epoch": position.epoch,
        "loss": position.loss_sum / max(position.loss_count, 1),
    }
    if validate is not None:
        scores, more = validate(state.evaluated, position.epoch)
        record |= more
        now = snapshot(state.evaluated)
        for rule, score in scores.items():
            if rule not in position.best or score > position.best[rule][0]:
                position.best[rule] = (score, position.epoch)
                state.best[rule] = now
    position.history.append(record)
    position.step, position.loss_sum, position.loss_count = 0, 0.0, 0


def _settled(position: Position, patience: int) -> bool:
    """Whether so many epochs have passed since the last that a rule liked best."""
    if not patience or not position.best:
        return False
    return position.epoch - max(epoch for _, epoch in position.best.values()) >= patience


class _Clock:
    """Adds the time of this process to that of interrupted ones, and writes checkpoints."""

    def __init__(self, state: TrainingState, checkpoint: Path | None):
        self._state = state
        self._checkpoint = checkpoint
        self._before = state.position.seconds
        self._started = self._saved = time.perf_counter()

    def since_saved(self) -> float:
        return time.perf_counter() - self._saved

    def save(self) -> None:
        self._state.position.seconds = self._before + time.perf_counter() - self._started
        if self._checkpoint is not None:
            self._state.save(self._checkpoint)
        self._saved = time.perf_counter()
