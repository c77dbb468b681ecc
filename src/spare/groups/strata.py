"""GEORGE's group inference: cluster each class's reduced features, and split off what is hard.

Sohoni, Dunnmon, Angus, Gu, Ré: No Subclass Left Behind: Fine-Grained Robustness in Coarse-Grained
Classification Problems, NeurIPS 2020. For every class, with the features of a trained model:

    reduce the scaled features to 2 dimensions, or project them on the normal of the boundary
    (reduction.py)
    for k = 2..strata_max:  Gaussian mixture;  score = mean over clusters of their mean silhouette
    keep the k with the largest score (mixtures.py)
    overcluster: split every cluster in 5, and keep the pieces that are hard (overclustering.py)
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning
from spare.groups.arrays import checked_outputs, class_labels, rows_by_class
from spare.groups.mixtures import PointMap, best_mixture, one_cluster
from spare.groups.one_class import thread_pools
from spare.groups.overclustering import overclustered
from spare.groups.reduction import available_reduction, preparation, reduced
from spare.groups.result import (
    ClassClusters,
    Groups,
    groups_from_clusters,
    largest_first,
)
from spare.limits import Range, check_seed, whole_number
from spare.text import shown


def infer_strata(
    features: Any,
    labels: Any,
    losses: Any = None,
    *,
    val: tuple[Any, Any] | None = None,
    scaling: str = "unit",
    reduction: str = "auto",
    normal: Any = None,
    strata_max: int = 10,
    overcluster: bool = True,
    seed: int = 0,
) -> Groups:
    """Cluster the features of each class of a trained model.

    `assign` of what is returned takes features of held-out examples. UMAP places new examples
    together and approximately, so with it the same example may land in another cluster when others
    are assigned along with it.

    Parameters
    ----------
    features : array or tensor of shape (examples, features)
        Of the layer before the last, in eval mode, from inputs that are not augmented.
    labels : array of shape (examples,)
        Class labels: integers (gaps are fine) or strings.
    losses : array of shape (examples,), optional
        Of the same model; needed to overcluster.
    val : pair of features and labels, optional
        Of validation examples, so that no piece stands alone that is hardly found there.
    scaling : str
        "unit" (every example has length 1, so that only directions count) or "standard" (every
        feature has mean 0 and deviation 1).
    reduction : str
        "umap" or "pca" (2 dimensions), "none", "boundary" (1 dimension: the projection of the
        features, unscaled, on `normal`; two classes only), or "auto": "umap" if umap-learn is
        installed, else "pca".
    normal : array of shape (features,), optional
        Of the decision boundary: the head's weights for the second class minus the first's.

    Examples
    --------
    >>> features = [[0.1, 1.0], [0.2, 1.1], [0.1, 0.9], [0.3, 2.0], [5.0, 0.2], [5.1, 0.1]]
    >>> strata = infer_strata(features, ["cat"] * 6, reduction="pca", overcluster=False)
    >>> strata.ids.tolist(), strata.assign([[4.9, 0.1]], ["cat"]).tolist()
    ([0, 0, 0, 0, 1, 1], [1])
    """
    points = checked_outputs(features, "features")
    class_of = class_labels(labels, len(points))
    seed = check_seed(seed)
    strata_max = whole_number("strata_max", strata_max, Range(2))
    hardness = _checked_losses(losses, len(points)) if overcluster else np.zeros(len(points))
    rows_of = rows_by_class(class_of)
    kind = available_reduction(reduction)
    width = points.shape[1]
    prepare = preparation(kind, scaling, points, list(rows_of), normal)
    points = prepare(points)
    val_points = points[:0]
    val_rows_of: dict[Any, np.ndarray] = {}
    if val is not None:
        val_points, val_rows_of = _checked_val(val, width)
        val_points = prepare(val_points)
    clusters = {}
    for label, rows in rows_of.items():
        with thread_pools().limit(limits=1):
            clustered = _class_strata(
                points[rows],
                hardness[rows],
                None if val is None else val_points[val_rows_of.get(label, [])],
                prepare,
                kind,
                strata_max,
                overcluster,
                seed,
            )
        if clustered.note and not clustered.codes.any():
            warnings.warn(f"class {shown(label)}: {clustered.note}.", SpareWarning, stacklevel=2)
        clusters[label] = clustered
    return groups_from_clusters(clusters, class_of, width=width)


def _checked_val(val: Any, width: int) -> tuple[np.ndarray, dict[Any, np.ndarray]]:
    """The features of validation examples, and the rows of each class."""
    if not isinstance(val, tuple | list) or len(val) != 2:
        raise InputError(f"val is a pair of features and labels, not {shown(val)}.")
    points = checked_outputs(val[0], "features of val")
    if points.shape[1] != width:
        raise InputError(
            f"features of val have {points.shape[1]} values per example, and others {width}: take "
            f"them from the same model."
        )
    return points, rows_by_class(class_labels(val[1], len(points)))


def _checked_losses(losses: Any, n: int) -> np.ndarray:
    if losses is None:
        raise InputError(
            "overclustering needs the loss of every example: give losses, or overcluster=False."
        )
    given = checked_outputs(losses, "losses")
    if given.shape != (n, 1):
        raise InputError(f"losses need one value per example: {given.shape} for {n} examples.")
    return given[:, 0]


def _class_strata(
    points: np.ndarray,
    losses: np.ndarray,
    val_points: np.ndarray | None,
    prepare: PointMap,
    kind: str,
    strata_max: int,
    overcluster: bool,
    seed: int,
) -> ClassClusters:
    """The clusters of one class, from prepared features; largest first."""
    note = ""
    if len(points) < 3:
        note = f"only {len(points)} example{'s' * (len(points) > 1)}: one cluster"
    elif (points == points[0]).all():
        note = "all features are identical: one cluster"
    if note:
        return ClassClusters(one_cluster(points), note=note, assign=one_cluster)

    reduced_points, reduce = reduced(points, kind, seed)
    cluster, scores = best_mixture(reduced_points, strata_max, seed)
    groups = np.arange(int(cluster(reduced_points).max()) + 1)
    if overcluster and len(groups) > 1:
        reduced_val = None
        if val_points is not None:
            reduced_val = reduce(val_points) if len(val_points) else reduced_points[:0]
        cluster, groups, alone = overclustered(reduced_points, losses, reduced_val, cluster, seed)
        if alone:
            note = f"pieces of clusters that stand on their own: {alone}"
    codes = cluster(reduced_points)
    ranks = largest_first(groups[codes])[groups]
    return ClassClusters(
        ranks[codes],
        scores,
        note=note,
        assign=lambda features: ranks[cluster(reduce(prepare(features)))],
    )
