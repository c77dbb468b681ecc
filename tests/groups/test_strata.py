"""GEORGE's clusters: how many, which pieces of them stand alone, and where others go."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_samples, silhouette_score

from spare.errors import InputError, SpareWarning
from spare.groups.atoms import stratified
from spare.groups.overclustering import standing_alone
from spare.groups.reduction import available_reduction, preparation
from spare.groups.silhouettes import point_silhouettes, silhouettes
from spare.groups.strata import infer_strata


def blobs(*given, seed=0):
    """Points in a plane: (how many, center, spread) each, and the blob of every point.

    Turned by 45 degrees, so that the columns have about the same spread, and standardizing them
    does not change which points are near each other.
    """
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(center, spread, (n, 2)) for n, center, spread in given])
    turned = points @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    return turned, np.repeat(np.arange(len(given)), [n for n, _, _ in given])


def strata_of(points, losses=None, **more):
    """Of one class, by place and not by direction, without a reduction, without overclustering
    unless there are losses."""
    defaults = {"scaling": "standard", "reduction": "none", "overcluster": losses is not None}
    return infer_strata(points, np.zeros(len(points), int), losses, **defaults | more)


def test_k_is_chosen_by_the_mean_over_clusters_and_not_over_points():
    # Two large blobs near each other, and a small one far away. Three clusters are best for most
    # points; the small cluster, which counts as much as a large one, speaks for two.
    points, blob = blobs((500, (0, 0), 0.22), (500, (1.7, 0), 0.22), (100, (5.2, 0), 0.05))
    two, three = np.maximum(blob, 1) - 1, blob
    assert silhouette_score(points, three) > silhouette_score(points, two)
    strata = strata_of(points, strata_max=4)
    assert (strata.ids == two).all()
    standard = (points - points.mean(0)) / points.std(0)
    for k, codes in ((2, two), (3, three)):
        values = silhouette_samples(standard, codes)
        by_cluster = np.mean([values[codes == c].mean() for c in range(k)])
        assert strata.evidence[0].scores[k] == pytest.approx(by_cluster, abs=0.01)
    assert strata.evidence[0].silhouette == max(strata.evidence[0].scores.values())


#: A wide cluster with a tight spot within it, and another cluster far away.
SPOT = ((400, (0, 0), 1.0), (60, (3.5, 0), 0.05), (300, (0, 30), 1.0))


def spot_losses(blob, spot):
    return np.where(blob == 1, spot, 1.0)


def test_a_hard_piece_stands_on_its_own_and_the_others_are_merged_back():
    points, blob = blobs(*SPOT)
    val, val_blob = blobs(*SPOT, seed=1)
    strata = strata_of(
        points, spot_losses(blob, 3.0), strata_max=2, val=(val, np.zeros(len(val), int))
    )
    expected = np.array([0, 2, 1])  # from the largest down: 400, 300, 60
    assert (strata.ids == expected[blob]).mean() > 0.99
    assert strata.evidence[0].k == 3
    assert "on their own: 1" in strata.evidence[0].note
    assert set(strata.evidence[0].scores) == {2}
    assigned = strata.assign(val, np.zeros(len(val), int))
    assert (assigned == expected[val_blob]).mean() > 0.99


def few(n):
    return ((400, (0, 0), 1.0), (n, (3.5, 0), 0.05), (300, (0, 30), 1.0))


@pytest.mark.parametrize(
    ("train", "val", "spot_loss"),
    [(SPOT, SPOT, 0.5), (few(20), SPOT, 3.0), (SPOT, few(20), 3.0), (few(0), few(0), 3.0)],
    ids=["easier than its cluster", "few in training", "few in validation", "no spot"],
)
def test_clusters_stay_as_they_were_where_no_piece_qualifies(train, val, spot_loss):
    points, blob = blobs(*train)
    val_points, _ = blobs(*val, seed=1)
    more = {"strata_max": 2, "val": (val_points, np.zeros(len(val_points), int))}
    plain = strata_of(points, **more)
    over = strata_of(points, spot_losses(blob, spot_loss), **more)
    assert plain.evidence[0].k == 2
    assert (over.ids == plain.ids).all()
    assert over.evidence == plain.evidence


def test_pieces_need_no_validation_examples_where_there_are_none():
    points, blob = blobs(*SPOT)
    assert strata_of(points, spot_losses(blob, 3.0), strata_max=2).evidence[0].k == 3


def test_every_condition_on_a_piece_counts():
    # Clusters 0 (blobs 0 and 1) and 1 (blob 2); each blob is a piece.
    points, pieces = blobs((100, (0, 0), 0.1), (50, (2, 0), 0.1), (100, (0, 5), 0.1))
    codes = np.maximum(pieces, 1) - 1
    losses = np.where(pieces == 1, 2.0, 1.0)
    enough = np.array([100, 25, 100])

    def kept(losses=losses, val_sizes=enough, pieces=pieces, points=points):
        return standing_alone(points, codes, pieces, losses, val_sizes).tolist()

    # Blob 2 was a cluster and is now nearer to its neighbor's piece: not clearer than before.
    assert kept() == [False, True, False]
    assert kept(losses=np.ones(len(losses))) == [True, True, False]  # as hard as is enough
    assert kept(losses=3 - losses) == [True, False, False]
    # Harder than the rest of its cluster, though easier than the other cluster.
    assert kept(losses=np.where(pieces == 2, 9.0, losses)) == [False, True, False]
    assert kept(val_sizes=np.array([100, 24, 100])) == [False, False, False]
    assert kept(val_sizes=None) == [False, True, False]
    # Pieces that overlap are no clearer than their cluster was.
    mixed = np.where(pieces == 2, 2, np.arange(len(pieces)) % 2)
    assert kept(losses=np.ones(len(losses)), pieces=mixed) == [False, False, False]
    # 25 of a class of 5,000 are enough, of 5,001 not.
    many, of = blobs((2500, (0, 0), 0.1), (25, (2, 0), 0.1), (2475, (0, 9), 0.1))
    codes = np.maximum(of, 1) - 1
    assert kept(np.where(of == 1, 2.0, 1.0), enough, of, many) == [False, True, False]
    more = np.concatenate([many, many[-1:]])
    codes, of = np.append(codes, 1), np.append(of, 2)
    assert kept(np.where(of == 1, 2.0, 1.0), enough, of, more) == [False, False, False]


def test_a_piece_is_clearer_than_nothing(monkeypatch):
    """A silhouette that is above what it was, but below 0, is not enough."""
    points, pieces = blobs((60, (0, 0), 1.0), (60, (0, 0), 1.0), (60, (0, 0), 1.0))
    codes = np.maximum(pieces, 1) - 1
    values = {0: np.full(180, -0.5), 1: np.full(180, -0.1)}
    monkeypatch.setattr(
        "spare.groups.overclustering.point_silhouettes", lambda *_: [values[0], values[1]]
    )
    assert not standing_alone(points, codes, pieces, np.ones(180), None).any()
    values[1][:] = 0.1
    assert standing_alone(points, codes, pieces, np.ones(180), None).all()


def test_large_classes_are_judged_by_a_sample_that_has_every_piece(monkeypatch):
    monkeypatch.setattr("spare.groups.overclustering.EXACT_LIMIT", 100)
    monkeypatch.setattr("spare.groups.overclustering.ANCHORS", 40)
    points, pieces = blobs((900, (0, 0), 0.1), (30, (2, 0), 0.1), (900, (0, 9), 0.1))
    codes = np.maximum(pieces, 1) - 1
    losses = np.where(pieces == 1, 2.0, 1.0)
    assert standing_alone(points, codes, pieces, losses, None).tolist() == [False, True, False]


def test_all_pieces_of_a_cluster_may_stand_on_their_own():
    five = [(60, (np.cos(a), np.sin(a)), 0.01) for a in np.arange(5) * 2 * np.pi / 5]
    points, _ = blobs(*five, (200, (0, 40), 1.0))
    strata = strata_of(points, np.ones(500), strata_max=2)
    assert strata.evidence[0].sizes == [200, 60, 60, 60, 60, 60]
    assert strata.ids.max() == 5


@pytest.fixture
def two_classes():
    """Five features of which the first two tell a class's blobs apart; held-out ones too."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        points, blob = blobs((150, (0, 0), 1), (50, (8, 0), 1), (120, (0, 9), 1), seed=seed)
        rest = rng.normal(0, 0.1, (len(points), 3))
        return np.concatenate([points, rest], 1) + 5, np.minimum(blob, 1), rng.random(len(points))

    return draw(0), draw(1)


