"""What makes steps on a device faster: precision, layouts, transfers, augmenting, compiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spare.data.inputs import ConcatInputs, TensorInputs
from spare.data.task import Split
from spare.data.transforms import (
    center_crop,
    compose,
    random_crop,
    random_flip,
    random_resized_crop,
    scale_bytes,
)
from spare.errors import Interrupted, RunError
from spare.models import Classifier, build
from spare.processes.world import ALONE
from spare.training import device as devices
from spare.training import loading
from spare.training.batches import shuffled
from spare.training.device import placed, sent
from spare.training.loading import evaluation_batches, training_batches
from spare.training.loop import train
from spare.training.outputs import outputs
from spare.training.settings import Settings
from tests.devices import Elsewhere, elsewhere, is_elsewhere
from tests.training.test_loop import fit, same, stop_after

SETTINGS = Settings(epochs=3, batch_size=32, lr=0.05)
HALF = replace(SETTINGS, precision="float16")


def test_float16_learns_as_float32_does(toy):
    for found, known in zip(fit(toy, HALF).history, fit(toy).history, strict=True):
        assert found["loss"] == pytest.approx(known["loss"], rel=0.05)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_float16_on_a_device_keeps_its_scale_in_a_checkpoint(toy, tmp_path, optimizer):
    settings, file = replace(HALF, optimizer=optimizer), tmp_path / "x.checkpoint"
    with elsewhere() as there:

        def work(**more):
            return fit(toy, settings, model=build(toy.build_model, (0, 1)).to(there), **more)

        straight = work().last
        with pytest.raises(Interrupted):
            work(checkpoint=file, progress=stop_after(9))
        assert same(work(checkpoint=file).last, straight)


def test_a_step_whose_gradients_overflow_is_left_out_and_the_scale_lowered(toy):
    """The first scale is 65,536: a loss of thousands overflows, and training goes on."""

    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, model, x, y, index):
            self.steps += 1
            large = 1e36 if int(self.steps) == 1 else 1.0
            return torch.nn.functional.cross_entropy(model(x).float(), y) * large

    torch.use_deterministic_algorithms(True)  # memory that nobody set is then not a number
    try:
        trained = fit(toy, replace(HALF, epochs=1), objective=Large())
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(weight.isfinite().all() for weight in trained.last.values())


def conv_task():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(64) % 2
    images = torch.randn(64, 3, 8, 8, generator=rng) + labels[:, None, None, None]
    return Split(TensorInputs(images), labels.numpy())


def conv_model():
    features = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    return Classifier(features, torch.nn.Linear(4, 2))


def test_convolutions_have_their_channels_last_on_a_device_and_as_they_were_on_the_host():
    split = conv_task()

    def work(device):
        model = placed(build(conv_model, (0,)), device)
        seen = []
        model.features.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        trained = train(model, split, SETTINGS, batches=shuffled(64, 32), key=(0,))
        return trained.last, [*seen, model.features[0].weight]

    def last(tensor):
        held = tensor.held if is_elsewhere(tensor) else tensor
        return held.is_contiguous(memory_format=torch.channels_last)

    here, tensors = work(torch.device("cpu"))
    assert not any(last(tensor) for tensor in tensors)
    with elsewhere() as device:
        there, tensors = work(device)
        assert all(is_elsewhere(tensor) and last(tensor) for tensor in tensors)
    for name, value in here.items():
        torch.testing.assert_close(there[name], value)


def test_batches_are_sent_without_waiting_and_outputs_leave_the_device_batch_by_batch(
    toy, monkeypatch
):
    whole, waiting, on_device = Elsewhere.__torch_dispatch__, [], []

    def watch(op, types, args=(), kwargs=None):
        result = whole(op, types, args, kwargs)
        if isinstance(result, torch.Tensor) and is_elsewhere(result):
            on_device.append(len(result) if result.ndim else 0)
        return result

    with elsewhere() as device:
        monkeypatch.setattr(Elsewhere, "__torch_dispatch__", staticmethod(watch))
        original = torch.Tensor.to

        def to(tensor, *given, **more):
            if given and getattr(given[0], "type", "") == device.type:
                waiting.append(not more.get("non_blocking"))
            return original(tensor, *given, **more)

        monkeypatch.setattr(torch.Tensor, "to", to)
        model = placed(build(toy.build_model, (0, 1)), device)
        waiting.clear()
        on_device.clear()
        found = outputs(model, toy.train, Settings(eval_batch_size=50))
    assert len(found.logits) == len(toy.train) == 400
    assert len(waiting) == 8
    assert not any(waiting)
    assert max(on_device) <= 50


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("normalize", [(), ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
def test_bytes_are_sent_and_what_is_random_about_a_batch_happens_on_the_device(
    in_memory, normalize, monkeypatch
):
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (24, 3, 12, 12), dtype=torch.uint8, generator=rng)
    augment, seen, crossed = compose(random_crop(10), random_flip()), [], []

    def watched(batch, rng):
        seen.append(is_elsewhere(batch))
        return augment(batch, rng)

    def watch_sending(batch, device):
        crossed.append(batch.dtype)
        return sent(batch, device)

    inputs = TensorInputs(
        images,
        view=center_crop(10),
        augment=watched,
        finish=scale_bytes(*normalize),
        in_memory=in_memory,
    )
    split = Split(inputs, np.zeros(24, dtype=int)).subset(np.arange(20))

    def batches(device):
        trained = training_batches(split, plan, [3, 1], 1, 1, ALONE, device)
        fixed = evaluation_batches(split, 7, 1, device)[1]
        return [x for _, x in trained] + list(fixed)

    plan = [np.arange(8), np.arange(8, 16), np.array([3, 19])]
    here = batches(torch.device("cpu"))
    assert len(here) == 2 + 3
    seen.clear()
    monkeypatch.setattr(loading, "sent", watch_sending)
    with elsewhere() as device:
        there = batches(device)
    assert seen == [True, True]
    assert crossed == [torch.uint8] * 5
    for mine, its in zip(there, here, strict=True):
        assert is_elsewhere(mine)
        assert mine.held.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(mine.held, its, rtol=0, atol=0)


def test_images_are_resized_on_a_device_as_on_the_host():
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 20, 20), dtype=torch.uint8, generator=rng)
    here = random_resized_crop(12)(images, np.random.default_rng(3))
    with elsewhere() as device:
        there = random_resized_crop(12)(images.to(device), np.random.default_rng(3)).cpu()
    assert (there - here.float()).abs().max() < 2  # bytes are rounded, in each direction once


def test_inputs_of_several_kinds_are_made_on_the_host_and_sent():
    one = TensorInputs(torch.ones(4, 2), augment=lambda batch, rng: batch + rng.random())
    both = Split(ConcatInputs(one, one), np.zeros(8, dtype=int))
    plan = [np.array([1, 6])]

    def batch(device):
        return next(training_batches(both, plan, [3], 0, 0, ALONE, device))[1]

    with elsewhere() as device:
        assert torch.equal(batch(device).held, batch(torch.device("cpu")))


def test_small_batches_are_made_several_at_a_time_and_large_ones_one_by_one(monkeypatch):
    plan = [np.arange(start, start + 4) for start in range(40)]

    def made_before_the_second_is_used():
        made = []

        def noisy(batch, rng):
            made.append(len(made))
            return batch + torch.from_numpy(rng.random((len(batch), 2)))

        inputs = TensorInputs(torch.zeros(50, 2), augment=noisy)
        split = Split(inputs, np.zeros(50, dtype=int))
        batches = training_batches(split, plan, [3, 1], 0, 0, ALONE, torch.device("cpu"))
        (_, first), (_, second) = next(batches), next(batches)
        ahead = len(made)
        rest = [x for _, x in batches]
        assert len(made) == len(plan)
        return ahead, torch.stack([first, second, *rest])

    several, of_several = made_before_the_second_is_used()
    monkeypatch.setattr(loading, "AHEAD_BYTES", 10)
    one, of_one = made_before_the_second_is_used()
    assert (several, one) == (1 + loading.AHEAD, 2)
    assert torch.equal(of_several, of_one)


def test_on_the_host_a_batch_is_what_it_was():
    batch = torch.ones(2, 3, 4, 4)
    assert sent(batch, torch.device("cpu")) is batch


def test_compiling_changes_no_more_than_rounding(toy, monkeypatch):
    monkeypatch.setattr(devices, "COMPILER", "eager")
    trained = fit(toy, replace(SETTINGS, compile=True))
    for name, value in fit(toy).last.items():
        torch.testing.assert_close(trained.last[name], value)
    assert "forward" not in vars(trained.model.features)


def test_what_cannot_be_compiled_is_one_sentence(toy, monkeypatch):
    def broken(graph, examples):
        raise ValueError("no compiler here")

    monkeypatch.setattr(devices, "COMPILER", broken)
    with pytest.raises(RunError, match=r"^the network cannot be compiled \(.*: use compile=false"):
        fit(toy, replace(SETTINGS, compile=True))
