"""Colored digits, which need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from spare.datasets import digits


def test_digits_need_no_data_folder():
    task = digits.load(Path("/does/not/exist"), 0)
    assert [len(s) for s in task.splits().values()] == [900, 297, 600]
    agree = {n: (s.labels == s.attributes["color"]).mean() for n, s in task.splits().items()}
    assert 0.92 < agree["train"] < 0.98
    assert 0.4 < agree["val"] < 0.6
    assert np.bincount(task.groups(task.test)).min() > 120
    assert task.train.inputs.take(np.arange(3)).shape == (3, 3, 16, 16)


def test_validation_like_training_changes_nothing_but_validations_colors():
    usual, biased = (digits.load(Path("none"), 0, val_like=like) for like in ("test", "train"))
    for name in ("train", "test"):
        one, two = usual.splits()[name], biased.splits()[name]
        assert torch.equal(one.inputs.tensor, two.inputs.tensor)
        assert (one.attributes["color"] == two.attributes["color"]).all()
    assert (usual.val.labels == biased.val.labels).all()
    assert 0.92 < (biased.val.labels == biased.val.attributes["color"]).mean() < 0.98


def test_no_scan_is_in_two_splits():
    task = digits.load(Path("none"), 0)
    # Both colors have a full channel, so the largest channel is the scan itself.
    scans = torch.cat([s.inputs.tensor.amax(1).flatten(1) for s in task.splits().values()])
    assert len(torch.unique(scans, dim=0)) == len(scans) == 1797
