"""A step of our training loop against one of a bare torch loop, on Colored MNIST.

    python benchmarks/steps.py --data FOLDER [--steps 1000] [--rounds 7] [--write]

Same network, optimizer, thread and images, which are in memory; the two take turns in one process,
and the ratio is the median over rounds. The bare loop has its batches cut beforehand and looks at
no loss. Ours selects its batches, looks at every loss, and with the preset's moving average, which
a bare loop has not, it is measured once more.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from data import load
from measured import keep
from torch import Tensor, nn

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.models import build
from spare.training.loop import train
from spare.training.settings import Settings


def some_batches(task: Task, settings: Settings, count: int) -> list[tuple[Tensor, Tensor]]:
    """So many batches of the task, augmented as in training."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(count):
        rows = rng.integers(0, len(task.train), settings.batch_size)
        labels = torch.as_tensor(np.asarray(task.train.labels)[rows])
        batches.append((task.train.inputs.take(rows, rng), labels))
    return batches


def bare_steps(
    model: nn.Module, settings: Settings, batches: list[tuple[Tensor, Tensor]], steps: int
) -> float:
    """Seconds of so many steps, again and again over the same batches."""
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    model.train()
    started = time.perf_counter()
    for step in range(steps):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return time.perf_counter() - started


def our_steps(model: nn.Module, settings: Settings, batches: list[tuple[Tensor, Tensor]]) -> float:
    """Seconds of as many steps as there are batches."""
    images = torch.cat([x for x, _ in batches])
    split = Split(TensorInputs(images), np.concatenate([y.numpy() for _, y in batches]))
    plan = list(np.arange(len(images)).reshape(len(batches), -1))
    started = time.perf_counter()
    train(model, split, replace(settings, epochs=1), batches=lambda rng: plan, key=(0,))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="cmnist")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="to results/engines")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task, plan = load(arguments.task, arguments.data, {}, 0)
    plain = replace(plan.settings, ema=0.0)
    batches = some_batches(task, plain, arguments.steps)
    seconds: dict[str, list[float]] = {"bare": [], "ours": [], "ours_with_average": []}
    for number in range(arguments.rounds + 1):
        bare = bare_steps(build(task.build_model, (0,)), plain, batches, len(batches))
        ours = our_steps(build(task.build_model, (0,)), plain, batches)
        average = our_steps(build(task.build_model, (0,)), replace(plain, ema=0.999), batches)
        if number:  # the first round warms up
            for name, value in zip(seconds, (bare, ours, average), strict=True):
                seconds[name].append(value)
    of_bare = np.array(seconds["bare"])
    measured = {
        "steps": arguments.steps,
        "batch_size": plain.batch_size,
        "milliseconds": {
            name: 1000 * float(np.median(values)) / arguments.steps
            for name, values in seconds.items()
        },
        "ratio": float(np.median(np.array(seconds["ours"]) / of_bare)),
        "ratio_with_average": float(np.median(np.array(seconds["ours_with_average"]) / of_bare)),
    }
    print(json.dumps(measured, indent=2))
    if arguments.write:
        keep("steps", measured)


if __name__ == "__main__":
    main()
