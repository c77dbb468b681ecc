"""One class that fits no worker of Spark: MLlib's k-means from several seeds, and our silhouettes.

MLlib's own silhouette is of squared distances, for which 0.9 means another thing. So a sample of
every cluster is sent to all workers, each sums the distances to the examples that it has, and only
sums come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from spare.errors import InputError
from spare.groups.arrays import checked_points
from spare.groups.atoms import Atoms, scored_together
from spare.groups.clusterers import DEFAULT
from spare.groups.distances import Frame, SumsFrom
from spare.groups.one_class import IDENTICAL
from spare.groups.result import ClassClusters
from spare.groups.silhouettes import ANCHORS, Score, scores_from

#: Seeds of MLlib's k-means, which has no restarts of its own.
SEEDS = 5
#: Anchors are taken by chance, each for itself: so this many times as many as are needed, and of
#: every atom so many that it is never without any.
MORE, LEAST = 1.3, 20
ID, LABEL, CODE, ATOM = "id", "label", "code", "atom"


def points_of(table: Any) -> np.ndarray:
    """The outputs in a pandas table of examples, checked."""
    return checked_points(np.stack(table["outputs"].to_numpy()), numbers=table[ID].to_numpy())


def large_class(
    examples: Any, count: int, width: int, options: dict[str, Any]
) -> tuple[Any, ClassClusters]:
    """By MLlib's k-means from several seeds, with our silhouettes."""
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    if options["clusterer"] != DEFAULT:
        raise InputError(
            f"a class of {count:,} examples fits no worker, and only {DEFAULT} clusters such with "
            f"Spark: use it."
        )
    features = array_to_vector(F.col("outputs")).alias("features")
    vectors = examples.select(ID, LABEL, "outputs", features)
    vectors = vectors.persist()
    centers = []
    for k in [options["k"]] if options["k"] else range(2, options["k_max"] + 1):
        if k == 1:  # which MLlib does not take
            continue
        models = [
            KMeans(k=k, seed=options["seed"] + seed, maxIter=100, tol=1e-6).fit(vectors)
            for seed in range(SEEDS)
        ]
        cheapest = min(models, key=lambda model: float(model.summary.trainingCost))
        centers.append(np.stack(cheapest.clusterCenters()))
    centers = [of_k for of_k in centers if len(of_k) > 1]
    if not centers:
        note = "" if options["k"] == 1 else IDENTICAL
        one = ClassClusters(np.empty(0, dtype=np.int64), note=note, all_sizes=(count,))
        return vectors.select(ID, LABEL, F.lit(0).alias(CODE)), one
    scores: list[Score] = []
    sizes: list[np.ndarray] = []
    for group in scored_together([len(of_k) for of_k in centers]):
        scored, counts = _scored(vectors, [centers[i] for i in group], width, count, options)
        scores += scored
        sizes += counts
    best = max(range(len(scores)), key=lambda i: scores[i].mean)
    order = np.argsort(-sizes[best], kind="stable")
    found = ClassClusters(
        np.empty(0, dtype=np.int64),
        {len(score.by_cluster): score.mean for score in scores},
        {len(score.by_cluster): score.error for score in scores},
        all_sizes=tuple(sizes[best][order].tolist()),
    )
    # The nearest center is the code, if the center of the largest cluster is the first.
    codes = _numbered(vectors, [centers[best][order]]).select(ID, LABEL, F.col(ATOM).alias(CODE))
    return codes, found


