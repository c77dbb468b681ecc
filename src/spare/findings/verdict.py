"""Is there a shortcut? A verdict for each class and for all, from how clusters are classified.

A class looks like one with a shortcut when, after a little training, four conditions hold (the
bounds are in `BOUNDS`):

- learned: at least this share of its largest cluster is predicted right;
- small: its other clusters together, the block, are at most this share of the class;
- mistaken: at most this share of the block is predicted right;
- apart: the silhouette of the clusters is at least this.

Hard examples and wrong labels form blocks too, but such a block is partly right, or shades into the
rest. The `strength` of a class says how well it meets all four conditions: 0 at the faint bounds, 1
at the clear ones, measured by the condition that it meets least. The strength of all classes
together is the second highest: one such class alone may be an accident, and a shortcut that leads
from one class to another shows in both. benchmarks/verdict.py measures how strong data without a
shortcut comes out, and so how often the verdict is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from spare.data.task import Task
from spare.findings.describe import cluster_facts
from spare.records.record import ClassVerdict, Cluster, Verdict

if TYPE_CHECKING:
    from spare.methods.method import EarlyOutputs

FOUND, WEAK, NONE = "shortcut found", "weak evidence", "none found"
#: A block of fewer examples says nothing.
SMALLEST_BLOCK = 5
#: What each condition asks for: faintly, clearly.
BOUNDS = {
    "small": (0.25, 0.125),
    "learned": (0.9, 0.95),
    "mistaken": (0.5, 0.35),
    "apart": (0.8, 0.875),
}


class Overall(TypedDict):
    """The verdict on all classes together."""

    overall: str
    strength: float | None


def verdict_of(task: Task, early_outputs: Sequence[EarlyOutputs]) -> Verdict:
    """The strongest verdict of several epochs, each judged by its own clusters."""
    verdicts: list[Verdict] = []
    for early in early_outputs:
        facts = cluster_facts(early.probabilities, early.groups, task.class_names)
        classes = {
            task.class_names[label]: class_verdict(
                [facts[group] for group in evidence.ids], evidence.silhouette
            )
            for label, evidence in early.groups.evidence.items()
        }
        verdicts.append({**overall(classes), "epoch": early.epoch, "classes": classes})
    return strongest(verdicts)


def class_verdict(clusters: Sequence[Cluster], silhouette: float | None) -> ClassVerdict:
    """The verdict on one class, with the numbers behind it.

    Parameters
    ----------
    clusters
        What an early model says of each, the majority first.
    silhouette
        Of these clusters; None where there is only one.
    """
    block = [cluster for cluster in clusters[1:] if cluster["size"]]
    size = sum(cluster["size"] for cluster in block)
    learned = clusters[0]["accuracy"]
    if size < SMALLEST_BLOCK or silhouette is None or learned is None:
        return {"verdict": NONE, "strength": None, "block": size}
    facts = {
        "small": size / (size + clusters[0]["size"]),
        "learned": learned,
        "mistaken": sum((cluster["accuracy"] or 0.0) * cluster["size"] for cluster in block) / size,
        "apart": silhouette,
    }
    strength = min(
        (facts[name] - faint) / (clear - faint) for name, (faint, clear) in BOUNDS.items()
    )
    return {
        "verdict": in_words(strength),
        "strength": strength,
        "block": size,
        "small": facts["small"],
        "learned": facts["learned"],
        "mistaken": facts["mistaken"],
        "apart": facts["apart"],
    }


def in_words(strength: float | None) -> str:
    """The verdict that a strength stands for.

    >>> in_words(1.2), in_words(0.4), in_words(-3.0), in_words(None)
    ('shortcut found', 'weak evidence', 'none found', 'none found')
    """
    if strength is None or strength < 0:
        return NONE
    return FOUND if strength >= 1 else WEAK


def overall(classes: Mapping[str, ClassVerdict]) -> Overall:
    """The verdict on all classes together.

    >>> def of(strength):
    ...     return {"verdict": in_words(strength), "strength": strength, "block": 9}
    >>> overall({"cat": of(1.5), "dog": of(1.1), "cow": of(None)})
    {'overall': 'shortcut found', 'strength': 1.1}
    >>> overall({"cat": of(1.5), "dog": of(-2.0)})
    {'overall': 'weak evidence', 'strength': -2.0}
    """
    strengths = sorted(s for verdict in classes.values() if (s := verdict["strength"]) is not None)
    second = strengths[-2] if len(strengths) > 1 else None
    verdict = in_words(second)
    if verdict == NONE and FOUND in map(in_words, strengths):
        verdict = WEAK
    return {"overall": verdict, "strength": second}


def strongest(verdicts: Sequence[Verdict]) -> Verdict:
    """The strongest of the verdicts at several epochs; of equals, the last."""

    def rank(verdict: Verdict) -> tuple[int, float]:
        strength = verdict["strength"]
        return (
            (NONE, WEAK, FOUND).index(verdict["overall"]),
            float("-inf") if strength is None else strength,
        )

    return max(reversed(verdicts), key=rank)
