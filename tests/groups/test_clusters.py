from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture

import spare
from spare.errors import InputError, SpareWarning


def blobs(sizes, seed=0, spread=0.02, d=3):
    """Clusters of these sizes around the corners of a simplex."""
    rng = np.random.default_rng(seed)
    corners = np.eye(max(d, len(sizes)))
    return np.concatenate(
        [rng.normal(corners[i], spread, (n, len(corners))) for i, n in enumerate(sizes)]
    )


def test_finds_the_clusters_and_lists_them_by_size():
    groups = spare.infer_groups(blobs([20, 300, 80]), np.zeros(400, int))
    evidence = groups.evidence[0]
    assert evidence.k == 3
    assert evidence.sizes == [300, 80, 20]
    assert evidence.ids == [0, 1, 2]
    assert set(evidence.scores) == {2, 3, 4, 5}
    assert evidence.silhouette == max(evidence.scores.values())
    assert groups.ids[:20].tolist() == [2] * 20
    assert groups.in_majority().sum() == 300


@given(st.integers(0, 1000), st.integers(2, 6))
@settings(max_examples=10, deadline=None)
def test_scores_are_those_of_scikit_learn_for_the_same_k(seed, k_max):
    rng = np.random.default_rng(seed)
    outputs = torch.softmax(torch.tensor(rng.normal(0, 3, (150, 4))), 1).numpy()
    groups = spare.infer_groups(outputs, np.zeros(150, int), k_max=k_max, seed=seed)
    for k, score in groups.evidence[0].scores.items():
        codes = KMeans(k, n_init=10, random_state=seed).fit_predict(outputs)
        assert score == pytest.approx(silhouette_score(outputs, codes), abs=1e-4)


@pytest.mark.parametrize(
    "names",
    [(0, 1), (7, 3), (-5, 900), ("waterbird", "landbird"), (np.int64(2), np.int64(1))],
    ids=str,
)
def test_labels_may_have_gaps_be_strings_and_come_in_any_order(names):
    first, second = blobs([200, 10], 1), blobs([150, 50], 2)
    outputs = np.concatenate([first, second])
    labels = np.array([names[0]] * 210 + [names[1]] * 200)
    shuffle = np.random.default_rng(0).permutation(410)
    groups = spare.infer_groups(outputs[shuffle], labels[shuffle])
    assert groups.evidence[names[0]].sizes == [200, 10]
    assert groups.evidence[names[1]].sizes == [150, 50]
    every = [i for evidence in groups.evidence.values() for i in evidence.ids]
    assert sorted(every) == list(range(4))  # ids are unique across classes
    for name, evidence in groups.evidence.items():
        of_class = groups.ids[labels[shuffle] == name]
        assert [int((of_class == i).sum()) for i in evidence.ids] == evidence.sizes


def test_the_power_follows_the_silhouette_of_its_own_class():
    clear, vague = blobs([200, 20], 1, spread=0.005), blobs([200, 20], 1, spread=0.4)
    outputs = np.concatenate([vague, clear])
    groups = spare.infer_groups(outputs, [9] * 220 + [4] * 220, k=2)
    assert groups.evidence[4].silhouette >= 0.9
    assert groups.evidence[9].silhouette < 0.9
    assert groups.powers() == {4: 1.0, 9: 2.0}


def test_the_user_may_set_the_power_of_each_class():
    outputs = np.concatenate([blobs([50, 40], 1), blobs([50, 40], 2)])
    labels = ["b"] * 90 + ["a"] * 90
    groups = spare.infer_groups(outputs, labels, power={"a": 1.5, "b": 0.5})
    assert groups.powers() == {"a": 1.5, "b": 0.5}
    shares = groups.evidence["a"].shares
    assert shares == pytest.approx(np.array([50**-0.5, 40**-0.5]) / (50**-0.5 + 40**-0.5))
    with pytest.raises(InputError, match="'b'"):
        spare.infer_groups(outputs, labels, power={"a": 1})


