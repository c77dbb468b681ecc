"""Has a class fallen apart? The evidence of its block: the examples outside its largest cluster.

A shortcut's victims are taken for another class together, far from the rest of their own class.
Hard examples are partly right, and shade into the rest; and where half of a class is taken for
another, the model has learned neither. As long as a network is still learning its classes, some of
the victims lie among the rest, mistaken too. So the evidence is one number, the clarity:

    clarity = silhouette - share that is predicted right - 3 max(0, share of the class - 1/4)
              - max(0, 9/10 - share of the class's mistakes that the block holds)

A model that did not see the examples is wrong about nearly all hard ones, so that any class has a
clear block. But hard examples lie just beyond the border, as the tail of their class, and a
shortcut's victims lie far beyond it. So of such models a block has to be deep as well: how far
beyond the border a class's mistakes lie, over how far on the right side the rest lies, and whether
that is unusual for so many of them (`depths`).

Predictions lean to one class or another from epoch to epoch, and then a block is swollen in one
class and lost in the next. `class_offsets` takes the leaning out: added to the logits, they make
every class predicted as often as it occurs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from spare.groups.arrays import rows_by_class
from spare.groups.points import Points
from spare.groups.result import ClassClusters, Groups

#: From this clarity on a class has fallen apart, and looking further would not help.
CLEAR = 0.95
#: With this clarity a block gets the mass of a group, below the other nothing but its own.
SURE, DOUBTFUL = 0.8, 0.5
#: A block beyond this share of its class is too large to be victims, and how fast doubt grows.
LARGE, DOUBT = 0.25, 3.0
#: A block that holds less of its class's mistakes leaves victims among the rest.
MOST_MISTAKES = 0.9
#: From this depth on mistakes of models that did not see the example are a shortcut's victims.
DEEP = 0.24
#: How many times as deep as usual for so many mistakes, for two classes together (their product).
UNUSUAL = 1.5
#: A block of fewer examples says nothing.
SMALLEST_BLOCK = 5
#: Offsets have converged when the last step changed none by more.
CONVERGED = 1e-4
MOST_STEPS = 200
#: Logits that are exponentiated at once.
AT_ONCE = 1 << 23


@dataclass(frozen=True)
class Block:
    """How an early model classifies the examples outside the largest cluster of a class.

    Attributes
    ----------
    size : int
    share : float
        Of the class that the block is.
    right : float
        Share of the block that is predicted right.
    learned : float
        Share of the rest of the class that is predicted right.
    silhouette : float
        Of the class's clusters.
    taken_for : object
        The class that most of the block's mistakes are; None where there is no mistake.
    taken_share : float
        Share of the block that is taken for that class.
    held : float
        Share of the class's mistakes that lie in the block; 1 where there are none.
    depth : float
        Of the class's mistakes, by models that did not see them; None where a model has seen all.

    Examples
    --------
    >>> clear = Block(40, 0.04, right=0.0, learned=1.0, silhouette=0.99)
    >>> clear.clarity, clear.power
    (0.99, 1.0)
    >>> hard = Block(400, 0.2, right=0.45, learned=1.0, silhouette=0.7)
    >>> half = Block(40, 0.04, right=0.0, learned=0.96, silhouette=0.99, held=0.5)
    >>> round(hard.clarity, 2), round(half.clarity, 2)
    (0.25, 0.59)
    >>> [Block(40, 0.04, 0.0, 1.0, 0.99, depth=depth).power for depth in (0.2, 0.3)]
    [0.0, 1.0]
    """

    size: int
    share: float
    right: float
    learned: float
    silhouette: float
    taken_for: Any = None
    taken_share: float = 0.0
    held: float = 1.0
    depth: float | None = None

    @property
    def clarity(self) -> float:
        """How clearly the class has fallen apart: 1 is most; 0 for a block too small to say."""
        if self.size < SMALLEST_BLOCK:
            return 0.0
        large = DOUBT * max(0.0, self.share - LARGE)
        return self.silhouette - self.right - large - max(0.0, MOST_MISTAKES - self.held)

    @property
    def power(self) -> float:
        """The sampling power that the evidence allows: 1 where it is clear, 0 where it is not."""
        if self.depth is not None and self.depth < DEEP:
            return 0.0
        return float(np.clip((self.clarity - DOUBTFUL) / (SURE - DOUBTFUL), 0, 1))


def blocks_of(
    clusters: Mapping[Any, ClassClusters], labels: np.ndarray, predicted: np.ndarray
) -> dict[Any, Block]:
    """The block of every class.

    Parameters
    ----------
    clusters
        By class, how its examples were clustered.
    labels, predicted
        Of every example: its class, and what an early model takes it for.
    """
    blocks = {}
    for label, rows in rows_by_class(labels).items():
        inside = clusters[label].codes > 0
        right = predicted[rows] == label
        mistakes = predicted[rows[inside & ~right]]
        names, counts = np.unique(mistakes, return_counts=True)
        size = int(inside.sum())
        blocks[label] = Block(
            size=size,
            share=size / len(rows),
            right=float(right[inside].mean()) if size else 1.0,
            learned=float(right[~inside].mean()),
            silhouette=clusters[label].silhouette or 0.0,
            taken_for=names[counts.argmax()].item() if len(names) else None,
            taken_share=int(counts.max()) / size if len(names) else 0.0,
            held=len(mistakes) / int((~right).sum()) if not right.all() else 1.0,
        )
    return blocks


def believed(blocks: Collection[Block]) -> bool:
    """Whether all classes together say anything: one block that is sure, or two in some doubt.

    A shortcut that leads from one class to another shows in both; one doubtful block alone is what
    hard examples give.

    >>> sure, doubtful = (Block(40, 0.04, right, 1.0, 0.99) for right in (0.1, 0.4))
    >>> believed([sure]), believed([doubtful]), believed([doubtful, doubtful])
    (True, False, True)
    """
    depths = [block.depth for block in blocks if block.depth is not None]
    if depths and sum(depth >= DEEP for depth in depths) < 2:
        return False
    clarities = [block.clarity for block in blocks]
    return max(clarities, default=0.0) >= SURE or sum(c > DOUBTFUL for c in clarities) > 1


def powers_of(blocks: Mapping[Any, Block]) -> dict[Any, float]:
    """The sampling power that the evidence allows each class; 0 for all where it says nothing."""
    some = believed(blocks.values())
    return {label: block.power if some else 0.0 for label, block in blocks.items()}


def depths(logits: np.ndarray, labels: np.ndarray) -> dict[Any, float]:
    """How deep the mistakes of every class lie, as far as that is unusual; 0 where there are none.

    Where two classes overlap, their tails are deep too. So the two most unusual depths have to be
    unusual enough together; otherwise all are lowered below the bound.

    Parameters
    ----------
    logits : array of shape (examples, classes)
        Of models that did not see the examples.
    labels : array of int, shape (examples,)
        Numbers of the columns.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 4.0]])
    >>> depths(logits, np.array([0, 0, 0, 1]))
    {0: 0.25, 1: 0.0}
    """
    others = logits.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    margins = logits[np.arange(len(labels)), labels] - others.max(1)
    found, unusual = {}, [0.0, 0.0]
    for label, rows in rows_by_class(labels).items():
        wrong = margins[rows] < 0
        some = wrong.any() and not wrong.all()
        beyond, within = -margins[rows[wrong]], margins[rows[~wrong]]
        found[label] = float(beyond.mean() / within.mean()) if some and within.any() else 0.0
        if found[label] >= DEEP:
            unusual.append(found[label] / usual_depth(float(wrong.mean())))
    first, second = sorted(unusual)[-2:]
    most = DEEP * math.sqrt(first * second / UNUSUAL)  # 0 if fewer than two are deep
    if not 0 < most < DEEP:
        return found
    return {label: min(depth, most) for label, depth in found.items()}


def usual_depth(share: float) -> float:
    """The depth of the tail of a normal distribution that has this share beyond the border.

    >>> [round(usual_depth(share), 2) for share in (0.01, 0.05, 0.1)]
    [0.14, 0.24, 0.32]
    """
    normal = NormalDist()
    border = -normal.inv_cdf(share)
    density = normal.pdf(border)
    return (density / share - border) / (border + density / (1 - share))


def clusters_of(groups: Groups) -> dict[Any, ClassClusters]:
    """The clusters of every class that groups were made from, to be put together anew."""
    rows = rows_by_class(groups.labels)
    return {
        label: ClassClusters(
            groups.ids[rows[label]] - evidence.first_id,
            evidence.scores,
            evidence.errors,
            evidence.note,
            groups.assigners.get(label),
        )
        for label, evidence in groups.evidence.items()
    }


def class_offsets(logits: np.ndarray | Points, labels: np.ndarray) -> np.ndarray:
    """What to add to each class's logit so that classes are predicted as often as they occur.

    Parameters
    ----------
    logits : array of shape (examples, classes)
        Or `Points`, of which only some are here.
    labels : array of int, shape (examples,)
        Of all examples: numbers of the columns.

    Examples
    --------
    >>> logits = np.array([[2.0, 0.0], [2.5, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> offsets = class_offsets(logits, np.array([0, 0, 1, 1]))
    >>> (logits + offsets).argmax(1).tolist()
    [0, 0, 1, 1]
    """
    points = logits if isinstance(logits, Points) else Points(logits)
    occurs = np.bincount(labels, minlength=points.width) / len(labels)
    present = occurs > 0  # of a class without examples nothing is known: its logit stays
    offsets = np.zeros(points.width)
    at_once = max(1, AT_ONCE // points.width)
    for _ in range(MOST_STEPS):
        sums = np.zeros(points.width)
        for start in range(0, len(points), at_once):
            shifted = points.take(slice(start, start + at_once)) + offsets
            shifted = np.exp(shifted - shifted.max(1, keepdims=True))
            sums += (shifted / shifted.sum(1, keepdims=True)).sum(0)
        predicted = points.total(sums)[present] / len(labels)
        step = np.log(occurs[present] / np.maximum(predicted, np.finfo(np.float64).tiny))
        offsets[present] += step
        if np.abs(step).max() < CONVERGED:
            break
    return np.asarray(offsets - offsets.mean())
