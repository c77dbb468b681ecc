"""Is there a shortcut? A verdict for each class and for all, from how clusters are classified.

A class looks like one with a shortcut when, after a little training, the examples outside its
largest cluster, its block, lie far from the rest and are taken for another class together: its
clarity (groups/blocks.py) is high. Hard examples form blocks too, but such a block is partly right,
or shades into the rest. Wrong labels in data that is otherwise easy look just like a shortcut.

Where there are pictures, a block that looks like the class that it is taken for (taken.py) counts
for more: hard examples are mistaken for many reasons, victims of a shortcut for one that can be
seen. A class's strength is its clarity, and what this resemblance has beyond 0.8.

Where early models were asked about what they did not see, strength is at most 7/3 of the depth of
the mistakes (groups/blocks.py), so that the same bounds hold.

The strength of all classes together is the second highest: one such class alone may be an accident,
and a shortcut that leads from one class to another shows in both. One alone is weak evidence, if
it is very clear. benchmarks/verdict.py measures how clear data without a shortcut comes out, and so
how often the verdict is wrong.

Where no block is clear, a cluster that is taken for one other class of several as a whole and looks
like that class (taken.py) is weak evidence. So is a block that gets more samples by this evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from spare.data.task import Task
from spare.groups.blocks import DEEP, SMALLEST_BLOCK, Block, powers_of
from spare.records.record import ClassVerdict, TakenBlock, Verdict

FOUND, WEAK, NONE = "shortcut found", "weak evidence", "none found"
#: The resemblance that blocks of hard examples often have; what is beyond it counts.
USUAL = 0.8
#: The least strength for each verdict, set by benchmarks/verdict.py: the first is above all data
#: without a shortcut in its bank, the second above nineteen of twenty.
LEAST = {FOUND: 0.56, WEAK: 0.5}
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
    alike: Mapping[Any, float | None] | None = None,
) -> Verdict:
    """The verdict on every class by its block and by what of it is taken for another class.

    Parameters
    ----------
    alike
        By class, how much its block looks like the class that it is taken for, where that is known.
    """
    classes = {
        task.class_names[label]: class_verdict(block, task, (alike or {}).get(label))
        for label, block in blocks.items()
    }
    for name, block in (taken or {}).items():
        if classes[name]["verdict"] == NONE:
            classes[name] |= {"verdict": WEAK, "taken": block}
    together = overall(classes)
    if together["overall"] == NONE and any(powers_of(blocks).values()):
        together["overall"] = WEAK
    for each in classes.values():  # what is found takes two
        if each["verdict"] == FOUND and together["overall"] != FOUND:
            each["verdict"] = WEAK
    return {**together, "epoch": epoch, "classes": classes}


def strength_of(block: Block, alike: float | None) -> float:
    """How much a class looks like one with a shortcut.

    >>> block = Block(40, 0.04, right=0.25, learned=1.0, silhouette=0.75)
    >>> strength_of(block, None), strength_of(block, 0.7), strength_of(block, 1.0)
    (0.5, 0.5, 0.7)
    >>> in_words(strength_of(Block(40, 0.04, 0.0, 1.0, 0.99, depth=DEEP), None))
    'shortcut found'
    """
    strength = block.clarity + max(0.0, (alike or 0.0) - USUAL)
    if block.depth is None:
        return strength
    return min(strength, LEAST[FOUND] * (block.depth / DEEP))


def class_verdict(block: Block, task: Task, alike: float | None = None) -> ClassVerdict:
    """The verdict on one class, with the numbers behind it."""
    if block.size < SMALLEST_BLOCK:
        return {"verdict": NONE, "strength": None, "block": block.size}
    strength = strength_of(block, alike)
    taken_for = None if block.taken_for is None else task.class_names[block.taken_for]
    verdict: ClassVerdict = {
        "verdict": in_words(strength),
        "strength": strength,
        "block": block.size,
        "small": block.share,
        "learned": block.learned,
        "mistaken": block.right,
        "apart": block.silhouette,
        "taken_for": taken_for,
        "taken_share": block.taken_share,
    }
    if block.depth is not None:
        verdict["deep"] = block.depth
    if alike is not None:
        verdict["alike"] = alike
    return verdict


def in_words(strength: float | None) -> str:
    """The verdict that a strength stands for.

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
