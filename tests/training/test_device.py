"""Devices: which there are, training on one that is not the CPU, running out of memory.

Tests of the device `elsewhere` (tests/devices.py) use CUDA too where there is any.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from spare.errors import InputError, Interrupted, RunError
from spare.models import build
from spare.training import loop
from spare.training.batches import shuffled
from spare.training.device import device_named, enough_memory, is_there
from spare.training.loop import train
from spare.training.losses import LOOK_EVERY
from spare.training.outputs import outputs
from spare.training.settings import Settings
from tests.devices import BACKEND, NAME, elsewhere, is_elsewhere
from tests.training.test_loop import Remembering, fit, same, stop_after

SETTINGS = Settings(epochs=3, batch_size=32, lr=0.05)


def fit_on(device, task, settings=SETTINGS, **more):
    return fit(task, settings, model=build(task.build_model, (0, 1)).to(device), **more)


def test_a_device_is_named_as_torch_names_it_and_auto_is_the_accelerator():
    assert device_named("cpu") == device_named("cpu:0") == torch.device("cpu")
    with elsewhere() as device:
        assert device_named("auto") == device
        assert device_named(f"{NAME}:1") == torch.device(NAME, 1)
        assert is_there(NAME)
        with pytest.raises(
            InputError, match=rf"there is no device {NAME}:2 here, only cpu, {NAME}:0"
        ):
            device_named(f"{NAME}:2")
    assert not is_there(NAME)
    with pytest.raises(InputError, match=rf"no device {NAME} here, only cpu.*use --device auto"):
        device_named(NAME)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_auto_is_the_cpu_where_there_is_nothing_else():
    assert device_named("auto") == torch.device("cpu")


FAULTS = """
import resource, sys, torch
from spare.training.device import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit("not glibc")
for number in range(30):
    torch.ones(20_000_000)
    if number == 19:  # by then the allocator has found places that it can use again
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_of_freed_tensors_is_used_again_instead_of_being_asked_for_anew():
    faults = {}
    for how in ("plain", "keep"):
        done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True)
        if "not glibc" in done.stderr:
            pytest.skip("this system's allocator has no such setting")
        faults[how] = int(done.stdout)
    of_one = 80_000_000 / resource.getpagesize()
    assert faults["plain"] > 9 * of_one  # ten tensors, each anew
    assert faults["keep"] < 1.5 * of_one


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_checkpoint_moves_between_devices(toy, tmp_path, optimizer, ema):
    settings = replace(SETTINGS, optimizer=optimizer, ema=ema)
    straight = fit(toy, settings, objective=Remembering()).last
    file = tmp_path / "x.checkpoint"

    def stopped(step, device):
        with pytest.raises(Interrupted):
            fit_on(device, toy, settings, objective=Remembering(), checkpoint=file,
                   progress=stop_after(step))  # fmt: skip

    with elsewhere() as device:
        stopped(9, device)
        stopped(5, torch.device("cpu"))
        stopped(3, device)
        back = fit_on(device, toy, settings, objective=Remembering(), checkpoint=file)
        assert all(is_elsewhere(weight) for weight in back.model.parameters())
    assert same(back.last, straight)


