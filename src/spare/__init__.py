"""SPARE: find the shortcuts a classifier learns, and train one without them.

    groups = spare.infer_groups(outputs, labels)       # outputs of an early epoch
    sampler = spare.ImportanceSampler(groups)          # for the DataLoader of the second training

Names are loaded when first used, so that `import spare` and `spare --help` cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from spare.errors import SpareError, SpareWarning
    from spare.groups.clusters import infer_groups
    from spare.groups.result import ClassEvidence, Groups
    from spare.groups.sampler import ImportanceSampler
    from spare.groups.silhouettes import silhouette
    from spare.groups.weights import importance_weights

#: Public names and the modules they live in.
_HOMES = {
    "ClassEvidence": "spare.groups.result",
    "Groups": "spare.groups.result",
    "ImportanceSampler": "spare.groups.sampler",
    "SpareError": "spare.errors",
    "SpareWarning": "spare.errors",
    "importance_weights": "spare.groups.weights",
    "infer_groups": "spare.groups.clusters",
    "silhouette": "spare.groups.silhouettes",
}

__all__ = [
    "ClassEvidence",
    "Groups",
    "ImportanceSampler",
    "SpareError",
    "SpareWarning",
    "importance_weights",
    "infer_groups",
    "silhouette",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
