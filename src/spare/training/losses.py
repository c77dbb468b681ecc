"""The losses of training steps: they stay on the device and are looked at now and then.

Looking at a value of a device waits for everything that the device still has to compute, so that
the next step's work would not be queued in time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from spare.errors import RunError
from spare.training.checkpoint import Position, TrainingState
from spare.training.device import HOST, to_host

#: A loss on a device is looked at at most so many steps after its own; on the host, at once.
LOOK_EVERY = 50


class Losses:
    """Adds up the losses of an epoch; one that is not finite is an error when it is looked at."""

    def __init__(self, position: Position, device: torch.device):
        self._position = position
        self._on_host = device.type == HOST.type
        #: The loss, how many examples it is the mean of, its step and the step's learning rate.
        self._waiting: list[tuple[Tensor, int, int, float]] = []

    def add(self, loss: Tensor, examples: int, rate: float) -> None:
        """The loss of the step that the training is at."""
        step = self._position.step + 1
        if self._on_host:
            self._count(loss.item(), examples, step, rate)
            return
        self._waiting.append((loss.detach().reshape(()), examples, step, rate))
        if len(self._waiting) == LOOK_EVERY:
            self.look()

    def look(self) -> None:
        """Look at all losses that were not looked at yet."""
        if not self._waiting:
            return
        values = to_host(torch.stack([loss for loss, *_ in self._waiting])).tolist()
        for value, (_, examples, step, rate) in zip(values, self._waiting, strict=True):
            self._count(value, examples, step, rate)
        self._waiting.clear()

    def _count(self, value: float, examples: int, step: int, rate: float) -> None:
        if not math.isfinite(value):
            raise _diverged(f"the loss became {value}", self._position.epoch, step, rate)
        self._position.loss_sum += value * examples
        self._position.loss_count += examples


def check_finite(state: TrainingState, losses: Losses) -> None:
    """Refuse what must be in no checkpoint: losses or weights that are not finite."""
    losses.look()
    groups = state.optimizer.param_groups
    trained = [w.detach() for group in groups for w in group["params"] if w.requires_grad]
    if trained and not bool(torch.stack([w.isfinite().all() for w in trained]).all()):
        position = state.position
        what = "a weight became infinite or not a number"
        raise _diverged(what, position.epoch, position.step, groups[0]["lr"])


def _diverged(what: str, epoch: int, step: int, rate: float) -> RunError:
    return RunError(
        f"{what} at epoch {epoch + 1}, step {step} (learning rate {rate:g}): lower lr; the last "
        f"good checkpoint is kept."
    )
