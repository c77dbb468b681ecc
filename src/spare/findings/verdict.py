"""Is there a shortcut? An answer for each class and for all, from what clusters are taken for.

A class looks like one with a shortcut when, after a little training,

    its largest cluster is learned         right in at least `learned` of its examples
    a small block is taken for others      the other clusters together: at most `small` of the
                                           class, and right in at most `mistaken`
    nothing lies between                   silhouette of at least `apart`

Hard examples and wrong labels make blocks too, but such a block is partly right, or shades into the
rest. The `strength` of a class says how far it meets all four: 0 at the faint bounds, 1 at the
clear ones, by the one that it meets least. The strength of all classes together is the second
highest: one such class alone may be an accident, and a shortcut that leads from one class to
another shows in both. How strong data without a shortcut comes out, and so how often the answer is
wrong, is measured by benchmarks/verdict.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FOUND, WEAK, NONE = "shortcut found", "weak evidence", "none found"
#: A block of fewer examples says nothing.
SMALLEST_BLOCK = 5
#: What each fact must reach: faintly, clearly.
BOUNDS = {
    "small": (0.25, 0.125),
    "learned": (0.9, 0.95),
    "mistaken": (0.5, 0.35),
    "apart": (0.8, 0.875),
}


def class_verdict(
    clusters: Sequence[Mapping[str, Any]], silhouette: float | None
) -> dict[str, Any]:
    """The answer for one class, with the numbers that it rests on.

    clusters  from the largest down: `size` of each, and its `accuracy` by an early model
    """
    block = [cluster for cluster in clusters[1:] if cluster["size"]]
    size = sum(cluster["size"] for cluster in block)
    if size < SMALLEST_BLOCK or silhouette is None:
        return {"verdict": NONE, "strength": None, "block": size}
    facts = {
        "small": size / (size + clusters[0]["size"]),
        "learned": clusters[0]["accuracy"],
        "mistaken": sum(cluster["accuracy"] * cluster["size"] for cluster in block) / size,
        "apart": silhouette,
    }
    strength = min(
        (facts[name] - faint) / (clear - faint) for name, (faint, clear) in BOUNDS.items()
    )
    return {"verdict": word(strength), "strength": strength, "block": size, **facts}


def word(strength: float | None) -> str:
    """
    >>> word(1.2), word(0.4), word(-3.0), word(None)
    ('shortcut found', 'weak evidence', 'none found', 'none found')
    """
    if strength is None or strength < 0:
        return NONE
    return FOUND if strength >= 1 else WEAK


def overall(classes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The answer for all classes together.

    >>> overall({"cat": {"strength": 1.5}, "dog": {"strength": 1.1}, "cow": {"strength": None}})
    {'overall': 'shortcut found', 'strength': 1.1}
    >>> overall({"cat": {"strength": 1.5}, "dog": {"strength": -2.0}})
    {'overall': 'weak evidence', 'strength': -2.0}
    """
    strengths = sorted(s for one in classes.values() if (s := one["strength"]) is not None)
    second = strengths[-2] if len(strengths) > 1 else None
    said = word(second)
    if said == NONE and FOUND in map(word, strengths):
        said = WEAK
    return {"overall": said, "strength": second}


def strongest(looks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of the answers at several epochs the strongest; the last one given wins a tie."""

    def rank(look: Mapping[str, Any]) -> tuple[int, float]:
        strength = look["strength"]
        least = float("-inf")
        return (NONE, WEAK, FOUND).index(look["overall"]), least if strength is None else strength

    return max((dict(look) for look in reversed(looks)), key=rank)
