"""What SPARE, or bridge, costs beside plain training, on Colored MNIST with equal settings.

    python benchmarks/overhead.py --data FOLDER [--method spare] [--epochs 20]

Plain training and the method, as its preset has it, run side by side as one-thread processes, so
that both meet the same machine; ratios are taken within that run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from spare.files import read_json
from spare.runs.grid import bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--method", default="spare", choices=("spare", "bridge"))
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    method = arguments.method
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        settings = {"epochs": str(arguments.epochs)}
        bench("cmnist", ["erm", method], [0], out, data=arguments.data, overrides=settings, jobs=2)
        erm, ours = (read_json(out / f"{m}-seed0" / "run.json") for m in ("erm", method))
    seconds = ours["seconds"]
    epoch = seconds["train"] / arguments.epochs
    print(f"one epoch of {method} (with its validation)       {epoch:7.2f} s")
    print(f"outputs, all looks                            {seconds['outputs']:7.2f} s")
    print(f"group inference and weights, all looks        {seconds['inference']:7.2f} s")
    parts = seconds["outputs"] + seconds["inference"]
    print(f"outputs + inference, share of an epoch        {parts / epoch:7.2f}")
    print(f"{method} / erm, {arguments.epochs} epochs")
    print(f"  examples     {ours['examples_seen'] / erm['examples_seen']:7.3f}")
    print(f"  wall-clock   {seconds['total'] / erm['seconds']['total']:7.3f}")


if __name__ == "__main__":
    main()
