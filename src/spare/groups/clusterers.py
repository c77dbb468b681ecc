"""Clusterers by name or import path, and one class's points clustered by one of them.

A clusterer is anything with scikit-learn's `fit_predict`. To add one, put it in the list below, or
name someone's own by import path: `--set clusterer=mine:CLUSTERER`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spare.errors import InputError, reason, unknown
from spare.groups.arrays import as_numpy
from spare.groups.result import Assign
from spare.imports import check_text, import_object

DEFAULT = "kmeans"
#: What estimators call the number of clusters.
COUNTS = ("n_clusters", "n_components")


def _kmeans(seed: int) -> Any:
    """k-means, ten starts"""
    from sklearn.cluster import KMeans

    return KMeans(n_init=10, random_state=seed)


def _gmm(seed: int) -> Any:
    """Gaussian mixture"""
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(n_init=3, random_state=seed)


def _agglomerative(seed: int) -> Any:
    """agglomerative, Ward's linkage"""
    from sklearn.cluster import AgglomerativeClustering

    return AgglomerativeClustering()


def _kmedoids(seed: int) -> Any:
    """k-medoids by greedy facility location"""
    from spare.groups.medoids import KMedoids

    return KMedoids(random_state=seed)


def _sieve(seed: int) -> Any:
    """the same; of large classes, medoids from one pass"""
    return _kmedoids(seed)


def _pam(seed: int) -> Any:
    """exact k-medoids (PAM); needs the package kmedoids"""
    try:
        from kmedoids import KMedoids
    except ImportError:
        raise InputError(
            "clusterer 'pam' needs the package kmedoids, which has another license (GPL): install "
            "it with pip install 'spare-ml[pam]', or use kmedoids, which needs nothing."
        ) from None
    return KMedoids(2, method="fasterpam", metric="euclidean", random_state=seed)


#: Each makes a clusterer from a seed, says what it is, and imports what it needs only then.
CLUSTERERS: dict[str, Callable[[int], Any]] = {
    DEFAULT: _kmeans,
    "kmedoids": _kmedoids,
    "kmedoids_sieve": _sieve,
    "pam": _pam,
    "gmm": _gmm,
    "agglomerative": _agglomerative,
}


def check_name(name: str) -> None:
    """Refuse a name that is not in the list; an import path is looked at when it is needed."""
    check_text("clusterer", name)
    if ":" not in name and name not in CLUSTERERS:
        raise unknown("clusterer", name, CLUSTERERS)


def clusterer_named(name: str, seed: int = 0) -> Any:
    """A clusterer of the list or, as `package.module:NAME`, someone's own.

    Someone's own is an estimator, or a class or function that makes one without arguments. Its
    `random_state`, and that of its parts, is set to the seed.

    >>> clusterer_named("kmeans", seed=3)
    KMeans(n_init=10, random_state=3)
    """
    check_name(name)
    if ":" not in name:
        return CLUSTERERS[name](seed)
    named = import_object("clusterer", name, lambda value: _clusters(value) or callable(value))
    if not _clusters(named) or isinstance(named, type):
        try:
            named = named()
        except Exception as error:  # whatever the user's code raises
            raise InputError(
                f"clusterer {name!r} cannot be made without arguments "
                f"({type(error).__name__}: {reason(error)}): give its parameters defaults."
            ) from error
    return _seeded(checked(named), seed)


def _clusters(value: Any) -> bool:
    return hasattr(value, "fit_predict")


def checked(clusterer: Any) -> Any:
    """The clusterer, if it can cluster."""
    if not _clusters(clusterer):
        raise InputError(
            f"a clusterer needs a fit_predict method as scikit-learn's have; "
            f"{type(clusterer).__name__} has none."
        )
    return clusterer


def _seeded(clusterer: Any, seed: int) -> Any:
    """A copy with every `random_state` set."""
    from sklearn.base import clone

    clusterer = clone(clusterer, safe=False)
    if hasattr(clusterer, "get_params"):
        states = [
            key for key in clusterer.get_params() if key.rpartition("__")[2] == "random_state"
        ]
        clusterer.set_params(**dict.fromkeys(states, seed))
    elif hasattr(clusterer, "random_state"):
        clusterer.random_state = seed
    return clusterer


@dataclass(frozen=True)
class Clustering:
    """One clustering of some points."""

    #: The cluster of every point, 0..k-1.
    codes: np.ndarray
    #: What made it.
    estimator: Any
    #: The label that the estimator gives each cluster, by code.
    labels: np.ndarray


def clusterings(points: np.ndarray, ks: list[int], clusterer: Any) -> list[Clustering]:
    """One clustering for each k, or a single one where the clusterer finds k by itself."""
    from sklearn.base import clone

    count = next((name for name in COUNTS if hasattr(clusterer, name)), None)
    results = []
    for k in ks if count else ks[:1]:
        try:
            estimator = clone(clusterer, safe=False)
            if count:
                setattr(estimator, count, k)
        except Exception as error:  # whatever the user's class raises
            raise InputError(
                f"clusterer {type(clusterer).__name__} cannot be copied and set to {k} clusters "
                f"({type(error).__name__}: {reason(error)}): use another clusterer."
            ) from error
        labels = _labels(estimator, "fit_predict", points)
        values, codes = np.unique(labels, return_inverse=True)
        results.append(Clustering(codes, estimator, values))
    return results


def _labels(estimator: Any, function: str, points: np.ndarray) -> np.ndarray:
    """One label per point, from a clusterer that may be anyone's."""
    name = type(estimator).__name__
    try:
        labels = as_numpy(getattr(estimator, function)(points))
    except Exception as error:  # whatever the user's code raises
        raise InputError(
            f"clusterer {name} failed in {function} on {len(points)} points of one class "
            f"({type(error).__name__}: {reason(error)}): use another clusterer."
        ) from error
    if labels.shape != (len(points),) or labels.dtype.kind not in "iubfUST":
        raise InputError(
            f"{name}.{function} gave {labels.shape} of {labels.dtype}, not one label for each of "
            f"{len(points)} points: use another clusterer."
        )
    return labels


@dataclass(frozen=True)
class NearestMean:
    """Assigns points to the cluster with the nearest mean."""

    means: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        # One mean at a time: all at once would take k times the room of the points.
        squared = [((points - mean) ** 2).sum(1) for mean in self.means]
        return np.asarray(np.stack(squared, axis=1).argmin(1))


@dataclass(frozen=True)
class Predicted:
    """Assigns points as the clusterer does itself, and by means where it names no known cluster."""

    estimator: Any
    #: The label that the estimator gives each cluster, by code.
    labels: np.ndarray
    nearest: NearestMean

    def __call__(self, points: np.ndarray) -> np.ndarray:
        is_label = _labels(self.estimator, "predict", points)[:, None] == self.labels
        codes = is_label.argmax(1)
        strangers = ~is_label.any(1)
        if strangers.any():
            codes[strangers] = self.nearest(points[strangers])
        return np.asarray(codes)


def assigner(clustering: Clustering, ranks: np.ndarray, means: np.ndarray) -> Assign:
    """How other points are assigned to a clustering whose clusters were given these ranks.

    Parameters
    ----------
    means
        Of the members of each cluster, by rank.
    """
    nearest = NearestMean(means)
    if not hasattr(clustering.estimator, "predict"):
        return nearest
    return Predicted(clustering.estimator, clustering.labels[np.argsort(ranks)], nearest)
