"""GEORGE's group inference: cluster each class's reduced features, and split off what is hard.

Sohoni, Dunnmon, Angus, Gu, Ré: No Subclass Left Behind: Fine-Grained Robustness in Coarse-Grained
Classification Problems, NeurIPS 2020. For every class, with the features of a trained model:

    reduce the scaled features to 2 dimensions (or project them on the normal of the boundary)
    for k = 2..strata_max:  Gaussian mixture;  score = mean over clusters of their mean silhouette
    keep the k with the largest score
    overcluster: split every cluster in 5; a piece stands on its own if its mean silhouette is above
    0 and above that of the same points before, its mean loss is at least its cluster's, and it has
    enough examples; the other pieces go back into their cluster
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning, check_seed, unknown
from spare.groups.result import ClassEvidence, Groups, checked_outputs
from spare.groups.silhouettes import (
    ANCHORS,
    EXACT_LIMIT,
    point_silhouettes,
    silhouettes,
    stratified,
)
from spare.groups.weights import class_labels, shares

SCALINGS = ("standard", "unit")
REDUCTIONS = ("auto", "umap", "pca", "none", "boundary")
DIMENSIONS = 2
NEIGHBOURS = 10
PIECES = 5
#: A piece has at least so many examples in training (or this share of its class, if that is more),
#: and as many in validation.
SMALLEST_PIECE = 25
SMALLEST_SHARE = 0.005

#: Points in; their coordinates, or the number of each one's cluster, out.
Points = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Strata(Groups):
    """Groups that others can be assigned to by the reductions and mixtures that made them."""

    #: By class: features (as `prepare` leaves them) to the place of each one's group.
    places: Mapping[Any, Points] = field(default_factory=dict, repr=False)
    prepare: Points = field(default=lambda points: points, repr=False)
    #: How the features were reduced.
    reduction: str = ""

    def assign(self, outputs: Any, labels: Any) -> np.ndarray:
        """Group ids of other examples, from their features: the likeliest cluster of their class.

        UMAP places new examples together and approximately, so with it the same example may land
        in another cluster when others are assigned along with it.
        """
        points = self.prepare(checked_outputs(outputs))
        wanted = class_labels(labels, len(points))
        ids = np.empty(len(points), dtype=np.int64)
        for label in np.unique(wanted).tolist():
            if label not in self.places:
                raise InputError(f"class {label!r} was not among the classes that were clustered.")
            rows = wanted == label
            ids[rows] = np.array(self.evidence[label].ids)[self.places[label](points[rows])]
        return ids


def infer_strata(
    features: Any,
    labels: Any,
    losses: Any = None,
    *,
    val: tuple[Any, Any] | None = None,
    scaling: str = "standard",
    reduction: str = "auto",
    normal: Any = None,
    strata_max: int = 10,
    overcluster: bool = True,
    seed: int = 0,
) -> Strata:
    """Cluster the features of each class of a trained model; `assign` takes held-out examples.

    features    (n, d) of the layer before the last, in eval mode, on un-augmented inputs
    labels      n class labels: integers (gaps are fine) or strings
    losses      n losses of the same model; needed to overcluster
    val         features and labels of validation examples, so that no piece stands on its own that
                is hardly found there
    scaling     "standard" (every feature has mean 0 and deviation 1) or "unit" (every example has
                length 1, so that only directions count)
    reduction   "umap" or "pca" (2 dimensions), "none", "boundary" (1 dimension: the projection of
                the features, as they are, on `normal`; two classes only), or "auto": "umap" if
                umap-learn is installed, else "pca"
    normal      of the decision boundary: the head's weights for the second class minus the first's

    >>> features = [[0.0, 0.1], [0.2, 0.1], [0.1, 0.0], [0.1, 0.2], [5.0, 5.0], [5.1, 5.0]]
    >>> strata = infer_strata(features, ["cat"] * 6, reduction="pca", overcluster=False)
    >>> strata.ids.tolist(), strata.assign([[5.1, 5.0]], ["cat"]).tolist()
    ([0, 0, 0, 0, 1, 1], [1])
    """
    points = checked_outputs(features)
    wanted = class_labels(labels, len(points))
    check_seed(seed)
    if strata_max < 2:
        raise InputError(f"strata_max is at least 2, not {strata_max}.")
    hardness = _checked_losses(losses, len(points)) if overcluster else np.zeros(len(points))
    known = np.unique(wanted).tolist()
    kind = _available(reduction)
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    prepare = _preparation(kind, scaling, points, known, normal)
    points = prepare(points)
    if val is not None:
        val_points = prepare(checked_outputs(val[0]))
        val_labels = class_labels(val[1], len(val_points))

    import sklearn.mixture  # noqa: F401  (its thread pools must be loaded to be limited)
    from threadpoolctl import ThreadpoolController

    threads = ThreadpoolController()
    ids = np.empty(len(points), dtype=np.int64)
    evidence: dict[Any, ClassEvidence] = {}
    places: dict[Any, Points] = {}
    first = 0
    for label in known:
        rows = wanted == label
        with threads.limit(limits=1):
            codes, place, scores, note = _class_strata(
                points[rows],
                hardness[rows],
                None if val is None else val_points[val_labels == label],
                kind,
                strata_max,
                overcluster,
                seed,
            )
        sizes = np.bincount(codes)
        evidence[label] = ClassEvidence(
            k=len(sizes),
            silhouette=max(scores.values(), default=None),
            scores=scores,
            sizes=sizes.tolist(),
            power=1.0,
            ids=list(range(first, first + len(sizes))),
            shares=shares(sizes, 1.0).tolist(),
            note=note,
        )
        places[label] = place
        ids[rows] = first + codes
        first += len(sizes)
        if note and len(sizes) == 1:
            warnings.warn(f"class {label!r}: {note}.", SpareWarning, stacklevel=2)
    return Strata(
        ids=ids,
        evidence=evidence,
        labels=wanted,
        places=places,
        prepare=prepare,
        reduction=kind,
    )


def _checked_losses(losses: Any, n: int) -> np.ndarray:
    if losses is None:
        raise InputError(
            "overclustering needs the loss of every example: give losses, or overcluster=False."
        )
    given = checked_outputs(losses)
    if given.shape != (n, 1):
        raise InputError(f"one loss an example is needed: {given.shape} for {n} examples.")
    return given[:, 0]


def _available(reduction: str) -> str:
    if reduction not in REDUCTIONS:
        raise unknown("reduction", reduction, REDUCTIONS)
    if reduction not in ("auto", "umap"):
        return reduction
    try:
        import umap  # noqa: F401
    except ImportError as error:
        if reduction == "umap":
            raise InputError(
                "reduction='umap' needs umap-learn, which is not installed: "
                "pip install 'spare-ml[george]'."
            ) from error
        warnings.warn(
            "umap-learn is not installed, so features are reduced by PCA and not by UMAP as in "
            "GEORGE's paper: pip install 'spare-ml[george]', or reduction='pca' if this is meant.",
            SpareWarning,
            stacklevel=3,
        )
        return "pca"
    return "umap"


def _preparation(
    kind: str, scaling: str, points: np.ndarray, known: list[Any], normal: Any
) -> Points:
    """What is done to features of every class alike: scale them, or project them."""
    if kind == "boundary":
        direction = None if normal is None else np.asarray(normal, dtype=np.float64)
        if len(known) > 2:
            raise InputError(
                f"reduction='boundary' is for two classes, and there are {len(known)}: use 'umap' "
                f"or 'pca'."
            )
        if direction is None or direction.shape != points.shape[1:] or not direction.any():
            raise InputError(
                f"reduction='boundary' needs the boundary's normal, {points.shape[1]} numbers that "
                f"are not all 0."
            )
        unit = direction / np.linalg.norm(direction)
        return lambda features: (features @ unit)[:, None]
    if scaling == "unit":
        return _directions
    mean, spread = points.mean(0), points.std(0)
    spread[spread == 0] = 1.0
    return lambda features: (features - mean) / spread


def _directions(features: np.ndarray) -> np.ndarray:
    """Each example's features as a vector of length 1; nothing stays nothing."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(length > 0, length, 1.0)


