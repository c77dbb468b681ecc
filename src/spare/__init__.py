"""SPARE: find the shortcuts a classifier learns, and train one without them.

    found = spare.discover("photos")                   # is there a shortcut, and in which classes?
    run = spare.train("photos")                        # train without it

    groups = spare.infer_groups(outputs, labels)       # in your own loop: outputs of an early epoch
    sampler = spare.ImportanceSampler(groups)          # for the DataLoader of the second training

    spare.theory.growth()                              # why this works: the paper's theory, running

Names are loaded when first used, so that `import spare` and `spare --help` cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from spare.api import (
        Bench,
        Discovery,
        Run,
        bench,
        compare,
        discover,
        figure,
        load_run,
        train,
    )
    from spare.data.task import Split, Task
    from spare.datasets import Dataset
    from spare.engines import infer_groups
    from spare.engines.outputs import ClusteredOutputs, cluster_outputs
    from spare.errors import SpareError, SpareWarning
    from spare.groups.result import ClassEvidence, Groups
    from spare.groups.sampler import ImportanceSampler
    from spare.groups.silhouettes import silhouette
    from spare.groups.weights import importance_weights
    from spare.progress import Progress

#: Public names and the modules they live in.
_HOMES = {
    "Bench": "spare.api",
    "ClassEvidence": "spare.groups.result",
    "ClusteredOutputs": "spare.engines.outputs",
    "Dataset": "spare.datasets",
    "Discovery": "spare.api",
    "Groups": "spare.groups.result",
    "ImportanceSampler": "spare.groups.sampler",
    "Progress": "spare.progress",
    "Run": "spare.api",
    "SpareError": "spare.errors",
    "SpareWarning": "spare.errors",
    "Split": "spare.data.task",
    "Task": "spare.data.task",
    "bench": "spare.api",
    "cluster_outputs": "spare.engines.outputs",
    "compare": "spare.api",
    "discover": "spare.api",
    "figure": "spare.api",
    "importance_weights": "spare.groups.weights",
    "infer_groups": "spare.engines",
    "load_run": "spare.api",
    "silhouette": "spare.groups.silhouettes",
    "train": "spare.api",
}

__all__ = [
    "Bench",
    "ClassEvidence",
    "ClusteredOutputs",
    "Dataset",
    "Discovery",
    "Groups",
    "ImportanceSampler",
    "Progress",
    "Run",
    "SpareError",
    "SpareWarning",
    "Split",
    "Task",
    "bench",
    "cluster_outputs",
    "compare",
    "discover",
    "figure",
    "importance_weights",
    "infer_groups",
    "load_run",
    "silhouette",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "theory":  # a room of its own: spare.theory.growth(...)
        return import_module("spare.theory")
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
