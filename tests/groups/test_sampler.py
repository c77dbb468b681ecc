from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import spare
from spare.errors import InputError

GROUPS = [0] * 90 + [1] * 10


def test_the_epoch_is_as_long_as_the_data_and_clusters_are_balanced():
    sampler = spare.ImportanceSampler(GROUPS)
    rows = list(sampler)
    assert len(rows) == len(sampler) == 100
    many = np.array(list(spare.ImportanceSampler(GROUPS, num_samples=40_000)))
    assert (many >= 90).mean() == pytest.approx(0.5, abs=0.02)
    assert np.bincount(many, minlength=100).min() > 0


def test_it_takes_two_lines_in_anyones_training_loop():
    torch.manual_seed(0)
    outputs = torch.softmax(torch.randn(200, 3) * 4, 1)
    labels = torch.arange(200) % 2
    groups = spare.infer_groups(outputs, labels)
    sampler = spare.ImportanceSampler(groups)
    loader = DataLoader(TensorDataset(outputs, labels), batch_size=32, sampler=sampler)
    assert sum(len(y) for _, y in loader) == 200


def test_seed_and_epoch_decide_the_sample():
    first, second = (spare.ImportanceSampler(GROUPS, seed=3) for _ in range(2))
    assert list(first) == list(second)
    second.set_epoch(1)
    assert list(first) != list(second)
    assert list(first) != list(spare.ImportanceSampler(GROUPS, seed=4))


def test_sampling_leaves_the_global_generators_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(spare.ImportanceSampler(GROUPS))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


@given(st.integers(0, 99), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_an_epoch_continues_from_a_saved_state(stop, epoch):
    sampler = spare.ImportanceSampler(GROUPS, seed=1)
    sampler.set_epoch(epoch)
    undisturbed = list(sampler)
    started = iter(sampler)
    before = [next(started) for _ in range(stop)]
    resumed = spare.ImportanceSampler(GROUPS, seed=99)
    resumed.load_state_dict(sampler.state_dict())
    assert before + list(resumed) == undisturbed
    resumed.set_epoch(epoch)  # setting the same epoch again, as loops do, changes nothing
    assert list(resumed) == undisturbed


def test_an_epoch_that_was_abandoned_does_not_shorten_the_next():
    sampler = spare.ImportanceSampler(GROUPS)
    first = next(iter(sampler))
    epoch = list(sampler)
    assert len(epoch) == 100
    assert epoch[0] == first


@given(st.integers(1, 7), st.integers(1, 200))
@settings(max_examples=40, deadline=None)
def test_processes_take_disjoint_strides_of_one_common_sample(replicas, length):
    parts = [
        spare.ImportanceSampler(GROUPS, num_samples=length, num_replicas=replicas, rank=rank)
        for rank in range(replicas)
    ]
    lists = [list(part) for part in parts]
    assert len({len(rows) for rows in lists}) == 1
    assert len(lists[0]) * replicas >= length
    common = list(spare.ImportanceSampler(GROUPS, num_samples=len(lists[0]) * replicas))
    assert [index for row in zip(*lists, strict=True) for index in row] == common


def test_a_state_of_another_shape_is_refused():
    state = spare.ImportanceSampler(GROUPS, num_samples=10).state_dict()
    with pytest.raises(InputError, match="num_samples"):
        spare.ImportanceSampler(GROUPS).load_state_dict(state)


@pytest.mark.parametrize(
    "arguments", [{"rank": 2, "num_replicas": 2}, {"num_samples": 0}, {"seed": -1}]
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(InputError):
        spare.ImportanceSampler(GROUPS, **arguments)


def test_an_integer_per_example_with_labels_balances_within_classes():
    sampler = spare.ImportanceSampler(
        [0] * 60 + [1] * 20 + [2] * 20,
        labels=[0] * 80 + [1] * 20,
        power=2.0,
        num_samples=30_000,
    )
    rows = np.array(list(sampler))
    assert (rows >= 80).mean() == pytest.approx(0.5, abs=0.02)
    inside = rows[rows < 80]
    assert (inside >= 60).mean() == pytest.approx(0.75, abs=0.02)  # 20^-1 against 60^-1


@pytest.mark.long
def test_more_examples_than_torch_multinomial_takes():
    n = 2**24 + 1000
    groups = np.zeros(n, dtype=np.int8)
    groups[-10:] = 1
    rows = np.array(list(spare.ImportanceSampler(groups, num_samples=1000)))
    assert (rows >= n - 10).mean() == pytest.approx(0.5, abs=0.1)


WORKER = """
import sys
import torch.distributed as dist
import spare

rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
sampler = spare.ImportanceSampler([0] * 90 + [1] * 10, seed=5)
sampler.set_epoch(3)
print(*sampler)
dist.destroy_process_group()
"""


def test_real_processes_find_their_own_stride(tmp_path):
    """Two processes of torch.distributed, told nothing: disjoint halves of one sample."""
    command = [sys.executable, "-c", WORKER]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    halves = [list(map(int, worker.communicate(timeout=120)[0].split())) for worker in workers]
    alone = spare.ImportanceSampler(GROUPS, seed=5)
    alone.set_epoch(3)
    assert [index for pair in zip(*halves, strict=True) for index in pair] == list(alone)
