"""Statistics of images measure what their names say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.data.inputs import SubsetInputs, TensorInputs
from spare.data.viewing import pictures
from spare.images.statistics import image_statistics


def plain(*colors, side=8):
    return torch.stack(
        [torch.tensor(c, dtype=torch.uint8).view(3, 1, 1).expand(3, side, side) for c in colors]
    )


def test_brightness_and_colors():
    statistics = image_statistics(plain((0, 0, 0), (255, 255, 255), (200, 0, 0), (0, 0, 200)))
    assert statistics["brightness"][:2] == pytest.approx([0, 1])
    assert statistics["brightness"][2] > statistics["brightness"][3]  # red is brighter than blue
    assert statistics["red"] == pytest.approx([1 / 3, 1 / 3, 1, 0], abs=1e-4)
    assert statistics["blue"] == pytest.approx([1 / 3, 1 / 3, 0, 1], abs=1e-4)
    assert statistics["contrast"] == pytest.approx([0] * 4, abs=1e-6)


def test_sharpness_is_about_edges_and_not_about_contrast():
    ramp = torch.linspace(0, 255, 32).expand(3, 32, 32)
    step = torch.where(torch.arange(32) % 2 == 0, 0.0, 255.0).expand(3, 32, 32)
    faint = 100 + step / 10
    statistics = image_statistics(torch.stack([ramp, step, faint]).to(torch.uint8))
    assert statistics["sharpness"][1] > 5 * statistics["sharpness"][0]
    assert statistics["sharpness"][2] == pytest.approx(statistics["sharpness"][1], rel=0.1)
    assert statistics["contrast"][1] > 5 * statistics["contrast"][2]


def test_pictures_are_the_bytes_before_they_were_normalized_for_the_network():
    rng = np.random.default_rng(0)
    raw = torch.tensor(rng.integers(0, 256, (6, 3, 4, 4)), dtype=torch.uint8)
    inputs = TensorInputs(raw, finish=lambda x: x.float() * 7 - 3)
    assert pictures(inputs, np.array([4, 1])).equal(raw[[4, 1]])
    assert pictures(SubsetInputs(inputs, np.array([5, 2, 0])), np.array([1])).equal(raw[[2]])
    assert inputs.take(np.array([0])).dtype == torch.float32  # it still finishes for the network


def test_float_images_are_scaled_and_features_are_not_pictures():
    unit = torch.rand(3, 1, 4, 4)
    shown = pictures(TensorInputs(unit), np.arange(3))
    assert shown.shape == (3, 3, 4, 4)
    assert (shown[:, 0] == (unit[:, 0] * 255).round()).all()
    wild = pictures(TensorInputs(torch.randn(2, 3, 4, 4) * 9), np.arange(2))
    assert (wild.amin((1, 2, 3)) == 0).all()
    assert (wild.amax((1, 2, 3)) == 255).all()
    assert pictures(TensorInputs(torch.rand(3, 7)), np.arange(3)) is None
    assert pictures(TensorInputs(torch.rand(3, 5, 4, 4)), np.arange(3)) is None
