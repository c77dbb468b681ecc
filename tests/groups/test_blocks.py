"""The evidence of a class's block."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from spare.groups.blocks import DEEP, blocks_of, depths, usual_depth
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


def of_margins(margins):
    """The depth of class 0, whose examples lie so far on the right side."""
    margins = np.asarray(margins)
    logits = np.stack([margins, np.zeros(len(margins))], axis=1)
    return depths(logits, np.zeros(len(margins), dtype=int))[0]


def test_the_tail_of_a_class_is_not_deep_and_victims_are():
    rng = np.random.default_rng(0)
    easy = rng.normal(5, 2, 20_000)  # one in 160 lies beyond the border
    victims = rng.normal(-3, 2, 600)
    assert of_margins(easy) < 0.8 * DEEP
    assert of_margins(np.concatenate([easy, victims])) > 1.2 * DEEP


def test_depth_does_not_depend_on_how_sure_a_model_is():
    margins = np.array([3.0, 4.0, 5.0, -1.0])
    assert of_margins(margins) == pytest.approx(of_margins(10 * margins)) == pytest.approx(0.25)


def test_a_class_without_mistakes_or_with_nothing_else_has_no_depth():
    assert of_margins([1.0, 2.0]) == of_margins([-1.0, -2.0]) == of_margins([0.0, -2.0]) == 0.0


def test_of_several_classes_the_nearest_counts():
    logits = np.array([[4.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 3.0, 1.0]])
    assert depths(logits, np.zeros(3, dtype=int)) == {0: 0.75}


def two_classes(mean, victims, rng):
    """Logits of two classes around this mean, each with so many victims beyond the border."""
    margins = [
        np.concatenate([rng.normal(mean, 1, 5_000), rng.normal(-mean, 1, victims)])
        for _ in range(2)
    ]
    labels = np.repeat([0, 1], len(margins[0]))
    signed = np.concatenate([margins[0], -margins[1]])
    return np.stack([signed, np.zeros(len(signed))], axis=1), labels


def test_where_classes_overlap_deep_tails_are_usual():
    """One example in eight is mistaken: as deep as victims are, and nothing else."""
    found = depths(*two_classes(1.15, 0, np.random.default_rng(0)))
    assert usual_depth(0.125) > 1.4 * DEEP
    assert all(0.7 * DEEP < depth < DEEP for depth in found.values())


def test_victims_are_deep_where_classes_overlap_a_little():
    found = depths(*two_classes(1.9, 250, np.random.default_rng(0)))
    assert all(depth > DEEP for depth in found.values())


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_usual_depth_is_that_of_a_normal_distribution(share):
    margins = np.random.default_rng(0).normal(-NormalDist().inv_cdf(share), 1, 400_000)
    assert -margins[margins < 0].mean() / margins[margins >= 0].mean() == pytest.approx(
        usual_depth(share), rel=0.03
    )
