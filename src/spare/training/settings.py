"""How a model is trained: every setting with its default."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from spare.errors import InputError, unknown
from spare.limits import Count, NotNegative, Positive, Range, Share, check_ranges
from spare.training.device import AUTO, PRECISIONS, check_device_name, device_named

OPTIMIZERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "linear", "step")


@dataclass(frozen=True)
class Settings:
    """How a model is trained. Presets and `--set` change these."""

    epochs: Count = 20
    batch_size: Count = 32
    #: Batches whose gradients add up to one step, each divided by this number.
    accumulate: Count = 1
    #: sgd (with momentum) or adamw (which ignores momentum and nesterov).
    optimizer: str = "sgd"
    lr: Positive = 1e-3
    weight_decay: NotNegative = 1e-3
    #: Whether weight decay holds for biases and normalization too. A strong decay should not: it
    #: would pull the decision between the classes to an even one.
    decay_biases: bool = True
    momentum: Share = 0.9
    nesterov: bool = False
    #: constant, cosine or linear (to 0 at the end), or step (times lr_drop at each of lr_steps).
    schedule: str = "constant"
    lr_drop: Share = 0.1
    lr_steps: tuple[Count, ...] = ()
    warmup_epochs: NotNegative = 0.0
    #: Decay of a moving average of the weights, which is then what is evaluated; 0 for none.
    ema: Annotated[float, Range(0, 1, open_high=True)] = 0.0
    #: Name of the rule that selects the epoch; see `spare list rules`.
    selection: str = "val_worst_group"
    eval_batch_size: Count = 1000
    #: Loader processes, for data that is not in memory.
    workers: Annotated[int, Range(0, 256)] = 2
    #: Where models are trained: auto, cpu, cuda, cuda:1, mps, ...
    device: str = "cpu"
    #: float32, or bfloat16 or float16 for the forward pass.
    precision: str = "float32"
    #: Compile the network first (torch.compile): minutes, for faster steps. In one process.
    compile: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, known in (
            ("schedule", SCHEDULES),
            ("optimizer", OPTIMIZERS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        check_device_name(self.device)
        if self.nesterov and self.optimizer == "sgd" and not self.momentum:
            raise InputError("nesterov needs a momentum above 0.")

    def on_named_device(self) -> Settings:
        """With the device that `auto` is here, so that a record says which it was."""
        return replace(self, device=str(device_named(AUTO))) if self.device == AUTO else self


def early_settings(settings: Settings, lr: float, weight_decay: float) -> Settings:
    """For a short early training; a rate of 0 and a decay below 0 stand for those of `settings`."""
    return replace(
        settings,
        schedule="constant",
        warmup_epochs=0.0,
        ema=0.0,
        lr=lr or settings.lr,
        weight_decay=settings.weight_decay if weight_decay < 0 else weight_decay,
    )


def learning_rate(settings: Settings, epoch: float) -> float:
    """The rate after so many epochs (a fraction within an epoch)."""
    if epoch < settings.warmup_epochs:
        return settings.lr * (epoch + 1e-3) / settings.warmup_epochs
    done = min(epoch / settings.epochs, 1.0)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    if settings.schedule == "step":
        drops = sum(epoch >= at for at in settings.lr_steps)
        return float(settings.lr * settings.lr_drop**drops)
    return settings.lr
