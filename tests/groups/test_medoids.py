"""k-medoids by facility location: greedy, in two rounds over shares, and in one pass."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

import spare
from spare.groups import kmeans, medoids
from spare.groups.distances import frame_of
from spare.groups.points import Points
from tests.groups.test_clusters import blobs
from tests.groups.test_kmeans import early_outputs


def in_shares(array, count, k):
    """GreeDi by hand: what each share picks, and the best of those together."""
    points = Points(array)
    frame = frame_of(points)
    picked = [
        medoids.greedy(Points(array[i::count]), frame, k, i, together=False) for i in range(count)
    ]
    return medoids.best_of(points, frame, torch.cat(picked), k)


def test_greedy_saves_nearly_the_most_that_any_medoids_can():
    points = np.random.default_rng(0).normal(size=(24, 2))
    shared = Points(points)
    frame = frame_of(shared)
    scaled = frame.scaled(points)
    for k in (1, 2, 3):
        most = max(
            medoids.value(shared, frame, scaled[list(chosen)])
            for chosen in combinations(range(24), k)
        )
        found = medoids.greedy(shared, frame, k, seed=0)
        assert medoids.value(shared, frame, found) >= (0.999 if k == 1 else 0.9) * most
        assert any((scaled == row).all(1).any() for row in found)  # they are points


@pytest.mark.parametrize("seed", range(4))
def test_two_rounds_save_as_much_as_greedy_in_one_place(seed):
    points = early_outputs(seed, 3000, 5, 0.05, 4.0)
    shared = Points(points)
    frame = frame_of(shared)
    central = medoids.value(shared, frame, medoids.greedy(shared, frame, 5, seed))
    assert medoids.value(shared, frame, in_shares(points, 6, 5)) >= 0.95 * central


@pytest.mark.parametrize("seed", range(4))
def test_one_pass_saves_at_least_half_of_greedy(seed):
    points = early_outputs(seed, 3000, 5, 0.05, 4.0)
    shared = Points(points)
    frame = frame_of(shared)
    central = medoids.value(shared, frame, medoids.greedy(shared, frame, 5, seed))
    scaled = frame.scaled(points)
    found = medoids.sieve(scaled.split(500), scaled[::3], 5)
    assert 1 <= len(found) <= 5
    assert medoids.value(shared, frame, found) >= 0.5 * central


@pytest.mark.parametrize("name", ["kmedoids", "kmedoids_sieve"])
def test_medoids_of_few_and_of_many_points_find_clear_clusters(name, monkeypatch):
    points = blobs([700, 200, 100])
    few = spare.infer_groups(points, np.zeros(1000, int), clusterer=name)
    monkeypatch.setattr("spare.groups.one_class.MANY", 500)
    many = spare.infer_groups(points, np.zeros(1000, int), clusterer=name)
    for groups in (few, many):
        assert groups.evidence[0].sizes == [700, 200, 100]
        assert (groups.assign(points, np.zeros(1000, int)) == groups.ids).all()


def test_a_dozen_points_far_from_all_others_get_a_medoid():
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1e-4, (kmeans.MANY + 1, 4)).astype(np.float32)
    rare = rng.choice(len(points), 12, replace=False)
    points[rare, 0] += 1
    groups = spare.infer_groups(points, np.zeros(len(points), int), clusterer="kmedoids", k=2)
    assert (np.flatnonzero(groups.ids == 1) == np.sort(rare)).all()