def test_one_cluster_with_nearly_all_samples_gets_a_warning():
    with pytest.warns(SpareWarning, match=r"cluster of 5 examples would get 9\d.\d%"):
        spare.infer_groups(blobs([500, 5]), np.zeros(505, int), k=2, power=2.0)


def test_the_same_seed_gives_the_same_groups_from_tensors_too():
    outputs = torch.softmax(torch.randn(300, 4, generator=torch.Generator().manual_seed(0)), 1)
    labels = torch.arange(300) % 3
    first, second = (spare.infer_groups(outputs, labels, seed=5) for _ in range(2))
    assert (first.ids == second.ids).all()
    assert first.evidence == second.evidence
    assert set(first.evidence) == {0, 1, 2}


@pytest.mark.parametrize(
    ("clusterer", "k"),
    [
        (AgglomerativeClustering(), 3),
        (GaussianMixture(random_state=0), 3),
        (DBSCAN(eps=0.3), 3),
        (KMeans(n_init=3, random_state=1), 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_clusterer_is_replaceable(clusterer, k):
    before = repr(clusterer)
    groups = spare.infer_groups(blobs([60, 30, 10]), np.zeros(100, int), clusterer=clusterer)
    assert groups.evidence[0].k == k
    assert groups.evidence[0].sizes == [60, 30, 10]
    assert repr(clusterer) == before  # the user's object is not touched


def test_anything_with_fit_predict_will_do():
    class Halves:
        def fit_predict(self, points):
            return (points[:, 0] > np.median(points[:, 0])).astype(int)

    groups = spare.infer_groups(blobs([60, 40]), np.zeros(100, int), clusterer=Halves())
    assert groups.evidence[0].k == 2
    with pytest.raises(InputError, match="fit_predict"):
        spare.infer_groups(blobs([6, 4]), np.zeros(10, int), clusterer=object())


def test_held_out_examples_go_to_the_nearest_mean_of_their_own_class():
    outputs = np.concatenate([blobs([90, 10], 1), blobs([80, 20], 2)[:, ::-1]])
    labels = np.array([0] * 100 + [1] * 100)
    groups = spare.infer_groups(outputs, labels, k=2)
    assert (groups.assign(outputs, labels) == groups.ids).all()
    with pytest.raises(InputError, match="class 2"):
        groups.assign(outputs[:1], [2])


def test_a_class_with_one_example_or_identical_outputs_is_one_cluster_with_a_warning():
    outputs = np.concatenate([[[0.1, 0.9]], np.full((5, 2), 0.5), blobs([9, 4], d=2)])
    labels = ["one"] + ["same"] * 5 + ["normal"] * 13
    with pytest.warns(SpareWarning) as caught:
        groups = spare.infer_groups(outputs, labels, k=2)
    messages = [str(warning.message) for warning in caught]
    assert "class 'one': only one example: one cluster." in messages
    assert "class 'same': all outputs are identical: one cluster." in messages
    for name in ("one", "same"):
        evidence = groups.evidence[name]
        assert (evidence.k, evidence.power, evidence.silhouette) == (1, 1.0, None)
    assert groups.evidence["normal"].k == 2
    assert spare.importance_weights(groups, labels).sum() == pytest.approx(1)


def test_fewer_distinct_points_than_k_gets_a_warning():
    outputs = np.array([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 3)
    with pytest.warns(SpareWarning, match="only 2 distinct outputs, so 2 clusters instead of 4"):
        groups = spare.infer_groups(outputs, np.zeros(7, int), k=4)
    assert groups.evidence[0].sizes == [4, 3]
    searched = spare.infer_groups(outputs, np.zeros(7, int))  # a search just stops at 2
    assert set(searched.evidence[0].scores) == {2}


def test_two_examples_cannot_be_scored_but_can_be_told_apart():
    groups = spare.infer_groups([[0.0], [1.0]], [0, 0], k=2)
    assert groups.evidence[0].silhouette is None
    assert groups.evidence[0].sizes == [1, 1]


@pytest.mark.parametrize(
    ("outputs", "labels", "options", "says"),
    [
        ([[0.1], [np.nan], [np.inf]], [0, 0, 0], {}, r"2 of 3 rows of outputs .*rows 1, 2"),
        ([[0.1], [0.2]], [0, 0, 0], {}, "2 examples but 3 labels"),
        ([[0.1], [0.2]], [0.0, 1.0], {}, "labels are floats"),
        (np.zeros((0, 2)), [], {}, "shape"),
        (np.zeros((2, 2, 2)), [0, 1], {}, "shape"),
        ([["a"], ["b"]], [0, 1], {}, "numbers"),
        ([[0.1], [0.2]], [[0], [1]], {}, "one per example"),
        ([[0.1], [0.2]], [0, 1], {"k": 0}, "k is at least 1"),
        ([[0.1], [0.2]], [0, 1], {"k_max": 1}, "k_max is at least 2"),
    ],
)
def test_bad_input_is_one_clear_sentence(outputs, labels, options, says):
    with pytest.raises(InputError, match=says) as caught:
        spare.infer_groups(outputs, labels, **options)
    assert "\n" not in str(caught.value)


def test_large_classes_are_scored_on_a_sample_with_its_error(monkeypatch):
    monkeypatch.setattr("spare.groups.silhouettes.EXACT_LIMIT", 500)
    outputs = blobs([5990, 10])
    groups = spare.infer_groups(outputs, np.zeros(6000, int), k=2)
    evidence = groups.evidence[0]
    assert 0 < evidence.errors[2] < 0.01
    assert evidence.silhouette == pytest.approx(
        silhouette_score(outputs, groups.ids), abs=5 * evidence.errors[2] + 1e-9
    )


def outputs_of(goes_by, rng, columns=(0, 1)):
    """Of a model that goes by this, nearly sure."""
    right = np.clip(rng.normal(0.96, 0.01, len(goes_by)), 0.9, 0.999)
    first = np.where(goes_by == 0, right, 1 - right)
    return np.stack([first, 1 - first], 1)[:, list(columns)]


@pytest.mark.parametrize("names", [(0, 1), ("cat", "dog"), (7, 3)])
def test_the_power_by_evidence_is_one_for_victims_and_zero_for_hard_examples(names):
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 2
    shortcut = np.where(rng.random(2000) < 0.95, labels, 1 - labels)
    named = np.array(names)[labels]
    columns = np.argsort(names)  # outputs are in the order of the sorted labels
    misled = spare.infer_groups(outputs_of(shortcut, rng, columns), named, power="evidence")
    assert misled.powers() == dict.fromkeys(names, 1.0)
    clean = outputs_of(labels, rng, columns)
    assert spare.infer_groups(clean, named, power="evidence").powers() == dict.fromkeys(names, 0.0)
    assert set(spare.infer_groups(clean, named).powers().values()) == {2.0}  # as in the paper


def test_evidence_needs_one_column_per_class_and_all_examples_here():
    labels = np.arange(40) % 2
    with pytest.raises(InputError, match="not 3 for 2"):
        spare.infer_groups(np.random.default_rng(0).random((40, 3)), labels, power="evidence")
    with pytest.raises(InputError, match="unknown power"):
        spare.infer_groups(np.random.default_rng(0).random((40, 2)), labels, power="evident")
    with pytest.raises(InputError, match="engine 'local'"):
        spare.infer_groups(
            np.random.default_rng(0).random((40, 2)), labels, power="evidence", engine="processes"
        )


def test_columns_in_another_order_than_the_sorted_labels_get_a_warning():
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 2
    swapped = outputs_of(labels, rng)[:, ::-1]
    with pytest.warns(SpareWarning, match="class 0, 1 .*order of the sorted labels"):
        spare.infer_groups(swapped, labels, power="evidence")
