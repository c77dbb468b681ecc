"""THE training loop, its settings, and the outputs of a trained model.

Everything random is drawn from generators keyed by (seed, stage, epoch, step), so the loop has no
random state to save except torch's own (dropout): a checkpoint is the weights, the optimiser's
momentum and where we were, and going on from one gives bit for bit what an undisturbed run gives.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from spare.batches import Batches
from spare.errors import InputError, Interrupted, RunError, unknown
from spare.files import read_tensors, write_tensors
from spare.models import Classifier, torch_seed
from spare.task import Split

Key = tuple[int, ...]
State = dict[str, Tensor]
#: Given the model after an epoch and the epoch's number: how good it is by each selection rule, and
#: what else to remember of it.
Validate = Callable[[nn.Module, int], tuple[dict[str, float], dict[str, float]]]
#: (model, inputs, labels, rows in the training split) -> loss. One that remembers something (Group
#: DRO's weights, a second network) is an nn.Module: its parameters are trained along, and its state
#: is in the checkpoint. Its `passes` says how many networks an example goes through, where not one.
Objective = Callable[[nn.Module, Tensor, Tensor, np.ndarray], Tensor]

#: What can be clustered, by the name that people use for it.
OUTPUTS = {"softmax": "probabilities", "logits": "logits", "features": "features"}
SCHEDULES = ("constant", "cosine", "linear", "step")
#: A checkpoint is written after every epoch, and within a long one after this many seconds.
CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """How a model is trained. Presets and `--set` change these."""

    epochs: int = 20
    batch_size: int = 32
    #: Batches whose gradients are averaged into one step.
    accumulate: int = 1
    lr: float = 1e-3
    weight_decay: float = 1e-3
    momentum: float = 0.9
    nesterov: bool = False
    #: constant, cosine or linear (to 0 at the end), or step (times lr_drop at each of lr_steps).
    schedule: str = "constant"
    lr_drop: float = 0.1
    lr_steps: tuple[int, ...] = ()
    warmup_epochs: float = 0.0
    #: Decay of a moving average of the weights, which is then what is evaluated; 0 for none.
    ema: float = 0.0
    #: Name of the rule that selects the epoch; see `spare list rules`.
    selection: str = "val_worst_group"
    eval_batch_size: int = 1000
    #: Loader processes, for data that is not in memory.
    workers: int = 2

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        for name, lowest in (
            ("epochs", 1),
            ("batch_size", 1),
            ("accumulate", 1),
            ("eval_batch_size", 1),
        ):
            if getattr(self, name) < lowest:
                raise InputError(f"{name} is at least {lowest}, not {getattr(self, name)}.")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise InputError(f"lr is a positive number, not {self.lr}.")
        if not 0 <= self.ema < 1:
            raise InputError(f"ema is from 0 to below 1, not {self.ema}.")


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


@dataclass(frozen=True)
class Outputs:
    """What a model says about each example of a split, in order."""

    logits: Tensor
    features: Tensor

    @property
    def probabilities(self) -> Tensor:
        return self.logits.softmax(1)

    def named(self, name: str) -> Tensor:
        if name not in OUTPUTS:
            raise unknown("output", name, OUTPUTS)
        return getattr(self, OUTPUTS[name])


@dataclass
class _Progress:
    """What a checkpoint holds besides tensors."""

    epoch: int = 0  # epochs finished
    step: int = 0  # steps finished within the next epoch
    loss_sum: float = 0.0
    loss_count: int = 0
    examples_seen: int = 0
    seconds: float = 0.0
    #: By selection rule: the best score so far and its epoch.
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


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
    start_from: Path | None = None,
    on_step: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train `model` in place for `settings.epochs` epochs.

    key         seeds everything random here.
    validate    called after each epoch; the weights that each of its rules likes best are kept.
    checkpoint  a file to go on from if it is there, and to keep up to date.
    start_from  a finished checkpoint of fewer epochs to go on from when `checkpoint` is not there.
    on_step     told (steps done, steps in all); should_stop is asked after every step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(key))
        return _train(
            model, split, settings, batches, key, objective, validate, checkpoint, start_from,
            on_step, should_stop,
        )  # fmt: skip


def _train(
    model: nn.Module,
    split: Split,
    settings: Settings,
    batches: Batches,
    key: Key,
    objective: Objective,
    validate: Validate | None,
    checkpoint: Path | None,
    start_from: Path | None,
    on_step: Callable[[int, int], None] | None,
    should_stop: Callable[[], bool],
) -> Trained:
    memory = objective if isinstance(objective, nn.Module) else None
    optimizer = torch.optim.SGD(
        [*model.parameters(), *([] if memory is None else memory.parameters())],
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.nesterov,
        fused=True,
    )
    average = None
    if settings.ema:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(settings.ema))
    progress = _Progress()
    best: dict[str, State] = {}
    source = next((f for f in (checkpoint, start_from) if f is not None and f.exists()), None)
    if source is not None:
        progress, best = _load(source, model, optimizer, average, memory)

    labels = torch.as_tensor(split.labels, dtype=torch.long)
    started = time.perf_counter()
    saved = started
    before = progress.seconds
    evaluated = model if average is None else average.module

    def save() -> None:
        nonlocal saved
        progress.seconds = before + time.perf_counter() - started
        if checkpoint is not None:
            _save(checkpoint, progress, model, optimizer, average, memory, best)
        saved = time.perf_counter()

    while progress.epoch < settings.epochs:
        plan = batches(np.random.default_rng([*key, progress.epoch]))
        model.train()
        for index, x in load(split, plan, [*key, progress.epoch], progress.step, settings.workers):
            place = progress.epoch + progress.step / len(plan)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(settings, place)
            loss = objective(model, x, labels[index], index)
            value = loss.item()
            if not math.isfinite(value):
                raise RunError(
                    f"the loss became {value} at epoch {progress.epoch + 1}, step "
                    f"{progress.step + 1} (learning rate {learning_rate(settings, place):g}): "
                    f"lower lr; the last good checkpoint is kept."
                )
            (loss / settings.accumulate).backward()
            progress.step += 1
            whole = progress.step % settings.accumulate == 0 or progress.step == len(plan)
            if whole:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if average is not None:
                    average.update_parameters(model)
            progress.loss_sum += value * len(index)
            progress.loss_count += len(index)
            progress.examples_seen += len(index) * getattr(objective, "passes", 1)
            if on_step is not None:
                done = progress.epoch * len(plan) + progress.step
                on_step(done, settings.epochs * len(plan))
            if not whole:  # half a step is in no checkpoint
                continue
            if should_stop():
                save()
                raise Interrupted(
                    "stopped; the checkpoint is written, and the same command goes on from it."
                )
            if progress.step < len(plan) and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                save()

        progress.epoch += 1
        record: dict[str, Any] = {
            "epoch": progress.epoch,
            "loss": progress.loss_sum / max(progress.loss_count, 1),
        }
        if validate is not None:
            scores, more = validate(evaluated, progress.epoch)
            record |= more
            now = snapshot(evaluated)
            for rule, score in scores.items():
                if rule not in progress.best or score > progress.best[rule][0]:
                    progress.best[rule] = (score, progress.epoch)
                    best[rule] = now
        progress.history.append(record)
        progress.step, progress.loss_sum, progress.loss_count = 0, 0.0, 0
        save()

    last = snapshot(evaluated)
    return Trained(
        model=evaluated,
        last=last,
        kept={rule: Kept(progress.best[rule][1], state) for rule, state in best.items()},
        history=progress.history,
        seconds=progress.seconds,
        examples_seen=progress.examples_seen,
    )


def learning_rate(settings: Settings, place: float) -> float:
    """The rate after `place` epochs (a fraction within an epoch)."""
    if place < settings.warmup_epochs:
        return settings.lr * (place + 1e-3) / settings.warmup_epochs
    done = min(place / settings.epochs, 1.0)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    if settings.schedule == "step":
        return settings.lr * settings.lr_drop ** sum(place >= at for at in settings.lr_steps)
    return settings.lr


def load(
    split: Split, plan: list[np.ndarray], key: list[int], first: int, workers: int
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """The batches of one epoch from number `first` on: augmented, each from a generator of its own.

    Data in memory is indexed here; anything else goes through a DataLoader and its processes.
    """
    items = _Batches(split, plan, key)
    if split.inputs.in_memory:
        for step in range(first, len(plan)):
            yield plan[step], items[step]
        return
    loader: Any = torch.utils.data.DataLoader(
        items,
        batch_size=None,
        sampler=range(first, len(plan)),
        num_workers=workers,
    )
    yield from zip(plan[first:], loader, strict=True)


class _Batches(torch.utils.data.Dataset[Tensor]):
    """Batch number -> tensor: what a DataLoader's worker is asked for."""

    def __init__(self, split: Split, plan: list[np.ndarray], key: list[int] | None):
        self.split, self.plan, self.key = split, plan, key

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Tensor:
        rng = None if self.key is None else np.random.default_rng([*self.key, step])
        return self.split.inputs.take(self.plan[step], rng)


