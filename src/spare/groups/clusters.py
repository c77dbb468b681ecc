"""SPARE's group inference: cluster each class's early outputs.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024. For every class c:

    for k = 2..k_max:  k-means on the outputs of class c;  score = mean silhouette
    keep the k with the largest score s_c
    power_c = 1 if s_c >= 0.9 else 2
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning
from spare.groups.arrays import checked_points, class_labels, one_of, rows_by_class
from spare.groups.blocks import blocks_of, powers_of
from spare.groups.clusterers import DEFAULT
from spare.groups.one_class import cluster_class, resolved
from spare.groups.result import ClassClusters, Groups, groups_from_clusters
from spare.groups.weights import Power, power_of
from spare.limits import Range, check_seed, whole_number
from spare.text import shown

#: At this silhouette and above, clusters are taken to be the groups (power 1); below, power 2.
CLEAR_SILHOUETTE = 0.9
LOW_POWER, HIGH_POWER = 1.0, 2.0
#: In place of a power: what the evidence of each class allows (groups/blocks.py).
EVIDENCE = "evidence"
#: A class of whose largest cluster a smaller share is predicted right is unknown to the model.
LEARNED = 0.5
#: A cluster that gets more than this share of its class's samples is worth a warning.
LARGE_SHARE = 0.95


def infer_groups(
    outputs: Any,
    labels: Any,
    *,
    k: int | None = None,
    k_max: int = 5,
    power: Power | str | None = None,
    clusterer: Any = DEFAULT,
    seed: int = 0,
    map: Callable[..., Iterable[ClassClusters]] = map,
) -> Groups:
    """What `spare.infer_groups` does, in this process."""
    points = checked_points(outputs)
    class_of = class_labels(labels, len(points))
    seed = check_seed(seed)
    if k is not None:
        k = whole_number("k", k, Range(1))
    else:  # for one cluster per class there is k=1
        k_max = whole_number("k_max", k_max, Range(2))
    resolved(clusterer, seed)  # a clusterer that cannot be used is refused before any work
    rows = rows_by_class(class_of)
    given = {}
    if isinstance(power, str):
        one_of("power", power, (EVIDENCE,))
        _check_one_column_per_class(points, rows)
    elif power is not None:
        given = {label: power_of(power, label) for label in rows}
    if not callable(map):
        raise InputError(f"map is a function like Python's own map, not {shown(map)}.")
    work = partial(cluster_class, k=k, k_max=k_max, clusterer=clusterer, seed=seed)
    mapped = map(work, (points[members] for members in rows.values()))
    results = list(mapped) if isinstance(mapped, Iterable) else []
    if [type(result) for result in results] != [ClassClusters] * len(rows):
        raise InputError(
            "map is a function like Python's own map: it returns what the function it is given "
            "returns, once for every class."
        )
    clusters = dict(zip(rows, results, strict=True))
    if isinstance(power, str):
        given = evidence_powers(clusters, points.argmax(1), class_of)
    powers = {
        label: given[label] if given else silhouette_power(clustered)
        for label, clustered in clusters.items()
    }
    groups = groups_from_clusters(clusters, class_of, powers=powers, width=points.shape[1])
    for concern in concerns(groups):
        warnings.warn(concern, SpareWarning, stacklevel=2)
    return groups


def silhouette_power(clustered: ClassClusters) -> float:
    """The paper's rule: clusters that are not clear may hide a minority, so small ones get more."""
    score = clustered.silhouette
    return LOW_POWER if score is None or score >= CLEAR_SILHOUETTE else HIGH_POWER


def evidence_powers(
    clusters: Mapping[Any, ClassClusters], predicted: np.ndarray, labels: np.ndarray
) -> dict[Any, float]:
    """The power that each class's evidence allows; 0 for all where it says nothing.

    Parameters
    ----------
    predicted
        What each example is taken for: the number of a class, in the order of the sorted labels.
    """
    names, codes = np.unique(labels, return_inverse=True)
    blocks = blocks_of(
        {code: clusters[name] for code, name in enumerate(names.tolist())}, codes, predicted
    )
    unknown_to_it = [shown(names[c].item()) for c, b in blocks.items() if b.learned < LEARNED]
    if unknown_to_it:
        warnings.warn(
            f"most of the largest cluster of class {', '.join(unknown_to_it)} is taken for "
            f"another class: either the model has learned too little, or the columns of the "
            f"outputs are not in the order of the sorted labels.",
            SpareWarning,
            stacklevel=4,
        )
    return {names[code].item(): power for code, power in powers_of(blocks).items()}


def _check_one_column_per_class(points: np.ndarray, rows: Mapping[Any, np.ndarray]) -> None:
    if points.shape[1] != len(rows):
        raise InputError(
            f"power='evidence' compares what outputs predict with the labels, so it needs one "
            f"column per class, not {points.shape[1]} for {len(rows)}."
        )


def concerns(groups: Groups, class_names: Sequence[str] | None = None) -> list[str]:
    """What a user should know of these clusters, one sentence each."""
    sentences = []
    for label, evidence in groups.evidence.items():
        name = shown(label if class_names is None else class_names[label])
        if evidence.note:
            sentences.append(f"class {name}: {evidence.note}.")
        largest = int(np.argmax(evidence.shares))
        # A majority naturally has that much.
        if largest > 0 and evidence.shares[largest] > LARGE_SHARE:
            sentences.append(
                f"class {name}: the cluster of {evidence.sizes[largest]} examples would get "
                f"{evidence.shares[largest]:.1%} of the class's samples at power "
                f"{evidence.power:g}; a lower power spreads them."
            )
    return sentences
