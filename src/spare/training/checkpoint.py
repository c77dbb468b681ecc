"""Everything that changes while a model is trained, as one file to continue from.

Everything random in the loop is drawn from generators keyed by (seed, phase, epoch, step), so
torch's own generator (dropout) is the only random state there is to keep.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from spare.errors import RunError
from spare.files import read_tensors, write_tensors
from spare.training.device import random_state, set_random_state

State = dict[str, Tensor]


@dataclass
class Position:
    """How far the training is."""

    epoch: int = 0  # epochs finished
    step: int = 0  # steps finished within the next epoch
    loss_sum: float = 0.0
    loss_count: int = 0
    examples_seen: int = 0
    seconds: float = 0.0
    #: By selection rule: the best score so far and its epoch.
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class TrainingState:
    """A model in training, with all that a checkpoint holds."""

    model: nn.Module
    optimizer: Optimizer
    #: A moving average of the weights, where there is one.
    average: AveragedModel | None
    #: An objective that remembers something.
    objective: nn.Module | None
    position: Position = field(default_factory=Position)
    #: By selection rule: the weights of its best epoch.
    best: dict[str, State] = field(default_factory=dict)

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
        for i, parameter in enumerate(self._parameters()):
            for name, value in self.optimizer.state[parameter].items():
                if value is not None:
                    tensors[f"optimizer/{i}/{name}"] = value
        tensors["torch_rng"] = random_state()
        write_tensors(path, tensors, {"position": json.dumps(vars(self.position))})

    def load(self, path: Path) -> None:
        tensors, about = read_tensors(path)
        if "position" not in about:
            raise RunError(
                f"{path} was written by another version of spare-ml: delete its folder and run the "
                f"same command again."
            )
        self.model.load_state_dict(_part(tensors, "model"))
        for prefix, module in (("objective", self.objective), ("average", self.average)):
            if module is not None:
                module.load_state_dict(_part(tensors, prefix))
        for i, parameter in enumerate(self._parameters()):
            for name, value in _part(tensors, f"optimizer/{i}").items():
                if value.shape == parameter.shape:
                    # In the parameter's own memory layout: a fused step walks both as they lie.
                    value = torch.empty_like(parameter, requires_grad=False).copy_(value)
                self.optimizer.state[parameter][name] = value.to(parameter.device)
        set_random_state(tensors["torch_rng"])
        self.position = Position(**json.loads(about["position"]))
        self.best = {rule: _part(tensors, f"best/{rule}") for rule in self.position.best}

    def _parameters(self) -> list[nn.Parameter]:
        return list(self.optimizer.param_groups[0]["params"])


def snapshot(model: nn.Module) -> State:
    """A copy of a model's weights."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _part(tensors: State, prefix: str) -> State:
    start = len(prefix) + 1
    return {name[start:]: t for name, t in tensors.items() if name.startswith(f"{prefix}/")}
