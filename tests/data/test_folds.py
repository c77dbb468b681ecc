"""Each fold has its share of every kind, and folds differ from seed to seed."""

from __future__ import annotations

import numpy as np
import pytest

from spare.data.folds import folds, halves

KINDS = np.random.default_rng(0).permutation(np.repeat([0, 3, 5], [11, 2, 40]))


def test_each_half_has_half_of_every_kind():
    one, two = halves(KINDS, np.random.default_rng(1))
    assert sorted([*one, *two]) == list(range(53))
    for kind, least in ((0, 5), (3, 1), (5, 20)):
        assert (KINDS[one] == kind).sum() >= least
        assert (KINDS[two] == kind).sum() >= least
    assert not np.array_equal(one, halves(KINDS, np.random.default_rng(2))[0])


@pytest.mark.parametrize("count", [2, 3, 5])
def test_folds_have_equal_sizes_and_their_share_of_every_kind(count):
    fold_of = folds(KINDS, count, np.random.default_rng(0))
    assert np.ptp(np.bincount(fold_of, minlength=count)) <= 1
    for kind in np.unique(KINDS):
        assert np.ptp(np.bincount(fold_of[kind == KINDS], minlength=count)) <= 1
