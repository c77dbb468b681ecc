"""A task: its groups, and who may see which labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split
from spare.errors import DataError, InputError


def hidden(split):
    return split.attributes is None


@pytest.mark.parametrize(
    ("sees", "train", "val"), [("none", True, True), ("val", True, False), ("train", False, False)]
)
def test_a_method_gets_only_the_group_labels_it_declared(toy, sees, train, val):
    visible = toy.as_seen_by(sees)
    assert hidden(visible.train) is train
    assert hidden(visible.val) is val
    assert hidden(visible.test)  # never
    if train:
        with pytest.raises(InputError, match="no group labels here"):
            visible.groups(visible.train)
    assert not hidden(toy.train)  # the runner's own task is unchanged


def test_sees_has_only_three_values(toy):
    with pytest.raises(InputError, match="none, val, train"):
        toy.as_seen_by("test")


def test_groups_are_label_times_attributes(toy):
    assert toy.group_names == ("left/land", "left/water", "right/land", "right/water")
    groups = toy.groups(toy.train)
    assert (groups == 2 * toy.train.labels + toy.train.attributes["place"]).all()


def test_several_attributes_combine_into_groups(toy):
    two = replace(
        toy,
        train=replace(
            toy.train,
            attributes={"place": toy.train.attributes["place"], "size": np.full(400, 2)},
        ),
        attribute_values={"place": ("land", "water"), "size": ("s", "m", "l")},
    )
    assert len(two.group_names) == 12
    assert two.group_names[two.groups(two.train)[0]].endswith("/l")


def test_a_class_without_a_training_example_is_refused(toy):
    with pytest.raises(DataError, match="class 'up' has no training example"):
        replace(toy, class_names=("left", "right", "up"))


def test_parts_of_different_length_are_refused():
    with pytest.raises(InputError, match="inputs 3, labels 2"):
        Split(TensorInputs(torch.zeros(3, 1)), np.zeros(2, int))