NORMAL = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
FEW = {"strata_max": 4}  # where the search is not what is tested


@pytest.mark.parametrize("reduction", ["pca", "none", "boundary"])
def test_training_examples_are_assigned_to_their_own_groups_alone_or_with_others(
    two_classes, reduction
):
    (features, labels, losses), (others, other_labels, _) = two_classes
    strata = infer_strata(
        features,
        labels,
        losses,
        val=(others, other_labels),
        reduction=reduction,
        normal=NORMAL,
        **FEW,
    )
    assert (strata.assign(features, labels) == strata.ids).all()
    assert (strata.assign(features[::7], labels[::7]) == strata.ids[::7]).all()
    both = strata.assign(np.concatenate([others, features]), np.append(other_labels, labels))
    assert (both[len(others) :] == strata.ids).all()
    for label in (0, 1):  # a group is of one class, and is numbered from the largest down
        evidence = strata.evidence[label]
        assert set(both[: len(others)][other_labels == label]) <= set(evidence.ids)
        assert evidence.sizes == sorted(evidence.sizes, reverse=True)
        assert np.bincount(strata.ids)[evidence.ids].tolist() == evidence.sizes
    with pytest.raises(InputError, match="class 2 was not among"):
        strata.assign(features[:1], [2])


def test_the_same_seed_gives_the_same_groups_from_arrays_and_tensors(two_classes):
    features, labels, losses = two_classes[0]
    given = [features, labels, losses]
    arrays = infer_strata(*given, reduction="pca", seed=3, **FEW)
    tensors = infer_strata(*map(torch.tensor, given), reduction="pca", seed=3, **FEW)
    assert (arrays.ids == tensors.ids).all()
    assert arrays.evidence == tensors.evidence


