"""Tensors of any kind are as good as arrays, wherever the groups room takes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import spare
from spare.groups.arrays import as_numpy, distinct_rows
from spare.groups.environments import environments
from spare.groups.mistakes import mistakes
from spare.groups.result import groups_from_parts, parts_by_size
from spare.groups.strata import infer_strata

POINTS = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.1, 0.9], [0.2, 0.8], [0.7, 0.3]]
LABELS = [0, 0, 0, 0, 0, 1]
GROUPS = [0, 0, 0, 1, 1, 2]


class OnDevice:
    """A tensor that NumPy cannot read where it is, as one on an accelerator is."""

    def __init__(self, values):
        self._values = torch.as_tensor(values)

    def detach(self):
        return self

    def cpu(self):
        return self._values

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert device type tensor to numpy")

    def __len__(self):
        return len(self._values)


def with_gradients(values):
    tensor = torch.as_tensor(values)
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


USES = {
    "infer_groups": lambda kind: spare.infer_groups(kind(POINTS[:5]), kind(LABELS[:5])).ids,
    "assign": lambda kind: spare.infer_groups(POINTS[:5], LABELS[:5]).assign(
        kind(POINTS[:2]), kind(LABELS[:2])
    ),
    "in_majority": lambda kind: groups_from_parts(GROUPS, LABELS).in_majority(kind([0, 1, 2])),
    "groups_from_parts": lambda kind: groups_from_parts(kind(GROUPS), kind(LABELS)).ids,
    "parts_by_size": lambda kind: parts_by_size(kind(GROUPS), kind(LABELS)),
    "importance_weights": lambda kind: spare.importance_weights(kind(GROUPS), kind(LABELS)),
    "sampler": lambda kind: list(spare.ImportanceSampler(kind(GROUPS), labels=kind(LABELS))),
    "silhouette": lambda kind: spare.silhouette(kind(POINTS), kind(GROUPS)),
    "mistakes": lambda kind: mistakes(kind(POINTS), kind(LABELS)),
    "environments": lambda kind: environments(kind(POINTS), kind(LABELS), steps=0),
    "infer_strata": lambda kind: infer_strata(
        kind(POINTS[:5]), kind(LABELS[:5]), reduction="boundary", normal=kind([1.0, 0.0]),
        overcluster=False,
    ).ids,
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("kind", [torch.as_tensor, with_gradients, OnDevice])
def test_tensors_are_taken_as_arrays_are(name, kind):
    def as_double(values):
        return kind(np.asarray(values))

    assert np.array_equal(USES[name](as_double), USES[name](np.asarray))


def test_bfloat16_has_no_numpy_type_and_becomes_float32():
    array = as_numpy(torch.tensor([0.5, 2.0], dtype=torch.bfloat16))
    assert array.dtype == np.float32
    assert array.tolist() == [0.5, 2.0]


def test_distinct_rows_are_counted_no_further_than_needed():
    points = np.repeat(np.arange(4.0), [9, 2, 3, 1])[:, None]
    assert [distinct_rows(points, enough=enough) for enough in (2, 3, 4, 5)] == [2, 3, 4, 4]
    assert distinct_rows(np.array([[0.0], [-0.0]]), enough=2) == 1
