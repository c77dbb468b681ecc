"""Spark in local mode: the groups of memory, and sentences where it cannot be."""

from __future__ import annotations

import shutil
import stat

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import adjusted_rand_score

import spare
from spare.engines import spark, spark_large
from spare.errors import DataError, InputError
from tests.engines.test_files import damaged, write
from tests.engines.test_processes import two_classes


@pytest.fixture(scope="module")
def with_spark():
    """Stops Spark at the end; tests that need it are skipped where it cannot run."""
    pytest.importorskip("pyspark", reason="pyspark (extra: spark) is missing")
    try:
        spark.check_java()
    except InputError as error:
        pytest.skip(str(error))
    yield
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def clusters_in_order(found):
    table = pq.read_table(found.groups).sort_by("id")
    return table["id"].to_numpy(), table["cluster"].to_numpy(), table["probability"].to_numpy()


@pytest.mark.filterwarnings("ignore")
def test_classes_that_fit_a_worker_are_clustered_as_in_memory(with_spark, tmp_path):
    outputs, labels = two_classes(900)
    shards = tmp_path / "shards"
    shards.mkdir()
    for i in range(2):
        part = slice(i * 700, (i + 1) * 700)
        write(shards / f"{i}.parquet", outputs[part], labels[part])
    found = spare.cluster_outputs(shards, engine="spark", master="local[2,3]", out=tmp_path / "out")
    here = spare.infer_groups(outputs, [f"c{label}" for label in labels])
    ids, clusters, likely = clusters_in_order(found)
    assert ids.tolist() == list(range(len(labels)))
    assert (clusters == here.ids).all()
    assert likely == pytest.approx(spare.importance_weights(here, here.labels))
    assert found.evidence == here.evidence
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "clusters.json",
        "groups.parquet",
    ]


@pytest.mark.filterwarnings("ignore")
def test_a_class_that_fits_no_worker_is_clustered_by_mllib(with_spark, tmp_path, monkeypatch):
    outputs, labels = two_classes(1500)
    write(tmp_path / "outputs.parquet", outputs, labels, lists=True)
    monkeypatch.setattr(spark, "FITS", 8 * 4 * 1000)  # the larger class has more rows than this
    monkeypatch.setattr(spark_large, "scored_together", lambda ks: [[i] for i in range(len(ks))])
    found = spare.cluster_outputs(
        tmp_path / "outputs.parquet",
        engine="spark",
        master="local[2,3]",
        out=tmp_path / "out",
        k_max=3,
    )
    here = spare.infer_groups(outputs, [f"c{label}" for label in labels], k_max=3)
    _, clusters, _ = clusters_in_order(found)
    assert adjusted_rand_score(clusters, here.ids) > 0.99
    for k, score in found.evidence["c3"].scores.items():
        assert score == pytest.approx(here.evidence["c3"].scores[k], abs=0.01)
    assert found.evidence["c8"] == here.evidence["c8"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("k", "note"), [(None, "all outputs are identical"), (1, "")])
def test_a_large_class_of_one_cluster_is_one(k, note, with_spark, tmp_path, monkeypatch):
    outputs = np.full((60, 2), 0.5) if k is None else two_classes(45)[0]
    write(tmp_path / "outputs.parquet", outputs, np.zeros(60, dtype=int))
    monkeypatch.setattr(spark, "FITS", 100)
    found = spare.cluster_outputs(
        tmp_path / "outputs.parquet", engine="spark", master="local[2,3]", out=tmp_path / "out", k=k
    )
    assert found.evidence["c0"].sizes == [60]
    assert found.evidence["c0"].note.startswith(note)
    assert not clusters_in_order(found)[1].any()


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_is_lost_is_replaced_with_the_same_result(with_spark, tmp_path, monkeypatch):
    outputs, labels = two_classes(300)
    write(tmp_path / "outputs.parquet", outputs, labels)
    marker = tmp_path / "died"
    (tmp_path / "dying_clusterer.py").write_text(
        f"""
import os
from sklearn.cluster import KMeans

class Dying(KMeans):
    def __init__(self, n_clusters=2, n_init=10, random_state=0):
        super().__init__(n_clusters, n_init=n_init, random_state=random_state)

    def fit_predict(self, points, y=None, sample_weight=None):
        if not os.path.exists({str(marker)!r}):
            open({str(marker)!r}, "w").close()
            os._exit(1)
        return super().fit_predict(points)
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    context = spark.session("local[2,3]").sparkContext
    context.addPyFile(str(tmp_path / "dying_clusterer.py"))
    found = spare.cluster_outputs(
        tmp_path / "outputs.parquet",
        engine="spark",
        master="local[2,3]",
        out=tmp_path / "out",
        clusterer="dying_clusterer:Dying",
    )
    assert marker.exists()
    here = spare.infer_groups(outputs, [f"c{label}" for label in labels])
    assert (clusters_in_order(found)[1] == here.ids).all()


@pytest.mark.filterwarnings("ignore")
def test_what_a_worker_refuses_is_its_own_sentence(with_spark, tmp_path):
    write(tmp_path / "outputs.parquet", *two_classes(300))
    damaged(tmp_path / "outputs.parquet", "nan")
    with pytest.raises(InputError, match="rows of outputs are NaN or infinite") as caught:
        spare.cluster_outputs(
            tmp_path / "outputs.parquet", engine="spark", master="local[2,3]", out=tmp_path / "out"
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_truncated_shard_is_refused_before_spark_starts(tmp_path):
    write(tmp_path / "outputs.parquet", *two_classes(300))
    damaged(tmp_path / "outputs.parquet", "truncated")
    with pytest.raises(DataError, match="cannot be read as a table"):
        spare.cluster_outputs(tmp_path / "outputs.parquet", engine="spark", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def java_that_says(folder, text):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ('openjdk version "11.0.2"', "needs Java 17 or later, and .*/java is version 11: install"),
        ('java version "1.8.0_312"', "is version 8"),
        ("strange", "is version unknown"),
    ],
)
def test_an_old_java_is_one_sentence(says, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, says))
    with pytest.raises(InputError, match=sentence):
        spark.check_java()


def test_a_missing_java_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    write(tmp_path / "outputs.parquet", *two_classes(30))
    with pytest.raises(InputError, match="needs Java, and there is none: install Java 17"):
        spare.cluster_outputs(tmp_path / "outputs.parquet", engine="spark", out=tmp_path / "out")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="there is none"):
        spark.check_java()
    assert np.array_equal(sorted(path.name for path in tmp_path.iterdir()), ["outputs.parquet"])
