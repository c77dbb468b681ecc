"""What a method is: a name, what it may see, its options, and a recipe.

Most recipes have two halves: an inference that names groups, and a trainer that uses them. Any
inference goes with any trainer (`combined`); the published methods are such pairs with a name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.models import ModelChoice
from spare.training.settings import Settings

if TYPE_CHECKING:
    from spare.groups.blocks import Block
    from spare.groups.result import Groups
    from spare.training.checkpoint import State
    from spare.training.loop import Trained
    from spare.training.stages import Stages


@dataclass(frozen=True)
class NoOptions:
    """For methods that have nothing to choose."""


@dataclass(frozen=True)
class EarlyOutputs:
    """What an early model said of every training example; epoch None for outputs someone brings."""

    epoch: int | None
    #: The class that it takes the example for, and the probability that it gives this class.
    predicted: np.ndarray
    confidence: np.ndarray
    #: (examples, 2): where each lies among its class, for what was clustered.
    points: np.ndarray | None = None


@dataclass(frozen=True)
class Inferred:
    """What an inference hands to a trainer."""

    groups: Groups
    #: Inferred groups of held-out splits, by the split's name.
    held_out: dict[str, np.ndarray] = field(default_factory=dict)
    #: What else is worth keeping in the record (such as when the groups were separated).
    notes: dict[str, Any] = field(default_factory=dict)
    #: What a worst case is taken over, where that is not the groups: one number per example.
    environments: np.ndarray | None = None
    #: Which initial weights the groups belong to, so that training starts from the same.
    weight_seed: int = 0
    #: The early model's weights, for trainers that continue from them, and for people to see.
    early: State | None = None
    #: The epoch that these weights are of.
    early_epoch: int = 0
    #: What early models said of the training examples, for people to see; the groups come from the
    #: last.
    early_outputs: tuple[EarlyOutputs, ...] = ()
    #: By class: how clearly it has fallen apart, where early outputs were clustered.
    blocks: dict[Any, Block] = field(default_factory=dict)

    @property
    def worst_case_over(self) -> np.ndarray:
        return self.groups.ids if self.environments is None else self.environments


@dataclass(frozen=True)
class Fitted:
    """What a recipe hands back: the trained model and, where it inferred groups, those."""

    #: None of a discovery, which ends with the groups.
    trained: Trained | None
    inferred: Inferred | None = None
    #: How likely each training example was sampled; None where all are equal.
    probabilities: np.ndarray | None = None
    #: What else is worth keeping in the record.
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inference:
    """Names groups: the first half of a recipe. `--methods NAME+TRAINER` uses it."""

    name: str
    sees: Callable[[Any], str]
    infer: Callable[[Task, Stages, Any], Inferred]
    options: type = NoOptions
    #: False when it has nothing to say of held-out examples, as selection by inferred groups needs.
    names_held_out: bool = True

    def __post_init__(self) -> None:
        _refuse_names_of_settings(self.name, self.options)


@dataclass(frozen=True)
class Trainer:
    """Trains with groups: the second half of a recipe."""

    name: str
    train: Callable[[Task, Stages, Inferred, Any], Fitted]
    options: type = NoOptions

    def __post_init__(self) -> None:
        _refuse_names_of_settings(self.name, self.options)


@dataclass(frozen=True)
class Method:
    """A recipe with a name, and what people and the runner need to know of it."""

    name: str
    title: str
    paper: str
    #: Which group labels it may see, given its options: "none", "val" or "train".
    sees: Callable[[Any], str]
    fit: Callable[[Task, Stages, Any], Fitted]
    options: type = NoOptions
    #: True when it names groups by itself, as selection by inferred groups needs.
    infers_groups: bool = False
    #: The selection rule of its paper, where that is not the best worst group on validation.
    paper_rule: str = ""
    #: Another method whose part of a preset holds for it too, before its own.
    preset_from: str = ""
    #: Training examples that it passes through a model, relative to plain training, in words.
    cost: str = "1x"
    #: Its halves, where it has them.
    halves: tuple[Inference, Trainer] | None = None
    #: False of a discovery, which ends with the groups.
    trains: bool = True

    def __post_init__(self) -> None:
        _refuse_names_of_settings(self.name, self.options)


def sees(what: str) -> Callable[[Any], str]:
    return lambda options: what


def combined(
    inference: Inference, trainer: Trainer, *, name: str = "", title: str = "", **more: Any
) -> Method:
    """The method that names groups with one half and trains with the other."""

    def fit(task: Task, stages: Stages, options: Any) -> Fitted:
        inferred = inference.infer(task, stages, options)
        stages.use_groups(inferred.held_out.get("val"), inferred.weight_seed)
        return trainer.train(task, stages, inferred, options)

    return Method(
        name=name or f"{inference.name}+{trainer.name}",
        title=title or f"groups as {inference.name} names them, training as in {trainer.name}",
        sees=inference.sees,
        fit=fit,
        options=joined(inference.options, trainer.options),
        infers_groups=inference.names_held_out,
        halves=(inference, trainer),
        **{"paper": "-"} | more,
    )


def joined(*parts: type) -> type:
    """One options class with the fields, and the checks, of several."""

    def check(self: Any) -> None:
        for part in parts:
            getattr(part, "__post_init__", lambda _: None)(self)

    if NoOptions in parts:
        parts = tuple(part for part in parts if part is not NoOptions)
    if len(parts) <= 1:
        return parts[0] if parts else NoOptions
    name = "".join(part.__name__.removesuffix("Options") for part in parts) + "Options"
    return dataclasses.make_dataclass(
        name, [], bases=parts[::-1], frozen=True, namespace={"__post_init__": check}
    )


def _refuse_names_of_settings(name: str, options: type) -> None:
    """Options and settings share one space of names: a key must mean one thing."""
    settings = {f.name for kind in (Settings, ModelChoice) for f in dataclasses.fields(kind)}
    for option in dataclasses.fields(options):
        if option.name in settings:
            raise InputError(
                f"{name} has an option called {option.name!r}, which is the name of a setting: "
                f"call the option something else."
            )
