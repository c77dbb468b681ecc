"""Finding 8, "The API": each case that was found, by name; properties.py tries many others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import spare
from spare.errors import InputError
from spare.groups import one_class

POINTS = np.random.default_rng(0).normal(size=(6, 3))
LABELS = [0, 0, 0, 1, 1, 1]
GROUPS = [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_finding_8_the_silhouette_of_points_without_finite_distances_is_refused(value, metric):
    points = POINTS.copy()
    points[2, 1] = value
    with pytest.raises(InputError, match=r"NaN or infinite|as large as"):
        spare.silhouette(points, LABELS, metric)


@pytest.mark.parametrize("power", [400, 1e6, 1e308])
def test_finding_8_a_very_high_power_gives_all_to_the_smallest_group(power):
    weights = spare.importance_weights([0] * 90 + [1] * 10, [0] * 100, power)
    assert weights[90:] == pytest.approx([0.1] * 10)
    assert weights[:90].tolist() == [0.0] * 90


def test_finding_8_masks_are_not_lost():
    masked = np.ma.array(POINTS, mask=POINTS > 1)
    labels = np.ma.array(LABELS, mask=[True] + [False] * 5)
    for call in (
        lambda: spare.infer_groups(masked, LABELS),
        lambda: spare.infer_groups(list(masked), LABELS),
        lambda: spare.infer_groups(POINTS, labels),
        lambda: spare.importance_weights(labels, LABELS),
        lambda: spare.silhouette(masked, LABELS),
    ):
        with pytest.raises(InputError, match="masked entries"):
            call()
    unmasked = spare.infer_groups(np.ma.array(POINTS), LABELS)
    assert (unmasked.ids == spare.infer_groups(POINTS, LABELS).ids).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"position": -5}, "position of the saved state is from 0 to 6, not -5"),
        ({"position": 7}, "from 0 to 6"),
        ({"position": 1.5}, "whole number"),
        ({"epoch": -1}, "epoch"),
        ({"seed": 2**32}, "seed"),
        ({"num_samples": "6"}, "whole number"),
        (None, "a dict with seed, epoch, position"),
    ],
)
def test_finding_8_a_state_that_cannot_be_is_refused_and_changes_nothing(change, says):
    sampler = spare.ImportanceSampler(GROUPS, seed=3)
    before = sampler.state_dict()
    with pytest.raises(InputError, match=says):
        sampler.load_state_dict({} if change is None else before | {"seed": 9} | change)
    assert sampler.state_dict() == before


def test_finding_8_types_that_numpy_lacks_are_taken_or_refused():
    exact = torch.tensor([[0.0], [0.5], [4.0], [4.5], [8.0], [8.5]])
    expected = spare.infer_groups(exact, [0] * 6).ids
    for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float16):
        assert (spare.infer_groups(exact.to(kind), [0] * 6).ids == expected).all()
    assert (spare.infer_groups(exact.numpy().astype(">f4"), [0] * 6).ids == expected).all()
    for tensor in (exact.to_sparse(), exact.to("meta"), exact * 1j):
        with pytest.raises(InputError, match="outputs"):
            spare.infer_groups(tensor, [0] * 6)


@pytest.mark.parametrize("options", [{"k": 2.5}, {"k": True}, {"k": "3"}, {"k_max": 2.5},
                                     {"seed": 2**32}, {"seed": -1}, {"seed": 1.0}])  # fmt: skip
def test_finding_8_counts_and_seeds_are_whole_numbers_in_range(options):
    with pytest.raises(InputError, match=next(iter(options))):
        spare.infer_groups(POINTS, LABELS, **options)
    assert spare.infer_groups(POINTS, LABELS, k=np.int8(2), seed=np.uint32(2**32 - 1)).ids.size == 6


def test_finding_8_outputs_of_another_width_are_not_assigned():
    groups = spare.infer_groups(POINTS, LABELS)
    with pytest.raises(InputError, match=r"2 values per example, and those .* had 3"):
        groups.assign(POINTS[:, :2], LABELS)


def test_finding_8_what_is_no_map_or_no_name_is_refused():
    with pytest.raises(InputError, match="like Python's own map"):
        spare.infer_groups(POINTS, LABELS, map=lambda function, classes: None)
    with pytest.raises(InputError, match="a name for every class, and has none for 1"):
        spare.infer_groups(POINTS, LABELS).names(["a", object()])


def test_finding_7_bytes_as_labels_are_text():
    groups = spare.infer_groups(POINTS, [b"a", b"a", b"a", "ö".encode(), "ö".encode(), b"a"])
    assert set(groups.evidence) == {"a", "ö"}
    with pytest.raises(InputError, match="not UTF-8"):
        spare.infer_groups(POINTS, [b"\xff"] * 6)


@pytest.mark.parametrize("labels", [[1, "1"] * 3, ["a", "a\0"] * 3])
def test_finding_3_labels_that_an_array_would_merge_are_refused(labels):
    with pytest.raises(InputError, match="label of row"):
        spare.infer_groups(POINTS, labels)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("gap", [1.0, 3e-9])
def test_finding_4_a_search_that_is_left_out_changes_nothing(gap, monkeypatch):
    """As many clusters as points have no score, unless k-means cannot tell some points apart.

    With two pairs 3e-9 apart it finds three clusters where it is asked for four; they have a score.
    """
    quick, full = [], []
    for results in (quick, full):
        for seed in (16, 22, 27):
            points = np.random.default_rng(seed).normal(size=(2, 2))
            points = np.concatenate([points, points[:1] + gap, points[1:] - gap])
            clustered = one_class.cluster_class(points)
            results.append((clustered.codes.tolist(), clustered.scores))
        monkeypatch.setattr(one_class, "_all_apart", lambda points: False)
    assert quick == full