def test_pca_keeps_the_two_widest_directions_of_each_class():
    points, blob = blobs((200, (0, 0), 0.3), (100, (9, 0), 0.3))
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (300, 6))
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    features = np.concatenate([points, 0.01 * noise], 1) @ turn
    strata = strata_of(features, reduction="pca", strata_max=3)
    assert (strata.ids == blob).all()


def test_the_projection_on_the_boundary_is_of_unit_length_and_blind_to_the_rest():
    points, blob = blobs((200, (0, 0), 0.3), (100, (3, 0), 0.3))
    features = np.stack([points[:, 0], 100 * (np.arange(300) % 2), points[:, 1]], 1)
    labels = np.zeros(300, int)
    more = {"reduction": "boundary", "overcluster": False, "strata_max": 3}
    strata = infer_strata(features, labels, normal=[5.0, 0.0, 0.0], **more)
    assert (strata.ids == blob).mean() > 0.99
    prepare = preparation("boundary", "standard", features, [0], [5.0, 0.0, 0.0])
    assert prepare(features)[:, 0] == pytest.approx(features[:, 0])
    other = infer_strata(features, labels, normal=[0.0, 5.0, 0.0], **more)
    assert other.evidence[0].sizes == [150, 150]
    with pytest.raises(InputError, match="two classes, and there are 3"):
        infer_strata(features, np.arange(300) % 3, normal=[5.0, 0.0, 0.0], **more)
    for wrong in (None, [1.0, 2.0], [0.0, 0.0, 0.0]):
        with pytest.raises(InputError, match="needs the boundary's normal, 3 numbers"):
            infer_strata(features, labels, normal=wrong, **more)


