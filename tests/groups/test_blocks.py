"""The evidence of a class's block."""

from __future__ import annotations

import numpy as np
import pytest

from spare.groups.blocks import blocks_of
from spare.groups.result import ClassClusters


def block_with(predicted, codes):
    """The block of class 0, whose examples are predicted so; there is a class 1 that is learned."""
    labels = np.repeat([0, 1], [len(codes), 10])
    clusters = {
        0: ClassClusters(np.array(codes), {2: 0.99}, {2: 0.0}, "", None),
        1: ClassClusters(np.zeros(10, dtype=int), {}, {}, "", None),
    }
    return blocks_of(clusters, labels, np.array([*predicted, *[1] * 10]))[0]


def test_a_block_that_holds_every_mistake_is_clear():
    block = block_with([0] * 90 + [1] * 10, [0] * 90 + [1] * 10)
    assert (block.held, block.right) == (1.0, 0.0)
    assert block.clarity == pytest.approx(0.99)


def test_a_block_is_less_clear_where_as_many_mistakes_lie_among_the_rest():
    block = block_with([0] * 80 + [1] * 20, [0] * 90 + [1] * 10)
    assert (block.held, block.right) == (0.5, 0.0)
    assert block.clarity == pytest.approx(0.99 - 0.4)


def test_a_tenth_of_the_mistakes_may_lie_elsewhere_and_no_mistake_is_no_doubt():
    assert block_with([0] * 89 + [1] * 11, [0] * 90 + [1] * 10).clarity == pytest.approx(0.99)
    assert block_with([0] * 100, [0] * 90 + [1] * 10).held == 1.0
