"""Where clustering runs: in this process, shared out among processes, from disk, or with Spark.

Clustering one class is one function, `spare.groups.one_class.cluster_class`; an engine gives it
points that are somewhere else, or maps it over classes. Same inputs, same outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spare.errors import InputError
from spare.groups import clusters
from spare.groups.arrays import one_of
from spare.groups.clusterers import DEFAULT
from spare.groups.result import ClassClusters, Groups
from spare.groups.weights import Power

#: For outputs in memory.
ENGINES = ("local", "processes")
BUILT_IN_MAP = map


def infer_groups(
    outputs: Any,
    labels: Any,
    *,
    k: int | None = None,
    k_max: int = 5,
    power: Power | str | None = None,
    clusterer: Any = DEFAULT,
    seed: int = 0,
    engine: str = "local",
    map: Callable[..., Iterable[ClassClusters]] = map,
) -> Groups:
    """Cluster the outputs of each class; small clusters are where the shortcut does not hold.

    Parameters
    ----------
    outputs : array or tensor of shape (examples, values)
        Softmax outputs, logits or features, clustered as given: finite numbers of at most 1e100;
        those below 1e-100 count as 0. Take them after one or two epochs, in eval mode, from inputs
        that are not augmented.
    labels : array of shape (examples,)
        Class labels: integers (gaps are fine) or strings; bytes are read as UTF-8.
    k : int, optional
        Number of clusters per class; by default the best of 2..k_max by silhouette.
    k_max : int
        Largest number of clusters that is tried.
    power : float, dict or "evidence", optional
        Sampling power of all classes, or by class; by default chosen by the silhouette, as in the
        paper. With "evidence" it is up to 1 where a class has fallen apart clearly, and 0, which
        gives all of its examples the same weight, where it has not; as `spare.discover` has it for
        a file of outputs. The outputs are then those of one model that was trained on the examples:
        softmax outputs or logits, one column per class, in the order of the sorted labels.
    clusterer : str or object
        "kmeans", "kmedoids", "gmm", "agglomerative", an import path `package.module:NAME`, or an
        object with scikit-learn's `fit_predict`. Its `n_clusters` (or `n_components`) is set to
        each k; one that has neither is run once and finds k by itself.
    seed : int
        Seeds clusterers that are given by name, and the sample that large classes are scored on.
    engine : str
        "local" for examples that are all here. "processes" where each process of a job, with
        `torch.distributed` running, has a share of them: to be called in every one, with its own
        outputs and labels; ids are of the examples here, evidence of all. Files of outputs are
        clustered by `cluster_outputs`.
    map : callable
        Applies a function to every class, in order. The `map` of a
        `concurrent.futures.ProcessPoolExecutor` clusters classes in parallel. Of engine "local".

    Returns
    -------
    Groups
        Its `assign` puts held-out examples into these groups: to the nearest mean with k-means, by
        the clusterer's own `predict` with others that have one.

    Raises
    ------
    InputError
        A `SpareError` and a `ValueError`, for everything that cannot be used as given.

    Examples
    --------
    >>> import numpy as np
    >>> outputs = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 2 + [[0.2, 0.8]] * 5 + [[0.8, 0.2]])
    >>> groups = infer_groups(outputs, ["cat"] * 8 + ["dog"] * 6)
    >>> groups.ids.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3]
    >>> groups.evidence["cat"].sizes, groups.evidence["dog"].sizes
    ([6, 2], [5, 1])
    """
    options: dict[str, Any] = {
        "k": k, "k_max": k_max, "power": power, "clusterer": clusterer, "seed": seed,
    }  # fmt: skip
    if one_of("engine", engine, ENGINES) == "local":
        return clusters.infer_groups(outputs, labels, map=map, **options)
    if map is not BUILT_IN_MAP:
        raise InputError("engine 'processes' shares out examples, not classes: leave out map.")
    if isinstance(power, str):
        one_of("power", power, (clusters.EVIDENCE,))
        raise InputError("power='evidence' is for engine 'local': leave it out, or give a number.")
    from spare.engines import processes

    return processes.infer_groups(outputs, labels, **options)
