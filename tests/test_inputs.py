from __future__ import annotations

import numpy as np
import torch

from spare.inputs import DatasetInputs, TensorInputs, centre_crop, random_crop, scale_bytes


def test_a_random_crop_is_a_window_of_its_own_for_every_image():
    batch = torch.arange(50 * 3 * 6 * 6).reshape(50, 3, 6, 6)
    crops = random_crop(4)(batch, np.random.default_rng(0))
    assert crops.shape == (50, 3, 4, 4)
    places = set()
    for image, crop in zip(batch, crops, strict=True):
        fits = [
            (top, left)
            for top in range(3)
            for left in range(3)
            if torch.equal(image[:, top : top + 4, left : left + 4], crop)
        ]
        assert len(fits) == 1
        places.add(fits[0])
    assert len(places) == 9  # every place occurs, the last row and column too


def test_with_a_generator_augmented_without_one_fixed():
    images = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8)
    inputs = TensorInputs(images, view=centre_crop(4), augment=random_crop(4), finish=scale_bytes())
    rows = np.arange(8)
    fixed = inputs.take(rows)
    assert torch.equal(fixed, inputs.take(rows))
    torch.testing.assert_close(fixed, (images[:, :, 1:5, 1:5].float() / 255 - 0.5) / 0.5)
    one = inputs.take(rows, np.random.default_rng(1))
    assert torch.equal(one, inputs.take(rows, np.random.default_rng(1)))
    assert not torch.equal(one, fixed)


def test_a_dataset_gives_the_same_batches_as_a_tensor():
    images = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8)
    how = {"view": centre_crop(4), "augment": random_crop(4), "finish": scale_bytes()}
    in_memory, from_pairs = (
        TensorInputs(images, **how),
        DatasetInputs([(i, 0) for i in images], **how),
    )
    rows = np.array([5, 1, 1])
    for key in (None, 3):
        rng = [None if key is None else np.random.default_rng(key) for _ in range(2)]
        assert torch.equal(in_memory.take(rows, rng[0]), from_pairs.take(rows, rng[1]))
