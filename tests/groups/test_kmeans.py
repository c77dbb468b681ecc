"""Our k-means against scikit-learn's: the same for few points, and never worse for many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import spare
from spare.groups.distances import frame_of
from spare.groups.kmeans import kmeans, kmeans_of_many
from spare.groups.points import BLOCK, Points

KS = [2, 3, 4, 5]


def early_outputs(seed, n, columns, minority, sharpness):
    """Softmax outputs of one class: most near its corner, some near others."""
    rng = np.random.default_rng(seed)
    target = np.where(rng.random(n) < minority, rng.integers(0, columns, n), 0)
    logits = rng.normal(0, 0.7, (n, columns))
    logits[np.arange(n), target] += sharpness
    exp = np.exp(logits)
    return exp / exp.sum(1, keepdims=True)


cases = st.builds(
    early_outputs,
    st.integers(0, 2**32 - 1),
    st.integers(200, 1500),
    st.integers(2, 8),
    st.sampled_from([0.005, 0.05, 0.3]),
    st.sampled_from([2.0, 4.0, 7.0]),
)


@given(cases, st.integers(0, 100))
@settings(max_examples=8, deadline=None)
def test_few_points_are_clustered_as_scikit_learn_does_with_the_same_seed(points, seed):
    for ours, k in zip(kmeans(points, KS, seed), KS, strict=True):
        theirs = KMeans(k, n_init=10, random_state=seed).fit(points)
        assert (ours.codes == theirs.labels_).all()
        assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-12)


def inertia(points, codes):
    return sum(
        ((points[codes == c] - points[codes == c].mean(0)) ** 2).sum() for c in np.unique(codes)
    )


@pytest.mark.parametrize("seed", range(6))
def test_many_points_are_clustered_about_as_well_as_by_ten_starts_or_better(seed):
    points = early_outputs(seed, 4000, 2 + seed, [0.005, 0.05, 0.3][seed % 3], 4.0)
    shared = Points(points)
    found = kmeans_of_many(shared, frame_of(shared), KS, seed)
    for ours, k in zip(found, KS, strict=True):
        theirs = KMeans(k, n_init=10, random_state=seed).fit(points)
        assert ours.inertia == pytest.approx(inertia(points, ours.codes), rel=1e-6)
        # With two clusters there is one best way; with more, either may end in another.
        assert ours.inertia <= theirs.inertia_ * (1 + (1e-9 if k == 2 else 5e-3))
        if abs(ours.inertia / theirs.inertia_ - 1) < 1e-9:
            assert adjusted_rand_score(ours.codes, theirs.labels_) == pytest.approx(1)


def test_twelve_points_far_from_all_others_are_a_cluster():
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1e-3, (60_000, 4)).astype(np.float32)
    rare = rng.choice(len(points), 12, replace=False)
    points[rare] += [1, 0, 0, 0]
    groups = spare.infer_groups(points, np.zeros(len(points), int))
    assert groups.evidence[0].sizes == [59_988, 12]
    assert (np.flatnonzero(groups.ids == 1) == np.sort(rare)).all()
    assert groups.evidence[0].silhouette > 0.99
    assert (groups.assign(points[rare], [0] * 12) == 1).all()


def test_many_points_of_which_few_are_distinct():
    points = np.repeat(np.array([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]]), [20_000, 3_000, 7], axis=0)
    groups = spare.infer_groups(points, np.zeros(len(points), int))
    assert groups.evidence[0].sizes == [20_000, 3_000, 7]
    assert set(groups.evidence[0].scores) == {2, 3}
    assert groups.evidence[0].silhouette == pytest.approx(1)
    with pytest.warns(spare.SpareWarning, match="identical"):
        same = spare.infer_groups(np.full((20_001, 1), 0.5), [3] * 20_001)
    assert same.evidence[3].sizes == [20_001]


def test_blocks_are_all_of_the_rows_once():
    array = np.arange(2 * (BLOCK + 3), dtype=np.float32).reshape(-1, 2)
    blocks = list(Points(array).blocks())
    assert [rows.start for rows, _ in blocks] == [0, BLOCK]
    assert (np.concatenate([block for _, block in blocks]) == array).all()
    assert blocks[0][1].dtype == np.float64
