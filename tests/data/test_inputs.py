"""Inputs: batches, augmentation, subsets and concatenation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from spare.data.inputs import ConcatInputs, DatasetInputs, SubsetInputs, TensorInputs
from spare.data.transforms import (
    center_crop,
    compose,
    random_crop,
    random_flip,
    random_resized_crop,
    scale_bytes,
)
from spare.errors import InputError


def test_every_image_is_cropped_at_its_own_random_position():
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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_bytes_are_cropped_where_other_numbers_are_and_keep_their_layout(layout):
    images = torch.randint(0, 256, (20, 3, 6, 6), dtype=torch.uint8).contiguous(
        memory_format=layout
    )
    crops, floats = (
        random_crop(4)(batch, np.random.default_rng(0)) for batch in (images, images.float())
    )
    assert crops.is_contiguous(memory_format=layout)
    assert torch.equal(crops.float(), floats)


def test_inputs_are_augmented_with_a_generator_and_fixed_without_one():
    images = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8)
    inputs = TensorInputs(images, view=center_crop(4), augment=random_crop(4), finish=scale_bytes())
    rows = np.arange(8)
    fixed = inputs.take(rows)
    assert torch.equal(fixed, inputs.take(rows))
    torch.testing.assert_close(fixed, (images[:, :, 1:5, 1:5].float() / 255 - 0.5) / 0.5)
    one = inputs.take(rows, np.random.default_rng(1))
    assert torch.equal(one, inputs.take(rows, np.random.default_rng(1)))
    assert not torch.equal(one, fixed)


def test_a_dataset_gives_the_same_batches_as_a_tensor():
    images = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8)
    how = {"view": center_crop(4), "augment": random_crop(4), "finish": scale_bytes()}
    in_memory, from_pairs = (
        TensorInputs(images, **how),
        DatasetInputs([(i, 0) for i in images], **how),
    )
    rows = np.array([5, 1, 1])
    for key in (None, 3):
        rng = [None if key is None else np.random.default_rng(key) for _ in range(2)]
        assert torch.equal(in_memory.take(rows, rng[0]), from_pairs.take(rows, rng[1]))


def images(n: int, size: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_splits_share_a_tensor_as_subsets(layout):
    tensor = images(8).contiguous(memory_format=layout)
    inputs = SubsetInputs(TensorInputs(tensor, in_memory=False), np.array([7, 2, 5]))
    assert len(inputs) == 3
    assert not inputs.in_memory
    batch = inputs.take(np.array([2, 0, 2]))
    assert torch.equal(batch, tensor[[5, 7, 5]])
    assert batch.is_contiguous(memory_format=layout)
    batch[0] = 0  # a copy: the shared tensor is not touched
    assert tensor[5].any()


def test_tensor_inputs_are_all_rows_of_the_tensor():
    tensor = images(4)
    inputs = TensorInputs(tensor)
    assert inputs.in_memory
    assert torch.equal(inputs.take(np.array([3, 1])), tensor[[3, 1]])


def test_about_half_of_the_images_are_flipped():
    batch = images(1000)
    before = batch.clone()
    flipped = random_flip()(batch, np.random.default_rng(0))
    assert torch.equal(batch, before)
    mirrored = torch.tensor(
        [torch.equal(a, b.flip(2)) for a, b in zip(flipped, batch, strict=True)]
    )
    same = torch.tensor([torch.equal(a, b) for a, b in zip(flipped, batch, strict=True)])
    assert (mirrored ^ same).all()
    assert 430 < mirrored.sum() < 570


def test_a_window_of_the_full_area_is_the_image_resized():
    batch = images(5, 12)
    full_area = random_resized_crop(8, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    expected = v2.functional.resize(batch, [8, 8], antialias=True)
    result = full_area(batch, np.random.default_rng(0))
    assert result.dtype == torch.uint8
    assert (result.int() - expected.int()).abs().max() <= 1


def test_windows_have_the_requested_areas_shapes_and_positions():
    height, width = 100, 160
    rows = torch.arange(height, dtype=torch.uint8).view(1, 1, -1, 1).expand(500, 1, -1, width)
    columns = torch.arange(width, dtype=torch.uint8).view(1, 1, 1, -1).expand(500, 1, height, -1)
    batch = torch.cat([rows, columns, columns], 1)
    crops = random_resized_crop(50, scale=(0.1, 0.5))(batch, np.random.default_rng(0)).float()
    top, bottom = crops[:, 0, 0].mean(1), crops[:, 0, -1].mean(1)
    left, right = crops[:, 1, :, 0].mean(1), crops[:, 1, :, -1].mean(1)
    # The middles of the outermost of 50 pixels are 49/50 of the window apart.
    tall, wide = (bottom - top) * 50 / 49, (right - left) * 50 / 49
    share = tall * wide / (height * width)
    assert 0.08 < share.min() < 0.14
    assert 0.42 < share.max() < 0.53
    assert 0.27 < share.mean() < 0.33
    ratio = wide / tall
    assert 0.7 < ratio.min() < 0.8
    assert 1.25 < ratio.max() < 1.42
    assert left.min() < 4
    assert right.max() > width - 5
    assert top.min() < 4
    assert bottom.max() > height - 5


def test_a_window_that_never_fits_is_the_whole_image():
    batch = images(3, 10)[:, :, :1]  # one line: no window of this shape has this area
    crops = random_resized_crop(4, scale=(1.0, 1.0), ratio=(1.0, 1.0))(
        batch, np.random.default_rng(0)
    )
    expected = v2.functional.resize(batch, [4, 4], antialias=True)
    assert (crops.int() - expected.int()).abs().max() <= 1


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_same_generator_makes_the_same_batch(layout):
    batch = images(40, 20)
    augment = compose(random_resized_crop(12), random_flip(), random_crop(10))
    first = augment(batch, np.random.default_rng(3))
    assert first.shape == (40, 3, 10, 10)
    torch.manual_seed(1)  # torch's own generator has no say in it
    again = augment(batch.contiguous(memory_format=layout), np.random.default_rng(3))
    assert torch.equal(first, again)
    assert not torch.equal(first, augment(batch, np.random.default_rng(4)))


def test_transforms_are_composed_in_order():
    add, double = (lambda x, rng: x + 1), (lambda x, rng: x * 2)
    rng = np.random.default_rng(0)
    assert compose(add, double)(torch.tensor(3), rng) == 8
    assert compose()(torch.tensor(3), rng) == 3


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_bytes_are_scaled_by_channel(layout):
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    batch = images(5, 9).contiguous(memory_format=layout)
    before = batch.clone()
    expected = v2.functional.normalize(batch.float() / 255, list(mean), list(std))
    scaled = scale_bytes(mean, std)(batch)
    torch.testing.assert_close(scaled, expected, rtol=1e-5, atol=1e-6)
    assert scaled.dtype == torch.float32
    assert scaled.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch, before)
    torch.testing.assert_close(scale_bytes(0.5, (0.5, 0.5, 0.5))(batch), scale_bytes()(batch))


def test_statistics_for_another_number_of_channels_are_an_error():
    with pytest.raises(InputError, match="1 channels, but the mean and standard deviation have 3"):
        scale_bytes((0.1, 0.2, 0.3), 1.0)(images(2)[:, :1])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_concatenated_inputs_are_numbered_consecutively_and_returned_in_order(layout):
    tensor = images(9).contiguous(memory_format=layout)
    both = ConcatInputs(
        TensorInputs(tensor[:3]), SubsetInputs(TensorInputs(tensor), np.array([8, 4]))
    )
    assert len(both) == 5
    batch = both.take(np.array([4, 0, 3, 2, 4]))
    assert torch.equal(batch, tensor[[4, 0, 8, 2, 4]])
    assert batch.is_contiguous(memory_format=layout)
    assert torch.equal(both.take(np.array([3, 4])), tensor[[8, 4]])


def test_each_part_of_concatenated_inputs_keeps_its_own_augmentation():
    tensor = images(6)
    how = {"view": center_crop(4), "finish": scale_bytes()}
    fixed, moving = TensorInputs(tensor, **how), TensorInputs(tensor, augment=random_crop(4), **how)
    both = ConcatInputs(fixed, moving)
    rows = np.arange(12)
    assert torch.equal(both.take(rows), torch.cat([fixed.take(np.arange(6))] * 2))
    one = both.take(rows, np.random.default_rng(1))
    assert torch.equal(one, both.take(rows, np.random.default_rng(1)))
    assert torch.equal(one[:6], fixed.take(np.arange(6)))
    assert torch.equal(one[6:], moving.take(np.arange(6), np.random.default_rng(1)))


def test_concatenated_inputs_are_in_memory_if_all_are_and_can_be_pickled():
    here, there = TensorInputs(images(2)), TensorInputs(images(3), in_memory=False)
    assert ConcatInputs(here, here).in_memory
    assert not ConcatInputs(here, there).in_memory
    copied = pickle.loads(pickle.dumps(ConcatInputs(here, there)))
    rows = np.array([4, 1])
    assert torch.equal(copied.take(rows), ConcatInputs(here, there).take(rows))
