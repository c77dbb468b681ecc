"""Which labels a result rests on besides the classes of the training examples, in words.

Training and selection are told apart: a method that sees no group label is still not free of them
if its epoch was selected by the groups of the validation split.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: By what a method sees.
TRAINING = {"none": "none", "val": "val groups", "train": "train groups"}
#: By rule, for records that do not say what their selection used.
RULES = {
    "val_worst_group": "val groups",
    "val_average": "val labels",
    "val_inferred_groups": "inferred groups",
    "last": "nothing",
}


class LabelsUsed(NamedTuple):
    """As the columns "training used" and "selection used" have it."""

    #: none, val groups or train groups.
    training: str
    #: What the rule needs: nothing, val labels, inferred groups or val groups.
    selection: str

    def __str__(self) -> str:
        return f"training used: {self.training}; selection used: {self.selection}"


def labels_used(of: Mapping[str, Any]) -> LabelsUsed:
    """The labels that a run, or a row of a bench, used.

    >>> str(labels_used({"sees": "none", "selection": "val_worst_group"}))
    'training used: none; selection used: val groups'
    """
    used = of.get("selection_used") or RULES.get(of["selection"], "not recorded")
    return LabelsUsed(TRAINING.get(of["sees"], of["sees"]), used)
