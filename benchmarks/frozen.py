"""Seconds to compute what frozen layers give, once, and seconds per epoch of the rest.

    python benchmarks/frozen.py --data FOLDER --model benchmarks.resnet50_keras:network \\
        --until layer4 --size 128 [--images 400] [--batch-size 32] [--normalize imagenet]

On some images of Waterbirds' training split, one thread, extrapolated to all of them. Run it from
the project's root.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from spare.datasets import locate
from spare.methods import METHODS
from spare.models import build, builder
from spare.progress import SILENT
from spare.runs.plan import make_plan
from spare.training.batches import shuffled
from spare.training.frozen import with_frozen_layers
from spare.training.loop import train
from spare.training.outputs import outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--until", required=True)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--normalize", default="imagenet")
    parser.add_argument("--all-layers", action="store_true", help="time an epoch of all layers too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    overrides = {
        "model": arguments.model,
        "frozen_until": arguments.until,
        "resize": arguments.size,
        "crop": arguments.size,
        "normalize": arguments.normalize,
        "augment": "none",
        "epochs": 1,
        "batch_size": arguments.batch_size,
        "workers": 0,
    }
    plan = make_plan(locate("waterbirds", arguments.data, {}), METHODS["erm"], overrides)
    task = plan.load_task(0, SILENT)
    total, count = len(task.train), min(arguments.images, len(task.train))
    scale = total / count
    few = task.train.subset(np.arange(total)[:: max(1, total // count)][:count])
    # Without its content's name nothing is kept, and nothing kept is found.
    part = type(task)(task.name, few, None, None, task.class_names, task.attribute_values)

    started = _clocks()
    cut = with_frozen_layers(part, plan.model, plan.settings)
    trunk = _since(started)
    started = _clocks()
    trained = train(
        build(cut.build_model, (0,)),
        cut.train,
        plan.settings,
        batches=shuffled(count, arguments.batch_size),
        key=(0,),
    )
    epoch = _since(started)
    started = _clocks()
    outputs(trained.model, cut.train, plan.settings)
    evaluation = _since(started)
    kept = cut.train.inputs.tensor
    print(
        f"{arguments.model} until {arguments.until}, {arguments.size} px, batches of "
        f"{arguments.batch_size}: {'x'.join(map(str, kept.shape[1:]))} values per image, "
        f"{kept[:1].nbytes / 1e3:.0f} kB; for {total:,} images, seconds of one processor "
        f"(of the clock):"
    )
    rows = {"frozen layers, once": trunk, "an epoch of the rest": epoch, "evaluation": evaluation}
    if arguments.all_layers:
        shape = tuple(part.train.inputs.take(np.array([0])).shape[1:])
        model = build(builder(plan.model, len(task.class_names), shape), (0,))
        started = _clocks()
        train(
            model,
            part.train,
            plan.settings,
            batches=shuffled(count, arguments.batch_size),
            key=(0,),
        )
        rows["an epoch of all layers"] = _since(started)
    for name, (processor, clock) in rows.items():
        print(f"  {name:24} {processor * scale:7.1f} ({clock * scale:.1f})")


def _clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    return time.process_time() - started[0], time.perf_counter() - started[1]


if __name__ == "__main__":
    main()
