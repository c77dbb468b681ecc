"""What a method is: a name, what it may see, its options, and a recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spare.task import Task

if TYPE_CHECKING:
    from spare.groups.clusters import Groups
    from spare.stages import Stages
    from spare.train import Trained


@dataclass(frozen=True)
class NoOptions:
    """For methods that have nothing to choose."""


@dataclass
class Fitted:
    """What a recipe hands back: the trained model and, where it inferred groups, those."""

    trained: Trained
    groups: Groups | None = None
    #: Inferred groups of held-out splits, by the split's name.
    held_out: dict[str, np.ndarray] = field(default_factory=dict)
    #: What else is worth keeping in run.json (such as when the groups were separated).
    notes: dict[str, Any] = field(default_factory=dict)
    #: How the groups' examples were drawn: see weights.py.
    class_mass: str = "equal"


@dataclass(frozen=True)
class Method:
    name: str
    title: str
    paper: str
    #: Which group labels it may see, given its options: "none", "val" or "train".
    sees: Callable[[Any], str]
    fit: Callable[[Task, Stages, Any], Fitted]
    options: type = NoOptions
    #: True when it names groups by itself, as selection by inferred groups needs.
    infers_groups: bool = False


def sees(what: str) -> Callable[[Any], str]:
    return lambda options: what