def _class_strata(
    features: np.ndarray,
    losses: np.ndarray,
    val_features: np.ndarray | None,
    kind: str,
    strata_max: int,
    overcluster: bool,
    seed: int,
) -> tuple[np.ndarray, Points, dict[int, float], str]:
    """Each example's group from the largest down, how to find others', scores, what to say."""
    note = ""
    if len(features) < 3:
        note = f"only {len(features)} example{'s' * (len(features) > 1)}: one cluster"
    elif (features == features[0]).all():
        note = "all features are identical: one cluster"
    if note:
        return _one_cluster(features), _one_cluster, {}, note

    points, reduce = _reduced(features, kind, seed)
    cluster, scores = _best_mixture(points, strata_max, seed)
    number = np.arange(int(cluster(points).max()) + 1)
    if overcluster and len(number) > 1:
        val_points = None
        if val_features is not None:
            val_points = reduce(val_features) if len(val_features) else points[:0]
        cluster, number, kept = _overclustered(points, losses, val_points, cluster, seed)
        if kept:
            note = f"pieces of clusters that stand on their own: {kept}"
    codes = cluster(points)
    sizes = np.bincount(number[codes])
    rank = np.argsort(np.argsort(-sizes, kind="stable"))[number]
    return rank[codes], lambda others: rank[cluster(reduce(others))], scores, note


