"""Colored MNIST: colors, splits, crops and what a seed decides."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spare.datasets import cmnist, mnist
from spare.errors import InputError
from spare.models.small import lenet5


@pytest.fixture
def fake_mnist(monkeypatch):
    """Noise digits in MNIST's sizes, so that the rules can be checked without the files."""
    rng = np.random.default_rng(0)

    def digits(n):
        images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        return mnist.Digits(images, rng.integers(0, 10, n, dtype=np.uint8))

    made = digits(52_000), digits(1_000)
    monkeypatch.setattr(mnist, "read_mnist", lambda data: made)
    return made


def test_painting_replaces_strokes_and_keeps_the_fringe_and_the_background():
    gray = torch.tensor([[[0, 119], [120, 255]]], dtype=torch.uint8)
    painted = cmnist.paint(gray, torch.tensor([[0x85, 0xFF, 0x00]]))
    assert painted.dtype == torch.uint8
    assert painted[0, :, 0, 0].tolist() == [0, 0, 0]
    assert painted[0, :, 0, 1].tolist() == [119, 119, 119]
    assert painted[0, :, 1, 0].tolist() == painted[0, :, 1, 1].tolist() == [0x85, 0xFF, 0]


def test_resizing_is_pils_bilinear():
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 3), dtype=np.uint8)
    ours = cmnist.resize(torch.from_numpy(image).permute(2, 0, 1)[None], 40)[0].permute(1, 2, 0)
    theirs = np.asarray(Image.fromarray(image).resize((40, 40), Image.Resampling.BILINEAR))
    assert np.abs(ours.numpy().astype(int) - theirs.astype(int)).max() <= 1


def test_colors_are_those_of_the_class_with_p_corr_else_uniform_over_the_others():
    labels = np.repeat(np.arange(5), 20_000)
    color = cmnist.correlated_colors(labels, 5, 0.9, np.random.default_rng(0))
    table = np.zeros((5, 5))
    np.add.at(table, (labels, color), 1 / 20_000)
    assert np.diag(table) == pytest.approx([0.9] * 5, abs=0.01)
    assert table[~np.eye(5, dtype=bool)] == pytest.approx([0.025] * 20, abs=0.005)


def test_the_splits(fake_mnist):
    task = cmnist.load(Path("none"), 0)
    assert [len(task.train), len(task.val), len(task.test)] == [50_000, 2_000, 1_000]
    assert len(task.group_names) == 25
    assert task.group_names[1] == "0-1/#85ff00"
    agree = {n: (s.labels == s.attributes["color"]).mean() for n, s in task.splits().items()}
    assert agree["train"] == pytest.approx(0.995, abs=0.002)
    assert agree["val"] == pytest.approx(0.2, abs=0.03)
    assert agree["test"] == pytest.approx(0.2, abs=0.04)
    assert (task.test.labels == fake_mnist[1].labels // 2).all()


def test_validation_like_training_changes_nothing_but_validations_colors(fake_mnist):
    usual, biased = (cmnist.load(Path("none"), 0, val_like=like) for like in ("test", "train"))
    for name in ("train", "test"):
        one, two = usual.splits()[name], biased.splits()[name]
        assert torch.equal(one.inputs.tensor, two.inputs.tensor)
        assert (one.labels == two.labels).all()
        assert (one.attributes["color"] == two.attributes["color"]).all()
    assert (usual.val.labels == biased.val.labels).all()
    agree = (biased.val.labels == biased.val.attributes["color"]).mean()
    assert agree == pytest.approx(0.995, abs=0.005)
    with pytest.raises(InputError, match=r"val_like.*did you mean 'train'"):
        cmnist.load(Path("none"), 0, val_like="training")


def test_what_the_network_sees(fake_mnist):
    task = cmnist.load(Path("none"), 0, train_size=500)
    rows = np.arange(20)
    pixels = task.train.inputs.take(rows)
    assert pixels.shape == (20, 3, 32, 32)
    assert -1 <= pixels.min() < pixels.max() <= 1
    # The clustered view is the fixed center crop; training crops move; val and test never do.
    assert torch.equal(pixels, task.train.inputs.take(rows))
    assert not torch.equal(pixels, task.train.inputs.take(rows, np.random.default_rng(0)))
    again = cmnist.load(Path("none"), 0, train_size=500)
    for split in ("val", "test"):
        one, two = getattr(task, split).inputs, getattr(again, split).inputs
        assert torch.equal(one.take(rows), two.take(rows, np.random.default_rng(1)))


def test_a_seed_decides_everything_and_another_seed_differs(fake_mnist):
    one, same, other = (cmnist.load(Path("none"), s, train_size=300) for s in (3, 3, 4))
    assert (one.train.labels == same.train.labels).all()
    assert torch.equal(one.train.inputs.tensor, same.train.inputs.tensor)
    assert (one.train.labels != other.train.labels).any()


def test_palettes(fake_mnist):
    paper = cmnist.load(Path("none"), 0, train_size=50)
    distinct = cmnist.load(Path("none"), 0, train_size=50, palette="distinct")
    assert paper.attribute_values["color"][4] == "#ff0018"
    assert distinct.attribute_values["color"][4] == "#b800ff"
    assert not torch.equal(paper.train.inputs.tensor, distinct.train.inputs.tensor)
    with pytest.raises(InputError, match="did you mean 'paper'"):
        cmnist.load(Path("none"), 0, palette="papr")


def test_lenet5_is_lenet5():
    model = lenet5(5)
    shapes = [tuple(p.shape) for p in model.parameters()]
    assert shapes == [
        (6, 3, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,),
        (5, 84), (5,),
    ]  # fmt: skip
    assert model.features(torch.zeros(2, 3, 32, 32)).shape == (2, 84)


def test_the_real_mnist(real_data):
    """Real MNIST: sizes, and a fingerprint so that the task does not change unnoticed."""
    task = cmnist.load(real_data, 0)
    assert [len(s) for s in task.splits().values()] == [50_000, 10_000, 10_000]
    minority = (task.train.labels != task.train.attributes["color"]).sum()
    assert 200 < minority < 300
    test_counts = np.bincount(task.groups(task.test))
    assert len(test_counts) == 25
    assert test_counts.min() > 330
    drawn = np.concatenate(
        [np.stack([s.labels, s.attributes["color"]]) for s in task.splits().values()], 1
    )
    assert hashlib.sha256(drawn.astype(np.int64).tobytes()).hexdigest() == FINGERPRINT


FINGERPRINT = "b5623c1ecf8463389ae9df891af8917ca1d3d4d748c9724157d1c7587eaa9fe7"
