from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import silhouette_score

import spare
from spare.errors import InputError
from spare.groups.silhouettes import silhouettes


@st.composite
def clusterings(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    n = draw(st.integers(5, 700))  # past two tiles
    d = draw(st.integers(1, 6))
    k = draw(st.integers(2, 5))
    scale = draw(st.sampled_from([1e-4, 1.0, 1e3]))
    offset = draw(st.sampled_from([0.0, 1e3]))
    rng = np.random.default_rng(seed)
    points = rng.normal(0, scale, (n, d)) + offset
    if draw(st.booleans()):  # duplicates
        points = points[rng.integers(0, max(2, n // 3), n)]
    labels = rng.integers(0, min(k, n - 2), n)
    labels[:2] = [0, 1]
    return points, labels


@given(clusterings())
@settings(max_examples=60, deadline=None)
def test_agrees_with_scikit_learn(case):
    points, labels = case
    ours = spare.silhouette(points, labels)
    # Distances by differences: scikit-learn's own lose digits far from the origin.
    distances = cdist(points, points)
    theirs = silhouette_score(distances, labels, metric="precomputed")
    assert ours == pytest.approx(theirs, abs=1e-5)


@given(clusterings())
@settings(max_examples=30, deadline=None)
def test_squared_distances_agree_with_scikit_learn(case):
    points, labels = case
    ours = spare.silhouette(points, labels, metric="sqeuclidean")
    theirs = silhouette_score(cdist(points, points) ** 2, labels, metric="precomputed")
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_several_clusterings_in_one_pass_are_the_same_as_one_by_one():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(900, 3))
    labelings = [rng.integers(0, k, 900) for k in (2, 3, 5)]
    together = silhouettes(points, labelings)
    for labels, score in zip(labelings, together, strict=True):
        assert score.error == 0
        assert score.mean == pytest.approx(silhouette_score(points, labels), abs=1e-10)


def test_an_estimate_lies_within_its_stated_error_and_keeps_a_tiny_cluster():
    rng = np.random.default_rng(1)
    labels = np.concatenate([np.zeros(2980, int), np.ones(20, int)])
    points = rng.normal(0, 1, (3000, 4)) + 6 * labels[:, None]
    exact = silhouette_score(points, labels)
    misses, errors = [], []
    for seed in range(20):
        score = silhouettes(points, [labels], seed=seed, exact_limit=100, anchors=200)[0]
        assert 0 < score.error < 0.02
        misses.append((score.mean - exact) / score.error)
        errors.append(score.mean - exact)
    assert np.abs(misses).max() < 4.5
    assert 0.3 < np.std(misses) < 2  # the stated error is neither too small nor too large
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(20)  # unbiased


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_identical_points_in_two_clusters_are_not_separated(metric, offset):
    points = np.array([[0.3, 0.1], [0.7, -0.2], [0.3, 0.1], [0.3, 0.1], [0.7, -0.2]]) + offset
    assert spare.silhouette(points, [0, 1, 2, 2, 1], metric=metric) == pytest.approx(0.4)


def test_nearly_equal_points_far_from_the_origin_keep_their_distances():
    points = np.array([[1e4], [1e4 + 1e-3], [1e4 + 1], [1e4 + 1.001]])
    assert spare.silhouette(points, [0, 0, 1, 1]) == pytest.approx(0.999, abs=1e-4)


@pytest.mark.parametrize(
    ("points", "labels", "says"),
    [
        (np.zeros((4, 2)), [0, 0, 0, 0], "at least 2 clusters"),
        (np.zeros((3, 2)), [0, 1, 2], "fewer clusters than points"),
        (np.zeros((4, 2)), [0, 1, 0], "4 examples but 3 labels"),
        (np.zeros(4), [0, 1, 0, 1], "shape"),
    ],
)
def test_bad_input_is_refused(points, labels, says):
    with pytest.raises(InputError, match=says):
        spare.silhouette(points, labels)


def test_an_unknown_metric_is_refused():
    with pytest.raises(InputError, match="euclidean"):
        spare.silhouette([[0.0], [1.0], [2.0]], [0, 0, 1], metric="cosine")


@pytest.mark.parametrize("gap", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_many_points_lose_nothing_where_clumps_are_tight_or_far_apart(gap, d):
    """So many that float32 is used where it is safe: dense clumps, also several in one cluster."""
    rng = np.random.default_rng(d)
    middles = rng.normal(0, 1, (6, d))
    of = rng.choice(6, 4000, p=[0.6, 0.2, 0.1, 0.05, 0.04, 0.01])
    points = middles[of] + gap * rng.normal(0, 1, (4000, d))
    labelings = [(of > 2).astype(int), np.minimum(of, 3)]
    for labels, score in zip(labelings, silhouettes(points, labelings), strict=True):
        theirs = silhouette_score(cdist(points, points), labels, metric="precomputed")
        assert score.mean == pytest.approx(theirs, abs=1e-6)
