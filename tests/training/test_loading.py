"""The batches of an epoch, as one process of several is given them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare.data.inputs import ConcatInputs, DatasetInputs, TensorInputs
from spare.data.task import Split
from spare.data.transforms import random_resized_crop
from spare.processes.world import World
from spare.training.device import HOST
from spare.training.loading import training_batches

IMAGES = torch.arange(9 * 3 * 4 * 4, dtype=torch.float32).reshape(9, 3, 4, 4)


@pytest.mark.parametrize(
    "inputs",
    [
        TensorInputs(IMAGES),
        TensorInputs(IMAGES, augment=random_resized_crop(4)),
        ConcatInputs(TensorInputs(IMAGES[:5]), TensorInputs(IMAGES[5:])),
        DatasetInputs(list(IMAGES)),
    ],
    ids=["tensor", "augmented", "several", "dataset"],
)
def test_of_a_batch_smaller_than_the_number_of_processes_some_have_no_example(inputs):
    split = Split(inputs, np.zeros(9, dtype=np.int64))
    plan = [np.arange(8), np.array([8])]
    shapes = []
    for rank in range(2):
        batches = training_batches(split, plan, [0], 0, 0, World(rank=rank, size=2), HOST)
        shapes.append([tuple(batch.shape) for _, batch in batches])
    assert shapes[0] == [(4, 3, 4, 4), (0, 3, 4, 4)]
    assert shapes[1] == [(4, 3, 4, 4), (1, 3, 4, 4)]
