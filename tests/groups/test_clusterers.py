"""Clusterers by name and import path, where they run, and how they assign held-out examples."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, Birch, KMeans, MiniBatchKMeans
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

import spare
from spare.errors import InputError
from spare.groups.clusterers import CLUSTERERS, NearestMean, check_name, clusterer_named
from spare.groups.one_class import cluster_class
from tests.groups.test_clusters import blobs

ZEROS = np.zeros(100, int)


@pytest.fixture
def outputs():
    """Two classes of two clusters each."""
    return np.concatenate([blobs([90, 30], 1), blobs([70, 40], 2)]), np.repeat([3, 8], [120, 110])


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module outside the package and returns its name."""
    monkeypatch.chdir(tmp_path)
    written = []

    def write(text):
        name = f"outside_{abs(hash(tmp_path))}_{len(written)}"
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        return name

    return write


@pytest.mark.parametrize("name", CLUSTERERS)
def test_every_named_clusterer_finds_clear_clusters_and_assigns_others(name):
    if name == "pam":
        pytest.importorskip("kmedoids", reason="the package kmedoids (extra: pam) is missing")
    groups = spare.infer_groups(blobs([60, 30, 10]), ZEROS, clusterer=name)
    assert groups.evidence[0].sizes == [60, 30, 10]
    others = blobs([4, 5, 6], seed=7)
    assert groups.assign(others, [0] * 15).tolist() == [0] * 4 + [1] * 5 + [2] * 6


def test_a_name_is_seeded():
    assert clusterer_named("kmeans", 5).random_state == 5
    assert clusterer_named("gmm", 6).random_state == 6


def test_exact_medoids_without_their_package_are_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "kmedoids", None)
    with pytest.raises(InputError, match="spare-ml\\[pam\\]"):
        spare.infer_groups(blobs([6, 4]), [0] * 10, clusterer="pam")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="unknown clusterer 'kmean': did you mean 'kmeans'"):
        spare.infer_groups(blobs([6, 4]), [0] * 10, clusterer="kmean")


def test_a_setting_names_its_clusterer():
    with pytest.raises(InputError, match="records store it as text; got one of type KMeans"):
        check_name(KMeans())


def test_the_default_is_k_means_by_name(outputs):
    default, named = spare.infer_groups(*outputs), spare.infer_groups(*outputs, clusterer="kmeans")
    assert (default.ids == named.ids).all()
    assert default.evidence == named.evidence


OUTSIDE = """
import numpy as np
from sklearn.cluster import BisectingKMeans, KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

INSTANCE = KMeans(n_init=2)
PIPELINE = make_pipeline(StandardScaler(), KMeans(2, n_init=2))

def factory():
    return BisectingKMeans(n_init=2)

def needs_arguments(n):
    return KMeans(n)

def number():
    return 3

class Median:
    random_state = None

    def fit_predict(self, points):
        self.median = np.median(points[:, 0])
        return self.predict(points)

    def predict(self, points):
        return np.where(points[:, 0] > self.median, "right", "left")

class Broken:
    def fit_predict(self, points):
        raise ZeroDivisionError("no luck")
"""


@pytest.mark.parametrize("name", ["INSTANCE", "PIPELINE", "factory", "KMeans", "Median"])
def test_a_clusterer_from_outside_the_package_by_import_path(module, outputs, name):
    path = f"{module(OUTSIDE)}:{name}"
    first, second = (spare.infer_groups(*outputs, k=2, clusterer=path, seed=3) for _ in range(2))
    assert (first.ids == second.ids).all()
    assert [evidence.k for evidence in first.evidence.values()] == [2, 2]
    assert (first.assign(*outputs) == first.ids).all()


def test_every_random_state_of_an_import_path_is_seeded(module):
    name = module(OUTSIDE)
    assert clusterer_named(f"{name}:INSTANCE", 4).random_state == 4
    assert clusterer_named(f"{name}:PIPELINE", 4).get_params()["kmeans__random_state"] == 4
    assert clusterer_named(f"{name}:Median", 4).random_state == 4


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("INSTANEC", "did you mean 'INSTANCE'"),
        ("needs_arguments", "cannot be made without arguments .*give its parameters defaults"),
        ("number", "int has none"),
        ("Broken", "Broken failed in fit_predict on 10 points .*ZeroDivisionError: no luck"),
    ],
)
def test_what_is_wrong_with_an_import_path_is_one_sentence(module, name, says):
    with pytest.raises(InputError, match=says) as caught:
        spare.infer_groups(blobs([6, 4]), [0] * 10, clusterer=f"{module(OUTSIDE)}:{name}")
    assert "\n" not in str(caught.value)


def test_a_missing_module_is_one_sentence():
    with pytest.raises(InputError, match="'nowhere_to_be_found' cannot be imported"):
        spare.infer_groups(blobs([6, 4]), [0] * 10, clusterer="nowhere_to_be_found:KMeans")


