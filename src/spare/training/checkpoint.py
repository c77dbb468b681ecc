"""Everything that changes while a model is trained, as one file to continue from.

Everything random in the loop is drawn from generators keyed by (seed, phase, epoch, step), so
torch's own generator (dropout) is the only random state there is to keep.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from spare.errors import RunError, reason
from spare.files.reading import parse_json, read_tensors
from spare.files.writing import write_tensors
from spare.models.classifier import device_of
from spare.processes.world import current
from spare.records.checks import Count
from spare.training.average import MovingAverage
from spare.training.device import HOST, random_state, set_random_state

State = dict[str, Tensor]
#: What changes of a scaler of gradients.
SCALE = ("scale", "_growth_tracker")
DELETE = "delete it and run the same command again"


@dataclass
class Position:
    """How far the training is."""

    epoch: Count = 0  # epochs finished
    step: Count = 0  # steps finished within the next epoch
    loss_sum: float = 0.0
    loss_count: Count = 0
    examples_seen: Count = 0
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: By selection rule: the best score so far and its epoch.
    best: dict[str, tuple[float, Count]] = field(default_factory=dict)
    history: list[dict[str, int | float]] = field(default_factory=list)


@dataclass
class TrainingState:
    """A model in training, with all that a checkpoint holds."""

    model: nn.Module
    optimizer: Optimizer
    #: A moving average of the weights, where there is one.
    average: MovingAverage | None
    #: An objective that remembers something.
    objective: nn.Module | None
    #: Of gradients in float16.
    scaler: torch.amp.GradScaler | None = None
    position: Position = field(default_factory=Position)
    #: By selection rule: the weights of its best epoch.
    best: dict[str, State] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    @property
    def evaluated(self) -> nn.Module:
        """The model that is scored: the moving average, where there is one."""
        return self.model if self.average is None else self.average.module

    def save(self, path: Path) -> None:
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for rule, state in self.best.items():
            tensors |= {f"best/{rule}/{name}": value for name, value in state.items()}
        for prefix, module in (("objective", self.objective), ("average", self.average)):
            if module is not None:
                state = module.state_dict()
                tensors |= {f"{prefix}/{name}": value for name, value in state.items()}
        for i, parameter in enumerate(self.parameters()):
            for name, value in self.optimizer.state[parameter].items():
                if value is not None:
                    tensors[f"optimizer/{i}/{name}"] = value
        if self.scaler is not None:
            about = self.scaler.state_dict()
            scale = [about.get(name, 0.0) for name in SCALE]  # empty before the first step
            tensors["scaler"] = torch.tensor(scale, dtype=torch.float64)
        tensors |= random_state(self.device)
        write_tensors(path, tensors, {"position": json.dumps(vars(self.position))})

    def load(self, path: Path, epochs: int) -> None:
        """Continue from a checkpoint; an error if it is damaged, or of another training.

        Parameters
        ----------
        epochs
            How many the training has: a checkpoint cannot be further.
        """
        tensors, about = current().once(lambda: read_tensors(path))
        if "position" not in about:
            raise RunError(
                f"{path} was written by another version of spare-ml: delete its folder and run the "
                f"same command again."
            )
        try:
            self.position = _position(about["position"], epochs)
            modules = {"model": self.model, "objective": self.objective, "average": self.average}
            for prefix, module in modules.items():
                if module is not None:
                    module.load_state_dict(_fitting(_part(tensors, prefix), module, prefix))
            started = any(name.startswith("optimizer/") for name in tensors)
            for i, parameter in enumerate(self.parameters()):
                memory = _part(tensors, f"optimizer/{i}")
                if memory:
                    self.optimizer.state[parameter].update(self._remembered(memory, parameter))
                elif started and isinstance(self.optimizer, SGD):  # which takes all or none
                    self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            best = {rule: _part(tensors, f"best/{rule}") for rule in self.position.best}
            self.best = {rule: _fitting(s, self.evaluated, "best") for rule, s in best.items()}
            self._set_scale(tensors.get("scaler", torch.zeros(0)))
            set_random_state(self._random_states(tensors), self.device)
        # A RuntimeError is torch's own for bytes that are no state.
        except (ValueError, RuntimeError, msgspec.ValidationError) as error:
            raise RunError(
                f"{path} is no checkpoint of this training ({reason(error)}): {DELETE}."
            ) from error

    def _set_scale(self, scale: Tensor) -> None:
        if self.scaler is None:
            return
        if scale.shape != (len(SCALE),) or not (scale.isfinite() & (scale >= 0)).all():
            raise ValueError("it has no scale of the gradients")
        values = dict(zip(SCALE, scale.tolist(), strict=True))
        values["_growth_tracker"] = int(values["_growth_tracker"])
        self.scaler.load_state_dict(self.scaler.state_dict() | values)

    def _random_states(self, tensors: State) -> State:
        now = random_state(self.device)
        kept: State = {n: t for n, t in tensors.items() if n in ("torch_rng", "device_rng")}
        host = kept.get("torch_rng", torch.zeros(0))
        if host.shape != now["torch_rng"].shape or any(
            state.dtype != torch.uint8 for state in kept.values()
        ):
            raise ValueError("it has no state of the random numbers")
        return kept

    def parameters(self) -> list[nn.Parameter]:
        return [weight for group in self.optimizer.param_groups for weight in group["params"]]

    def _remembered(self, memory: State, parameter: nn.Parameter) -> State:
        """What the optimizer remembers of a parameter, where the parameter is."""
        sgd = isinstance(self.optimizer, SGD)
        if memory.keys() != ({"momentum_buffer"} if sgd else {"step", "exp_avg", "exp_avg_sq"}):
            raise ValueError("the optimizer's memory is of another optimizer")
        remembered: State = {}
        for name, value in memory.items():
            counts = name == "step"
            expected = torch.zeros((), device=HOST) if counts else parameter
            if value.shape != expected.shape or value.dtype != expected.dtype:
                raise ValueError("the optimizer's memory has another shape or type")
            # In the parameter's own memory layout: a fused step walks both as they lie.
            kept = torch.empty_like(expected, requires_grad=False).copy_(value)
            remembered[name] = kept.to(parameter.device)
        return remembered


def snapshot(model: nn.Module) -> State:
    """A copy of a model's weights, on the host."""
    return {name: value.detach().to(HOST, copy=True) for name, value in model.state_dict().items()}


def _position(text: str, epochs: int) -> Position:
    position = msgspec.convert(parse_json(text), Position, strict=True)
    if position.epoch > epochs:
        raise ValueError(f"it is after epoch {position.epoch} of {epochs}")
    if [epoch.get("epoch") for epoch in position.history] != [*range(1, position.epoch + 1)]:
        raise ValueError("its history is not that of its epochs")
    if not all("loss" in epoch for epoch in position.history):
        raise ValueError("its history has an epoch without a loss")
    if not all(1 <= epoch <= position.epoch for _, epoch in position.best.values()):
        raise ValueError("a rule selected an epoch that is not there yet")
    return position


def _fitting(state: State, module: nn.Module, what: str) -> State:
    """A module's tensors, if they are those that it has."""
    expected = module.state_dict()
    if state.keys() != expected.keys():
        raise ValueError(f"its tensors of the {what} have other names")
    for name, value in expected.items():
        if state[name].shape != value.shape or state[name].dtype != value.dtype:
            raise ValueError(f"{name} of the {what} has another shape or type")
    return state


def _part(tensors: State, prefix: str) -> State:
    start = len(prefix) + 1
    return {name[start:]: t for name, t in tensors.items() if name.startswith(f"{prefix}/")}