def _scored(
    vectors: Any, centers: list[np.ndarray], width: int, count: int, options: dict[str, Any]
) -> tuple[list[Score], list[np.ndarray]]:
    """The silhouettes of several clusterings, and how many examples each of their clusters has."""
    from pyspark.sql import functions as F

    numbered = _numbered(vectors, centers).persist()
    sizes = {row[ATOM]: row["count"] for row in numbered.groupBy(ATOM).count().collect()}
    present = sorted(sizes)
    atoms = _atoms_from(present, [sizes[number] for number in present], centers)
    fair = np.maximum(ANCHORS * atoms.sizes / count, max(ANCHORS / (4 * len(present)), LEAST))
    shares = np.minimum(1.0, MORE * fair / atoms.sizes).tolist()  # of a small atom, all
    pairs = zip(present, shares, strict=True)
    likely = F.create_map(*[F.lit(value) for pair in pairs for value in pair])
    taken = numbered.filter(F.rand(options["seed"]) < likely[F.col(ATOM)]).collect()
    anchors = np.array([row["outputs"] for row in taken])
    of_anchors = np.array([present.index(row[ATOM]) for row in taken])
    frame = _frame(numbered, width, count)
    sums = numbered.mapInPandas(
        partial(_sums_of_part, anchors=anchors, frame=frame, present=present),
        "anchor int, place int, distance double",
    )
    total = np.zeros((len(anchors), len(present)))
    for row in sums.groupBy("anchor", "place").agg(F.sum("distance").alias("d")).collect():
        total[row["anchor"], row["place"]] = row["d"]
    numbered.unpersist()
    counts = [np.bincount(of, weights=atoms.sizes).astype(int) for of in atoms.clusters]
    return scores_from(total, of_anchors, atoms), counts


def _numbered(vectors: Any, centers: list[np.ndarray]) -> Any:
    """Examples with the number of their atom."""
    kind = dict(vectors.dtypes)[LABEL]
    return vectors.select(ID, LABEL, "outputs").mapInPandas(
        partial(_atoms_of_part, centers=centers),
        f"{ID} long, {LABEL} {kind}, outputs array<double>, {ATOM} int",
    )


def _atoms_of_part(tables: Iterator[Any], *, centers: list[np.ndarray]) -> Iterator[Any]:
    """The nearest center of every k, as one number."""
    for table in tables:
        points = points_of(table)
        numbers = np.zeros(len(points), dtype=np.int32)
        for of_k in centers:
            distances = (of_k**2).sum(1) - 2 * points @ of_k.T
            numbers = numbers * len(of_k) + distances.argmin(1).astype(np.int32)
        yield table.assign(atom=numbers)


def _atoms_from(present: list[int], sizes: list[int], centers: list[np.ndarray]) -> Atoms:
    rest = np.array(present)
    clusters: list[np.ndarray] = []
    for of_k in reversed(centers):
        clusters.insert(0, rest % len(of_k))
        rest = rest // len(of_k)
    return Atoms(np.empty(0, dtype=np.int32), np.array(sizes), clusters)


def _frame(examples: Any, width: int, count: int) -> Frame:
    """Middle and size of a class's outputs."""
    from pyspark.sql import functions as F

    columns = [F.col("outputs")[i] for i in range(width)]
    means = examples.agg(*[F.avg(column) for column in columns]).first()
    center = np.array([float(value) for value in means])
    squares = sum(
        (column - value) ** 2 for column, value in zip(columns, center.tolist(), strict=True)
    )
    largest = examples.agg(F.max(squares)).first()[0]
    return Frame(center, float(np.sqrt(largest)) or 1.0)


def _sums_of_part(
    tables: Iterator[Any], *, anchors: np.ndarray, frame: Frame, present: list[int]
) -> Iterator[Any]:
    """Distances from the anchors to what is in this part, summed by atom."""
    import pandas as pd

    sums = SumsFrom(anchors, frame, len(present), fast=True)
    nowhere = np.full(len(anchors), -1)
    for table in tables:
        places = np.searchsorted(present, table["atom"].to_numpy())
        sums.add(points_of(table), places, nowhere)
    anchor, place = np.indices(sums.sums.shape)
    yield pd.DataFrame(
        {
            "anchor": anchor.ravel().astype(np.int32),
            "place": place.ravel().astype(np.int32),
            "distance": sums.sums.ravel(),
        }
    )