def _one_cluster(points: np.ndarray) -> np.ndarray:
    return np.zeros(len(points), dtype=np.int64)


def _reduced(features: np.ndarray, kind: str, seed: int) -> tuple[np.ndarray, Points]:
    """The features in few dimensions, and how to bring others there."""
    if kind == "umap" and len(features) <= 3 * NEIGHBOURS:
        kind = "pca"  # too few to have neighbourhoods
    if kind == "umap":
        import umap

        # n_jobs=1 is what a fixed random_state needs; to leave it out is a warning.
        fitted = umap.UMAP(
            n_components=DIMENSIONS,
            n_neighbors=NEIGHBOURS,
            min_dist=0.0,
            random_state=seed,
            n_jobs=1,
        )
        points = np.asarray(fitted.fit_transform(features), dtype=np.float64)
        reduce = fitted.transform
    else:
        directions = np.eye(features.shape[1])
        if kind == "pca" and features.shape[1] > DIMENSIONS:
            directions = np.linalg.eigh(np.cov(features.T))[1][:, -DIMENSIONS:]
        points = features @ directions

        def reduce(others: np.ndarray) -> np.ndarray:
            return others @ directions

    # One scale for all directions changes no clustering, but a mixture adds 1e-6 to variances.
    centre = points.mean(0)
    scale = np.sqrt(((points - centre) ** 2).mean())
    return (
        (points - centre) / scale,
        lambda others: (np.asarray(reduce(others), dtype=np.float64) - centre) / scale,
    )


