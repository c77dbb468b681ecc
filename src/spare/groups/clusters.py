"""SPARE's group inference: cluster each class's early outputs.

Yang, Gan, Karolina Dziugaite, Mirzasoleiman: Identifying Spurious Biases Early in Training through
the Lens of Simplicity Bias, AISTATS 2024. For every class c:

    for k = 2..k_max:  k-means on the outputs of class c;  score = mean silhouette
    keep the k with the largest score s_c
    power_c = 1 if s_c >= 0.9 else 2
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning, check_seed
from spare.groups.result import ClassEvidence, Groups, checked_outputs
from spare.groups.silhouettes import silhouettes
from spare.groups.weights import Power, class_labels, power_of, shares

#: At this silhouette and above, clusters are taken to be the groups (power 1); below, power 2.
CLEAR_SILHOUETTE = 0.9
LOW_POWER, HIGH_POWER = 1.0, 2.0
#: A cluster that gets more than this share of its class's draws is worth a warning.
LARGE_SHARE = 0.95


def infer_groups(
    outputs: Any,
    labels: Any,
    *,
    k: int | None = None,
    k_max: int = 5,
    power: Power | None = None,
    clusterer: Any = None,
    seed: int = 0,
) -> Groups:
    """Cluster the outputs of each class; small clusters are where the shortcut does not hold.

    outputs    (n, d) softmax outputs, logits or features, as given; NumPy or torch. Take them in
               eval mode, on un-augmented inputs, after one or two epochs.
    labels     n class labels: integers (gaps are fine) or strings.
    k, k_max   a fixed number of clusters, or the largest one tried.
    power      overrides the sampling power: one number, or a mapping from class label to number.
    clusterer  anything with scikit-learn's `fit_predict`; its `n_clusters` (or `n_components`) is
               set to each k, and one that has neither is run once and its own k is used.

    >>> import numpy as np
    >>> outputs = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 2 + [[0.2, 0.8]] * 5 + [[0.8, 0.2]])
    >>> groups = infer_groups(outputs, ["cat"] * 8 + ["dog"] * 6)
    >>> groups.ids.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3]
    >>> groups.evidence["cat"].sizes, groups.evidence["dog"].sizes
    ([6, 2], [5, 1])
    """
    points = checked_outputs(outputs)
    wanted = class_labels(labels, len(points))
    check_seed(seed)
    if k is not None and k < 1:
        raise InputError(f"k is at least 1, not {k}.")
    if k is None and k_max < 2:
        raise InputError(f"k_max is at least 2, not {k_max}; for one cluster a class use k=1.")

    import sklearn.cluster  # noqa: F401  (its thread pools must be loaded to be limited)
    from threadpoolctl import ThreadpoolController

    threads = ThreadpoolController()
    ids = np.empty(len(points), dtype=np.int64)
    evidence: dict[Any, ClassEvidence] = {}
    centres: list[np.ndarray] = []
    for label in np.unique(wanted).tolist():
        rows = np.flatnonzero(wanted == label)
        # k-means on a few columns is several times slower with many threads fighting over them.
        with threads.limit(limits=1):
            codes, scores, errors, note = _cluster_class(points[rows], k, k_max, clusterer, seed)
        codes, sizes = _largest_first(codes)
        found = len(sizes)
        score = scores.get(found)
        if power is None:
            clear = score is None or score >= CLEAR_SILHOUETTE
            used = LOW_POWER if clear else HIGH_POWER
        else:
            used = power_of(power, label)
        first = len(centres)
        shared = shares(sizes, used)
        evidence[label] = ClassEvidence(
            k=found,
            silhouette=score,
            scores=scores,
            sizes=sizes.tolist(),
            power=used,
            ids=list(range(first, first + found)),
            shares=shared.tolist(),
            errors=errors,
            note=note,
        )
        ids[rows] = first + codes
        centres += [points[rows[codes == c]].mean(0) for c in range(found)]
    groups = Groups(ids=ids, evidence=evidence, labels=wanted, centres=np.stack(centres))
    for concern in concerns(groups):
        warnings.warn(concern, SpareWarning, stacklevel=2)
    return groups


def concerns(groups: Groups, class_names: Sequence[str] | None = None) -> list[str]:
    """What a user should know of these clusters, a sentence each."""
    found = []
    for label, seen in groups.evidence.items():
        name = repr(label if class_names is None else class_names[label])
        if seen.note:
            found.append(f"class {name}: {seen.note}.")
        largest = int(np.argmax(seen.shares))
        if seen.k > 1 and seen.shares[largest] > LARGE_SHARE:
            found.append(
                f"class {name}: the cluster of {seen.sizes[largest]} examples would get "
                f"{seen.shares[largest]:.1%} of the class's draws at power {seen.power:g}; a lower "
                f"power spreads them."
            )
    return found


def _cluster_class(
    points: np.ndarray, k: int | None, k_max: int, clusterer: Any, seed: int
) -> tuple[np.ndarray, dict[int, float], dict[int, float], str]:
    """Codes of the best clustering, score and its error for every k tried, and what to say."""
    one = np.zeros(len(points), dtype=np.int64)
    if len(points) == 1:
        return one, {}, {}, "only one example: one cluster"
    if (points == points[0]).all():
        return one, {}, {}, "all outputs are identical: one cluster"
    if k == 1:
        return one, {}, {}, ""

    wanted = [k] if k is not None else list(range(2, k_max + 1))
    distinct = len(np.unique(points, axis=0)) if len(points) < 10_000 else _distinct(points, wanted)
    possible = [j for j in wanted if j <= distinct]
    note = ""
    if not possible:
        possible = [distinct]
        note = f"only {distinct} distinct outputs, so {distinct} clusters instead of {wanted[0]}"

    labelings = _labelings(points, possible, clusterer, seed)
    scorable = [codes for codes in labelings if 2 <= codes.max() + 1 <= len(points) - 1]
    scores: dict[int, float] = {}
    errors: dict[int, float] = {}
    best = labelings[0]
    for codes, score in zip(scorable, silhouettes(points, scorable, seed=seed), strict=True):
        found = int(codes.max()) + 1
        if not scores or score.mean > max(scores.values()):
            best = codes
        scores[found], errors[found] = score.mean, score.error
    return best, scores, errors, note


def _distinct(points: np.ndarray, wanted: list[int]) -> int:
    """Distinct rows, looking no further than is needed to allow the largest k."""
    for limit in (10_000, len(points)):
        count = len(np.unique(points[:limit], axis=0))
        if count >= max(wanted):
            break
    return count


def _labelings(points: np.ndarray, ks: list[int], clusterer: Any, seed: int) -> list[np.ndarray]:
    """One clustering per k, with codes 0..found-1. Imports scikit-learn only when it is needed."""
    from sklearn.base import clone

    if clusterer is None:
        from sklearn.cluster import KMeans

        clusterer = KMeans(n_init=10, random_state=seed)
    if not hasattr(clusterer, "fit_predict"):
        raise InputError(
            f"a clusterer needs a fit_predict method as scikit-learn's have; "
            f"{type(clusterer).__name__} has none."
        )
    sizes = [name for name in ("n_clusters", "n_components") if hasattr(clusterer, name)]
    found = []
    for k in ks if sizes else [0]:
        estimator = clone(clusterer, safe=False)
        if sizes:
            setattr(estimator, sizes[0], k)
        codes = np.asarray(estimator.fit_predict(points))
        if codes.shape != (len(points),):
            raise InputError(
                f"{type(clusterer).__name__}.fit_predict gave {codes.shape}, not one label for "
                f"each of {len(points)} points."
            )
        found.append(np.unique(codes, return_inverse=True)[1])
    return found


def _largest_first(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.bincount(codes)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[codes], sizes[order]
