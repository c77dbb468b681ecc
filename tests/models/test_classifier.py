"""Classifiers, whatever network they come from."""

from __future__ import annotations

import pytest
from torch import nn

from spare.models import Classifier, drawn_at_random
from tests.networks import made


@pytest.mark.parametrize("name", ["small_cnn", "resnet18", "swin_t"])
def test_networks_that_nobody_trained_are_told_from_those_that_share_weights(name):
    """A swin transformer has buffers that are the same in all of them."""
    one, two = (made(name, key=(key,)) for key in (0, 1))
    assert drawn_at_random(one, two)
    assert not drawn_at_random(one, one)


def test_a_trained_backbone_with_a_fresh_neck_counts_as_trained():
    backbone = nn.Linear(30, 30)
    one, two = (
        Classifier(nn.Sequential(backbone, nn.Linear(30, 4)), nn.Linear(4, 2)) for _ in range(2)
    )
    assert not drawn_at_random(one, two)
    assert not drawn_at_random(nn.Linear(2, 2), nn.Linear(2, 2))  # a head alone
