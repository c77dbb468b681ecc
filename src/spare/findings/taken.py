"""Clusters that are taken, nearly whole, for one other class, and what they share with it.

Natural shortcuts seldom fall apart as planted ones do: frogs on leaves shade into other frogs. But
nearly all of one cluster may be taken for one and the same class of many, and look like the
majority of that class in something simple, such as color or sharpness, in which it differs from
the rest of its own class. That is evidence with a direction. A class that is learned a little later
than another is taken for it too, but not for long: at the last look most of the cluster must still
be mistaken. With two classes there is no other class to be taken for, and nothing follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from spare.records.record import ClassGroups, Cluster, Likeness, TakenBlock

if TYPE_CHECKING:
    from spare.groups.blocks import Block
    from spare.groups.result import Groups

#: Share of a cluster that is taken for the same other class, and the most that is right: when the
#: class was clearest, and at the last look.
TAKEN, RIGHT, STILL_RIGHT = 0.8, 0.1, 0.5
#: A cluster of fewer examples says nothing, and one of more than this share of its class says that
#: the class is not learned yet: digits without a shortcut have such clusters of 40 % and more.
FEWEST, MOST = 20, 0.4
#: Two means differ from so many standard deviations of all pictures on.
APART = 0.3
#: Keeps statistics that are nearly the same from ruling the discriminant, in squared deviations.
RIDGE = 1e-3


def taken_blocks(
    groups: Groups,
    described: Mapping[str, ClassGroups],
    class_names: Sequence[str],
    statistics: Mapping[str, np.ndarray],
) -> dict[str, TakenBlock]:
    """By class, its largest cluster that is taken for another class as a whole and is like it.

    Parameters
    ----------
    described
        The groups of each class, with what an early model says of them.
    statistics
        Numbers measured in every training picture, by name.
    """
    if len(class_names) < 3 or not statistics:
        return {}
    majorities = {class_names[c]: evidence.first_id for c, evidence in groups.evidence.items()}
    found: dict[str, TakenBlock] = {}
    for label, evidence in groups.evidence.items():
        name = class_names[label]
        for number, cluster in enumerate(described[name].get("clusters", [])[1:], start=1):
            other = cluster["mistaken_for"]
            if other is None or not _is_taken(cluster, sum(evidence.sizes)):
                continue
            looks = described[name].get("by_epoch", [])
            if looks and (looks[-1]["accuracy"][number] or 0.0) > STILL_RIGHT:
                continue
            inside = groups.ids == evidence.first_id + number
            rest = (groups.labels == label) & ~inside
            alike = likenesses(inside, rest, groups.ids == majorities[other], statistics)
            if alike and (name not in found or cluster["size"] > found[name]["size"]):
                found[name] = {
                    "cluster": number + 1,
                    "size": cluster["size"],
                    "of": sum(evidence.sizes),
                    "taken_for": other,
                    "share": cluster["mistaken_share"],
                    "alike": alike,
                }
    return found


def _is_taken(cluster: Cluster, total: int) -> bool:
    return (
        cluster["mistaken_share"] >= TAKEN
        and (cluster["accuracy"] or 0.0) <= RIGHT
        and FEWEST <= cluster["size"] <= MOST * total
    )


def likenesses(
    inside: np.ndarray, rest: np.ndarray, other: np.ndarray, statistics: Mapping[str, np.ndarray]
) -> list[Likeness]:
    """In what these examples differ from the rest of their class as the other class does.

    The most different first.

    >>> masks = np.eye(3, dtype=bool).repeat(2, axis=1)
    >>> sharp = {"sharpness": np.array([1.0, 1.2, 3.0, 3.2, 1.1, 1.3])}
    >>> [(like["what"], like["more"]) for like in likenesses(*masks, sharp)]
    [('sharpness', False)]
    >>> likenesses(masks[0], masks[2], masks[1], sharp)
    []
    """
    found: list[Likeness] = []
    for what, values in statistics.items():
        known = np.isfinite(values)
        spread = values[known].std() if known.any() else 0.0
        parts = [values[rows & known] for rows in (inside, rest, other)]
        if spread == 0 or not all(map(len, parts)):
            continue
        means = [part.mean() for part in parts]
        own, theirs = (means[0] - means[1]) / spread, (means[2] - means[1]) / spread
        if min(abs(own), abs(theirs)) >= APART and own * theirs > 0:
            found.append({"what": what, "more": bool(own > 0), "by": float(abs(own))})
    return sorted(found, key=lambda like: -like["by"])


def resemblances(
    groups: Groups, blocks: Mapping[Any, Block], statistics: Mapping[str, np.ndarray]
) -> dict[Any, float | None]:
    """By class, how much its block looks like the class that it is taken for."""
    found: dict[Any, float | None] = {}
    majority = groups.in_majority()
    for label, block in blocks.items():
        own = groups.labels == label
        other = majority & (groups.labels == block.taken_for)
        found[label] = resemblance(own & ~majority, own & majority, other, statistics)
    return found


def resemblance(
    inside: np.ndarray, rest: np.ndarray, other: np.ndarray, statistics: Mapping[str, np.ndarray]
) -> float | None:
    """How much these examples look like another class rather than like the rest of their own.

    Along what tells the other class from the rest in the statistics (Fisher's discriminant): the
    chance that one of these is further toward the other class than one of the rest. 0.5 is no
    resemblance, 1 is all of it; None where there is nothing to measure by.

    >>> masks = np.eye(3, dtype=bool).repeat(2, axis=1)
    >>> resemblance(*masks, {"sharpness": np.array([1.0, 1.2, 3.0, 3.2, 1.1, 1.3])})
    1.0
    >>> resemblance(*masks, {"sharpness": np.array([3.0, 3.3, 3.1, 3.2, 1.1, 1.3])})
    0.5
    """
    table = np.stack(list(statistics.values()), axis=1) if statistics else np.empty((0, 0))
    if not table.size or not all(mask.any() for mask in (inside, rest, other)):
        return None
    spread = table.std(0)
    known = np.isfinite(spread) & (spread > 0)
    if not known.any():
        return None
    table = (table[:, known] - table[:, known].mean(0)) / spread[known]
    apart = table[other].mean(0) - table[rest].mean(0)
    within = sum(np.cov(table[mask].T, bias=True) for mask in (rest, other)) / 2
    within = np.atleast_2d(within) + RIDGE * np.eye(len(apart))
    along = table @ np.linalg.solve(within, apart)
    ranks = rankdata(np.concatenate([along[inside], along[rest]]))
    count, others = int(inside.sum()), int(rest.sum())
    return float((ranks[:count].sum() / count - (count + 1) / 2) / others)