def _mixture(points: np.ndarray, k: int, seed: int) -> Points:
    """A Gaussian mixture, as the function that numbers the components that hold any point."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # One that is not quite at its maximum is scored like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = GaussianMixture(k, n_init=3, random_state=seed).fit(points)
    used = np.unique(fitted.predict(points))

    def number(others: np.ndarray) -> np.ndarray:
        if len(others) == 0:
            return np.empty(0, dtype=np.int64)
        return fitted.predict_proba(others)[:, used].argmax(1)

    return number


def _distinct(points: np.ndarray) -> int:
    return len(np.unique(points, axis=0))


def _best_mixture(
    points: np.ndarray, strata_max: int, seed: int
) -> tuple[Points, dict[int, float]]:
    """The mixture whose clusters, each counted once, have the largest silhouette; all scores."""
    largest = min(strata_max, _distinct(points), len(points) - 1)
    mixtures = [_mixture(points, k, seed) for k in range(2, largest + 1)]
    labelings = [mixture(points) for mixture in mixtures]
    whole = [i for i, codes in enumerate(labelings) if codes.max() > 0]
    best: Points = _one_cluster
    scores: dict[int, float] = {}
    found = silhouettes(points, [labelings[i] for i in whole], seed=seed)
    for i, score in zip(whole, found, strict=True):
        # The mean over points would hardly notice a small cluster.
        value, k = float(np.mean(score.by_cluster)), len(score.by_cluster)
        if value > max(scores.values(), default=-2.0):
            best = mixtures[i]
        scores[k] = max(value, scores.get(k, -2.0))
    return best, scores


def _overclustered(
    points: np.ndarray,
    losses: np.ndarray,
    val_points: np.ndarray | None,
    cluster: Points,
    seed: int,
) -> tuple[Points, np.ndarray, int]:
    """How to find an example's piece, each piece's group, and how many pieces stay."""
    codes = cluster(points)
    clusters = int(codes.max()) + 1
    splits: list[Points] = []
    for c in range(clusters):
        own = points[codes == c]
        splits.append(_mixture(own, PIECES, seed) if _distinct(own) >= PIECES else _one_cluster)
    counts = [int(split(points[codes == c]).max()) + 1 for c, split in enumerate(splits)]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    parents = np.repeat(np.arange(clusters), counts)

    def piece(others: np.ndarray) -> np.ndarray:
        within = cluster(others)
        pieces = np.empty(len(others), dtype=np.int64)
        for c in np.unique(within):
            pieces[within == c] = firsts[c] + splits[c](others[within == c])
        return pieces

    val_sizes = None
    if val_points is not None:
        val_sizes = np.bincount(piece(val_points), minlength=len(parents))
    kept = standing_alone(points, codes, piece(points), losses, val_sizes, seed=seed)
    # What is merged back has its cluster's number; the kept have those that follow. A cluster of
    # which every piece is kept leaves a number without an example, which is closed up here.
    number = np.where(kept, clusters + np.arange(len(parents)), parents)
    return piece, np.unique(number, return_inverse=True)[1], int(kept.sum())


def standing_alone(
    points: np.ndarray,
    codes: np.ndarray,
    pieces: np.ndarray,
    losses: np.ndarray,
    val_sizes: np.ndarray | None,
    *,
    seed: int = 0,
) -> np.ndarray:
    """For each piece of a cluster, whether it is to be a group of its own.

    points     of one class
    codes      the cluster of each, 0..k-1 (at least two)
    pieces     the piece of each, 0..m-1, each within one cluster
    val_sizes  how many validation examples each piece has; None where there are none to count
    """
    rows = None
    if len(points) > EXACT_LIMIT:
        rows = stratified(pieces, ANCHORS, np.random.default_rng([seed, len(points)]))
    before, after = point_silhouettes(points, [codes, pieces], rows)
    drawn = pieces if rows is None else pieces[rows]
    sizes = np.bincount(pieces)
    parents = np.empty(len(sizes), dtype=np.int64)
    parents[pieces] = codes
    smallest = max(SMALLEST_SHARE * len(points), SMALLEST_PIECE)
    return (
        (_means(after, drawn) > np.maximum(_means(before, drawn), 0))
        & (_means(losses, pieces) >= _means(losses, codes)[parents])
        & (sizes >= smallest)
        & (True if val_sizes is None else val_sizes >= SMALLEST_PIECE)
    )


def _means(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.bincount(codes, weights=values) / np.bincount(codes)
