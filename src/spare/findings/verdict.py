"""Is there a shortcut? A verdict for each class and for all, from how clusters are classified.

A class looks like one with a shortcut when, after a little training, the examples outside its
largest cluster, its block, lie far from the rest and are taken for another class together: its
clarity (groups/blocks.py) is high. Hard examples form blocks too, but such a block is partly right,
or shades into the rest. Wrong labels in data that is otherwise easy look just like a shortcut.

The clarity of all classes together is the second highest: one such class alone may be an accident,
and a shortcut that leads from one class to another shows in both. One alone is weak evidence, if
it is very clear. benchmarks/verdict.py measures how clear data without a shortcut comes out, and so
how often the verdict is wrong.

Where no block is clear, a cluster that is taken for one other class of several as a whole and looks
like that class (taken.py) is weak evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from spare.data.task import Task
from spare.groups.blocks import SMALLEST_BLOCK, Block
from spare.records.record import ClassVerdict, TakenBlock, Verdict

FOUND, WEAK, NONE = "shortcut found", "weak evidence", "none found"
#: The least clarity for each verdict, set by benchmarks/verdict.py: the first is above all data
#: without a shortcut in its bank, the second above nineteen of twenty.
LEAST = {FOUND: 0.57, WEAK: 0.46}
#: One class alone must be this clear to be weak evidence.
ALONE = 0.8


class Overall(TypedDict):
    """The verdict on all classes together."""

    overall: str
    strength: float | None


def verdict_of(
    task: Task,
    blocks: Mapping[Any, Block],
    epoch: int | None,
    taken: Mapping[str, TakenBlock] | None = None,
) -> Verdict:
    """The verdict on every class by its block and by what of it is taken for another class."""
    classes = {task.class_names[c]: class_verdict(block, task) for c, block in blocks.items()}
    for name, block in (taken or {}).items():
        if classes[name]["verdict"] == NONE:
            classes[name] |= {"verdict": WEAK, "taken": block}
    together = overall(classes)
    for each in classes.values():  # what is found takes two
        if each["verdict"] == FOUND and together["overall"] != FOUND:
            each["verdict"] = WEAK
    return {**together, "epoch": epoch, "classes": classes}


def class_verdict(block: Block, task: Task) -> ClassVerdict:
    """The verdict on one class, with the numbers behind it."""
    if block.size < SMALLEST_BLOCK:
        return {"verdict": NONE, "strength": None, "block": block.size}
    taken_for = None if block.taken_for is None else task.class_names[block.taken_for]
    return {
        "verdict": in_words(block.clarity),
        "strength": block.clarity,
        "block": block.size,
        "small": block.share,
        "learned": block.learned,
        "mistaken": block.right,
        "apart": block.silhouette,
        "taken_for": taken_for,
        "taken_share": block.taken_share,
    }


def in_words(strength: float | None) -> str:
    """The verdict that a clarity stands for.

    >>> in_words(0.99), in_words(0.5), in_words(0.3), in_words(None)
    ('shortcut found', 'weak evidence', 'none found', 'none found')
    """
    return next((words for words, least in LEAST.items() if (strength or 0) >= least), NONE)


def overall(classes: Mapping[str, ClassVerdict]) -> Overall:
    """The verdict on all classes together.

    >>> def of(strength):
    ...     return {"verdict": in_words(strength), "strength": strength, "block": 9}
    >>> overall({"cat": of(0.95), "dog": of(0.9), "cow": of(None)})
    {'overall': 'shortcut found', 'strength': 0.9}
    >>> overall({"cat": of(0.95), "dog": of(0.1)})
    {'overall': 'weak evidence', 'strength': 0.1}
    """
    strengths = sorted(s for verdict in classes.values() if (s := verdict["strength"]) is not None)
    second = strengths[-2] if len(strengths) > 1 else None
    verdict = in_words(second)
    if verdict == NONE and (
        strengths[-1:] >= [ALONE] or any("taken" in each for each in classes.values())
    ):
        verdict = WEAK
    return {"overall": verdict, "strength": second}