class Breaks(torch.nn.Module):
    """A loss that is not a number from some step on."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, model, x, y, index):
        self.calls += 1
        loss = torch.nn.functional.cross_entropy(model(x), y)
        return loss * torch.nan if self.calls >= self.at else loss


def test_a_loss_that_is_not_finite_is_caught_soon_and_the_checkpoint_is_from_before(toy, tmp_path):
    settings, file = replace(SETTINGS, epochs=2, batch_size=4), tmp_path / "x.checkpoint"
    straight = fit(toy, settings).last
    with elsewhere() as device:
        with pytest.raises(Interrupted):
            fit_on(device, toy, settings, checkpoint=file, progress=stop_after(20))
        before = file.read_bytes()
        objective = Breaks(at=11)
        with pytest.raises(RunError, match=r"loss became nan at epoch 1, step 31 \(learning rate"):
            fit_on(device, toy, settings, checkpoint=file, objective=objective)
        assert objective.calls <= 11 + LOOK_EVERY
        assert file.read_bytes() == before
        assert same(fit_on(device, toy, settings, checkpoint=file).last, straight)


def test_nothing_is_written_that_is_not_finite(toy, tmp_path, monkeypatch):
    """Not even where a checkpoint is due at every step, before a loss has shown it."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    file = tmp_path / "x.checkpoint"

    def infinite_slope(model, x, y, index):
        weight = model.head.weight
        pulled = (weight - weight.detach()).abs().sqrt().sum()
        return torch.nn.functional.cross_entropy(model(x), y) + pulled

    with elsewhere() as device, pytest.raises(RunError, match=r"a weight became .* step 1 "):
        fit_on(device, toy, checkpoint=file, objective=infinite_slope)
    assert not file.exists()


def test_the_host_waits_for_the_device_now_and_then_but_not_at_each_step(toy):
    settings = replace(SETTINGS, epochs=1, batch_size=2)  # 200 steps
    with elsewhere() as device:
        fit_on(device, toy, settings)
        assert 200 / LOOK_EVERY <= BACKEND.waits < 20


def test_outputs_are_on_the_host_and_the_same(toy):
    model = build(toy.build_model, (0, 1))
    expected = outputs(model, toy.train, SETTINGS, features=True)
    with elsewhere() as device:
        found = outputs(model.to(device), toy.train, SETTINGS, features=True)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.features, expected.features)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_cuda_trains_almost_as_the_cpu_does(toy, precision):
    settings = replace(SETTINGS, precision=precision)
    trained, expected = fit_on(device_named("cuda"), toy, settings), fit(toy, settings)
    for found, known in zip(trained.history, expected.history, strict=True):
        assert found["loss"] == pytest.approx(known["loss"], rel=0.1)


def test_running_out_of_memory_says_what_was_asked_and_what_to_lower(toy):
    with elsewhere() as device:
        model = build(toy.build_model, (0, 1)).to(device)
        for work, says in (
            (lambda: train(model, toy.train, SETTINGS, batches=shuffled(400, 32), key=(0,)),
             "training with batches of 32 in float32 (it asked for 2.50 GiB more): lower "
             "batch_size, and raise accumulate"),
            (lambda: outputs(model, toy.train, SETTINGS),
             "the outputs of 1000 examples at a time (it asked for 2.50 GiB more): lower "
             "eval_batch_size"),
        ):  # fmt: skip
            BACKEND.room = 5
            with pytest.raises(RunError, match=re.escape(says)):
                work()
            BACKEND.room = None


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("sizes do not match", "^sizes do not match$"),
        (
            "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 4000 bytes. Error code 12 (Cannot allocate memory)",
            r"^cpu has too little memory for this \(it asked for 4000 bytes more\): lower that\.$",
        ),
        ("MPS backend out of memory", "^cpu has too little memory for this: lower that"),
    ],
)
def test_only_what_is_about_memory_becomes_a_sentence_about_memory(said, becomes):
    def work():
        with enough_memory(torch.device("cpu"), "this", "lower that"):
            raise RuntimeError(said)

    with pytest.raises((RuntimeError, RunError), match=becomes):
        work()


def test_a_whole_run_on_a_device_gives_the_scores_of_the_host(tmp_path):
    from tests.walks import run

    few = {"epochs": "2", "selection": "val_average"}
    on_host = run("digits", "spare", 0, tmp_path / "host", overrides=few)
    with elsewhere():
        there = run("digits", "spare", 0, tmp_path / "there", overrides=few | {"device": "auto"})
    assert there["settings"]["device"] == NAME
    assert there["scores"] == on_host["scores"]