def outputs(
    model: nn.Module,
    split: Split,
    *,
    batch_size: int = 1000,
    workers: int = 2,
    on_step: Callable[[int, int], None] | None = None,
) -> Outputs:
    """Logits and penultimate features of every example: eval mode, un-augmented, in order."""
    everyone = np.arange(len(split))
    plan = [everyone[i : i + batch_size] for i in range(0, len(split), batch_size)]
    batches: Any = _Batches(split, plan, None)
    if not split.inputs.in_memory:
        batches = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=workers)
    logits, features = [], []
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for step, x in enumerate(batches, start=1):
            hidden = model.features(x) if isinstance(model, Classifier) else x
            head = model.head if isinstance(model, Classifier) else model
            features.append(hidden.clone())
            logits.append(head(hidden))
            if on_step is not None:
                on_step(step, len(plan))
            if step == len(plan):
                break
    model.train(was_training)
    return Outputs(torch.cat(logits), torch.cat(features))


def softmax_if_logits(given: Tensor, output: str) -> Tensor:
    """Outputs that someone brings: rows that sum to 1 are probabilities already."""
    if output not in OUTPUTS:
        raise unknown("output", output, OUTPUTS)
    are_shares = bool((given >= 0).all()) and torch.allclose(given.sum(1), torch.ones(len(given)))
    return given if are_shares or output != "softmax" else given.softmax(1)


