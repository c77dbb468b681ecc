"""What the image cache saves: loading Waterbirds at 128 pixels with it and without it.

    python benchmarks/images.py --data FOLDER [--images 4795]

FOLDER/waterbirds holds metadata.csv and the images. One training epoch (shuffled batches of 64,
random flips, normalized) is loaded by decoding every image and from the cache, in turns on one
thread, so that both have the same machine; the best of the turns counts. Smaller originals make
decoding cheaper and the ratio lower: it is lowest for files that have 128 pixels already.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torchvision.models import resnet18

from spare.data.inputs import Inputs, TensorInputs
from spare.data.transforms import random_flip, scale_bytes
from spare.images.cache import entries
from spare.images.decode import Geometry
from spare.images.decoded import DecodedInputs
from spare.images.prepare import fingerprint_files, prepare
from spare.training.batches import shuffled

BATCH = 64
TURNS = 5
STEPS = 4
GEOMETRY = Geometry(128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, help="how many training images to use")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    root, names = training_files(arguments.data / "waterbirds")
    names = names[: arguments.images]
    transforms = {
        "augment": random_flip(),
        "finish": scale_bytes((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    }

    def read(i: int) -> bytes:
        return (root / names[i]).read_bytes()

    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        started = time.perf_counter()
        fingerprint = fingerprint_files(root, names)
        pixels = prepare(names, read, GEOMETRY, fingerprint, folder=cache).pixels
        assert pixels is not None
        cached = TensorInputs(pixels, **transforms)
        load_epoch(cached, 0)
        first = time.perf_counter() - started
        decoded = DecodedInputs(read, len(names), GEOMETRY, **transforms)
        turns = [
            (seconds(lambda: load_epoch(decoded, 1)), seconds(lambda: load_epoch(cached, 1)))
            for _ in range(TURNS)
        ]
        size = entries(cache).bytes
        step = seconds_of_a_step(cached)
    without, later = (min(times) for times in zip(*turns, strict=True))
    batches = -(-len(names) // BATCH)

    print(f"{len(names):,} images, cache of {size / 1e6:,.0f} MB")
    print("                                    seconds   images/s")
    for what, spent in (
        ("an epoch, decoding every time", without),
        ("the first epoch, building the cache", first),
        ("a later epoch from the cache", later),
    ):
        print(f"{what:36}{spent:7.2f}{len(names) / spent:11,.0f}")
    print(f"decoding / later epochs             {without / later:7.1f}   (at least 5 is wanted)")
    print(f"first epoch / decoding              {first / without:7.1f}")
    for what, spent in (("without the cache", without), ("from the cache", later)):
        share = spent / (spent + batches * step)
        print(f"waiting for data, {what:18}{share:7.1%}   (of training a ResNet-18)")


def training_files(folder: Path) -> tuple[Path, list[str]]:
    listing = next(iter(sorted(folder.rglob("metadata.csv"))), None)
    if listing is None:
        raise SystemExit(f"there is no metadata.csv in {folder}.")
    with listing.open(newline="", encoding="utf-8") as file:
        names = [row["img_filename"] for row in csv.DictReader(file) if row["split"] == "0"]
    return listing.parent, names


def load_epoch(inputs: Inputs, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for index in shuffled(len(inputs), BATCH)(rng):
        inputs.take(index, rng)


def seconds_of_a_step(inputs: Inputs) -> float:
    """One step of training with the batch at hand; the best of a few."""
    model = resnet18(num_classes=2).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = inputs.take(np.arange(min(BATCH, len(inputs))))
    y = torch.arange(len(x)) % 2

    def step() -> None:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return min(seconds(step) for _ in range(STEPS))


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