@pytest.mark.parametrize(
    "clusterer",
    [GaussianMixture(random_state=0), Birch(threshold=0.1), MiniBatchKMeans(random_state=0)],
    ids=lambda value: type(value).__name__,
)
def test_a_clusterer_that_can_predict_assigns_held_out_examples_itself(clusterer):
    # A wide and a narrow cluster: the border between them is not halfway between their means.
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal([4, 0], 0.1, (100, 2))])
    groups = spare.infer_groups(points, np.zeros(400, int), k=2, clusterer=clusterer)
    assert (groups.assign(points, np.zeros(400, int)) == groups.ids).all()
    grid = np.stack(np.meshgrid(np.linspace(-3, 5, 40), np.linspace(-3, 3, 40)), -1).reshape(-1, 2)
    fitted = type(clusterer)(**clusterer.get_params())
    setattr(fitted, "n_components" if hasattr(fitted, "n_components") else "n_clusters", 2)
    swapped = fitted.fit(points).predict(points)[groups.ids == 0][0]
    assert (groups.assign(grid, [0] * 1600) == (fitted.predict(grid) != swapped)).all()


def test_a_clusterer_that_cannot_predict_assigns_to_the_nearest_mean():
    points = blobs([60, 40])
    groups = spare.infer_groups(points, ZEROS, k=2, clusterer=AgglomerativeClustering())
    means = np.stack([points[groups.ids == i].mean(0) for i in (0, 1)])
    others = np.random.default_rng(0).normal(0.5, 1, (50, 3))
    assert (groups.assign(others, [0] * 50) == NearestMean(means)(others)).all()


def test_labels_that_training_never_saw_fall_back_to_the_nearest_mean():
    class Strange:
        n_clusters = 2

        def fit_predict(self, points):
            return (points[:, 0] > 0.5).astype(int)

        def predict(self, points):
            return np.full(len(points), 9)

    points = blobs([60, 40])
    groups = spare.infer_groups(points, ZEROS, k=2, clusterer=Strange())
    assert (groups.assign(points, ZEROS) == groups.ids).all()


@pytest.mark.parametrize(
    ("predict", "says"),
    [
        (lambda points: 1 / 0, "clusterer Mine failed in predict on 3 points .*division by zero"),
        (
            lambda points: np.zeros((len(points), 2)),
            r"Mine.predict gave \(3, 2\) of float64, not one label",
        ),
    ],
)
def test_a_predict_that_fails_is_one_sentence(predict, says):
    class Mine:
        n_clusters = 2

        def fit_predict(self, points):
            return (points[:, 0] > 0.5).astype(int)

    Mine.predict = staticmethod(predict)
    groups = spare.infer_groups(blobs([60, 40]), ZEROS, k=2, clusterer=Mine())
    with pytest.raises(InputError, match=says):
        groups.assign(blobs([2, 1]), [0, 0, 0])


def test_two_searches_that_end_in_the_same_k_are_scored_by_the_better():
    class Stubborn:
        """Finds two clusters whatever k is: badly if it is odd."""

        n_clusters = 2

        def fit_predict(self, points):
            if self.n_clusters % 2:
                return np.arange(len(points)) % 2
            return (points[:, 0] > 0.5).astype(int)

    evidence = spare.infer_groups(blobs([60, 40]), ZEROS, clusterer=Stubborn()).evidence[0]
    assert evidence.sizes == [60, 40]
    assert evidence.silhouette == evidence.scores[2] > 0.9


def use_two_threads():
    import sklearn.cluster  # noqa: F401

    threadpool_limits(2)


def threads():
    return max(pool["num_threads"] for pool in threadpool_info())


class Threads:
    """Remembers how many threads there were while it clustered."""

    n_clusters = 2

    def fit_predict(self, points):
        self.threads_ = threads()
        return (points[:, 0] > 0.5).astype(int)

    def predict(self, points):
        return self.fit_predict(points)


@pytest.fixture(scope="module")
def pool():
    """Two processes, with two threads each."""
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(2, mp_context=context, initializer=use_two_threads) as pool:
        yield pool


@pytest.mark.parametrize("clusterer", ["kmeans", "gmm", KMeans(n_init=2, random_state=1)], ids=str)
def test_classes_are_clustered_in_other_processes_with_the_same_result(outputs, clusterer, pool):
    here = spare.infer_groups(*outputs, clusterer=clusterer)
    there = spare.infer_groups(*outputs, clusterer=clusterer, map=pool.map)
    assert (here.ids == there.ids).all()
    assert here.evidence == there.evidence
    others = np.random.default_rng(0).normal(0.5, 1, (60, 3)), [3, 8] * 30
    assert (here.assign(*others) == there.assign(*others)).all()


def test_a_process_clusters_with_one_thread_however_many_it_has(outputs, pool):
    assert pool.submit(threads).result() == 2
    clustered = pool.submit(cluster_class, outputs[0][:120], k=2, clusterer=Threads()).result()
    assert clustered.assign.estimator.threads_ == 1


def test_what_clustering_one_class_takes_and_returns_can_be_pickled():
    points = blobs([60, 40])
    for clusterer in ("kmeans", "gmm", make_pipeline(StandardScaler(), KMeans(2, n_init=2))):
        clustered = cluster_class(points, k=2, clusterer=clusterer, seed=1)
        copy = pickle.loads(pickle.dumps(clustered))
        assert (copy.codes == clustered.codes).all()
        assert (copy.assign(points) == clustered.codes).all()