def snapshot(model: nn.Module) -> State:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _save(
    path: Path,
    progress: _Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedModel | None,
    memory: nn.Module | None,
    best: dict[str, State],
) -> None:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for rule, state in best.items():
        tensors |= {f"best/{rule}/{name}": value for name, value in state.items()}
    if memory is not None:
        tensors |= {f"objective/{name}": value for name, value in memory.state_dict().items()}
    for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
        momentum = optimizer.state[parameter].get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum/{i}"] = momentum
    if average is not None:
        tensors |= {f"average/{name}": value for name, value in average.state_dict().items()}
    tensors["torch_rng"] = torch.get_rng_state()
    write_tensors(path, tensors, {"progress": json.dumps(vars(progress))})


def _load(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedModel | None,
    memory: nn.Module | None,
) -> tuple[_Progress, dict[str, State]]:
    tensors, about = read_tensors(path)

    def part(prefix: str) -> State:
        start = len(prefix) + 1
        return {name[start:]: t for name, t in tensors.items() if name.startswith(f"{prefix}/")}

    model.load_state_dict(part("model"))
    if average is not None:
        average.load_state_dict(part("average"))
    if memory is not None:
        memory.load_state_dict(part("objective"))
    momenta = part("momentum")
    for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
        if str(i) in momenta:
            # In the parameter's own memory layout: the fused step goes through both as they lie.
            buffer = torch.empty_like(parameter, requires_grad=False).copy_(momenta[str(i)])
            optimizer.state[parameter]["momentum_buffer"] = buffer
    torch.set_rng_state(tensors["torch_rng"])
    progress = _Progress(**json.loads(about["progress"]))
    return progress, {rule: part(f"best/{rule}") for rule in progress.best}
