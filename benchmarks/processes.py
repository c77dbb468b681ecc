"""Two processes against one: plain training on Colored MNIST with the same batches.

    python benchmarks/processes.py --data FOLDER [--epochs 2] [--rounds 3] [--set batch_size=512]

They take turns, each process on one thread; the ratio is that of the training's own seconds, so
that starting processes is not part of it, which is given apart. Small networks and batches have
little to share out, and much to tell each other.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from measured import keep

import spare


def seconds_of(processes: int, arguments: argparse.Namespace) -> tuple[float, float]:
    """Of training, and of all."""
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    with tempfile.TemporaryDirectory() as folder:
        done = spare.train(
            "cmnist",
            method="erm",
            data=arguments.data,
            out=Path(folder) / "run",
            report=False,
            processes=processes,
            epochs=arguments.epochs,
            **settings,
        )
    return done.record["seconds"]["train"], done.record["seconds"]["total"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], help="settings, as key=value")
    parser.add_argument("--write", action="store_true", help="to results/engines")
    arguments = parser.parse_args()
    rounds = [
        [seconds_of(processes, arguments) for processes in (1, 2)] for _ in range(arguments.rounds)
    ]
    train, total = np.median(np.array(rounds), axis=0).T
    measured = {
        "settings": arguments.set,
        "epochs": arguments.epochs,
        "train_seconds": {"one": float(train[0]), "two": float(train[1])},
        "total_seconds": {"one": float(total[0]), "two": float(total[1])},
        "two_against_one": float(np.median([two[0] / one[0] for one, two in rounds])),
    }
    print(json.dumps(measured, indent=2))
    if arguments.write:
        keep("processes", measured)


if __name__ == "__main__":
    main()