def test_pca_replaces_a_missing_umap_with_one_warning(two_classes, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    features, labels, losses = two_classes[0]
    with pytest.warns(SpareWarning, match="umap-learn is not installed") as caught:
        auto = infer_strata(features, labels, losses, **FEW)
    assert len(caught) == 1
    with pytest.warns(SpareWarning, match="umap-learn is not installed"):
        assert available_reduction("auto") == "pca"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = infer_strata(features, labels, losses, reduction="pca", **FEW)
    assert (auto.ids == asked.ids).all()
    with pytest.raises(InputError, match=r"needs umap-learn.*spare-ml\[george\]"):
        infer_strata(features, labels, losses, reduction="umap")


def test_umap_is_fitted_by_class_with_the_papers_settings_and_the_seed(two_classes, monkeypatch):
    made = []

    class FirstTwo:
        """Stands in for UMAP: the first two columns."""

        def __init__(self, **settings):
            made.append(settings)

        def fit_transform(self, points):
            made[-1]["fitted on"] = len(points)
            return self.transform(points)

        def transform(self, points):
            return points[:, :2].astype(np.float32)

    module = types.ModuleType("umap")
    module.UMAP = FirstTwo
    monkeypatch.setitem(sys.modules, "umap", module)
    (features, labels, losses), (others, other_labels, _) = two_classes
    small = np.append(labels, [2] * 30)  # too few for neighborhoods: PCA
    widened = np.concatenate([features, features[:30]])
    strata = infer_strata(widened, small, np.append(losses, losses[:30]), seed=4, **FEW)
    assert available_reduction("auto") == "umap"
    settings = {"n_components": 2, "n_neighbors": 10, "min_dist": 0.0, "random_state": 4}
    assert [m["fitted on"] for m in made] == [150, 170]
    for arguments in made:
        assert settings.items() <= arguments.items()
    assert (strata.assign(widened, small) == strata.ids).all()
    assert strata.assign(others, other_labels).max() < len(strata.names())


@pytest.mark.long
def test_the_real_umap_gives_the_same_groups_for_the_same_seed(two_classes):
    pytest.importorskip("umap", exc_type=ImportError)
    (features, labels, losses), (others, other_labels, _) = two_classes
    given = [features, labels, losses]
    first, second = (infer_strata(*given, reduction="umap", **FEW) for _ in range(2))
    assert (first.ids == second.ids).all()
    assert (first.assign(others, other_labels) == second.assign(others, other_labels)).all()
    assert (first.assign(features, labels) == first.ids).all()


def test_classes_that_cannot_be_clustered_are_one_cluster_with_a_warning():
    points, _ = blobs((60, (0, 0), 0.1), (30, (4, 4), 0.1))
    odd = np.concatenate([[[1.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]], np.full((40, 2), 0.5)])
    labels = ["one"] + ["two"] * 2 + ["same"] * 40 + ["normal"] * 90
    features = np.concatenate([odd, points])
    with pytest.warns(SpareWarning) as caught:
        strata = infer_strata(
            features, labels, np.ones(133), reduction="pca", val=(features, labels)
        )
    assert [str(warning.message) for warning in caught] == [
        "class 'one': only 1 example: one cluster.",
        "class 'same': all features are identical: one cluster.",
        "class 'two': only 2 examples: one cluster.",
    ]
    assert strata.evidence["one"].sizes == [1]
    assert strata.evidence["same"].sizes == [40]
    assert strata.evidence["normal"].k >= 2
    assert (strata.assign(features, labels) == strata.ids).all()


@pytest.mark.parametrize(
    "points",
    [
        np.array([[0.0], [0.0], [1.0]]),
        np.array([[0.0, 1.0]] * 30 + [[1.0, 0.0]] * 30),
        np.array([[0.0, 1.0]] * 59 + [[1e-9, 1.0]]),
        np.array([[1e6, 1.0]] * 30 + [[1e6 + 1, 1.0]] * 30 + [[-1e6, 1.0]] * 30),
        np.random.default_rng(0).normal(size=(4, 7)),
    ],
    ids=["three", "two values", "nearly identical", "large", "wider than long"],
)
@pytest.mark.parametrize("reduction", ["pca", "none"])
def test_degenerate_classes_do_not_crash(points, reduction):
    labels = np.zeros(len(points), int)
    strata = infer_strata(
        points, labels, np.ones(len(points)), val=(points[:0:-1], labels[1:]), reduction=reduction
    )
    assert (strata.assign(points, labels) == strata.ids).all()
    assert strata.evidence[0].k >= 2
    assert sum(strata.evidence[0].sizes) == len(points)


def test_validation_may_lack_a_class(two_classes):
    (features, labels, losses), (others, other_labels, _) = two_classes
    in_class = other_labels == 0
    strata = infer_strata(
        features,
        labels,
        losses,
        val=(others[in_class], other_labels[in_class]),
        reduction="pca",
        **FEW,
    )
    assert strata.evidence[1].note == ""  # no piece is found often enough in no example


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"losses": None}, "needs the loss of every example"),
        ({"losses": [1.0, 2.0]}, r"one value per example: \(2, 1\) for 5"),
        ({"strata_max": 1}, "strata_max is at least 2"),
        ({"reduction": "umpa"}, "did you mean 'umap'"),
        ({"features": [[1.0], [np.nan], [0.0], [1.0], [2.0]]}, "NaN"),
        ({"labels": [0, 1]}, "5 examples but 2 labels"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_one_clear_sentence(given, says):
    usual = {"features": np.arange(5.0), "labels": [0] * 5, "losses": np.ones(5)}
    with pytest.raises(InputError, match=says) as caught:
        infer_strata(**usual | {"reduction": "none"} | given)
    assert "\n" not in str(caught.value)


def test_silhouettes_by_cluster_and_by_point_are_those_of_scikit_learn():
    points, codes = blobs((90, (0, 0), 1), (40, (2, 0), 1), (20, (0, 3), 1))
    values = silhouette_samples(points, codes)
    by_cluster = [values[codes == c].mean() for c in range(3)]
    assert silhouettes(points, [codes])[0].by_cluster == pytest.approx(by_cluster)
    halves = codes % 2
    by_point = point_silhouettes(points, [codes, halves])
    assert by_point[0] == pytest.approx(values)
    assert by_point[1] == pytest.approx(silhouette_samples(points, halves))
    rows = stratified(codes, 30, np.random.default_rng(0))
    assert set(codes[rows]) == {0, 1, 2}
    of_rows = point_silhouettes(points, [codes, halves], rows)
    assert of_rows[0] == pytest.approx(values[rows])
    assert of_rows[1] == pytest.approx(by_point[1][rows])


def test_scaled_to_length_one_only_directions_count():
    rng = np.random.default_rng(0)
    angle = np.where(np.arange(60) < 50, 0.2, 1.2) + rng.normal(0, 0.02, 60)
    features = np.stack([np.cos(angle), np.sin(angle)], 1) * rng.uniform(1, 50, (60, 1))
    labels = np.zeros(60, int)
    unit = infer_strata(features, labels, reduction="pca", overcluster=False)
    assert unit.ids.tolist() == [0] * 50 + [1] * 10
    assert unit.assign(features[[0, 59]] * 100, [0, 0]).tolist() == [0, 1]
    plain = infer_strata(features, labels, scaling="standard", reduction="pca", overcluster=False)
    assert plain.ids.tolist() != unit.ids.tolist()
    with pytest.warns(SpareWarning, match="identical"):
        nothing = infer_strata(
            np.zeros((6, 2)), np.zeros(6, int), reduction="pca", overcluster=False
        )
    assert set(nothing.ids) == {0}
    with pytest.raises(InputError, match="unknown scaling 'unti': did you mean 'unit'"):
        infer_strata(features, labels, scaling="unti", overcluster=False)
