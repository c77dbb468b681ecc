"""What SPARE costs beside plain training, on Colored MNIST with equal settings.

    python benchmarks/overhead.py --data FOLDER [--epochs 20]

Plain training and SPARE (two early epochs) run side by side as one-thread processes, so that both
meet the same machine; ratios are taken within that run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from spare.bench import bench
from spare.files import read_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        settings = {"epochs": str(arguments.epochs), "separate_at": "2"}
        bench("cmnist", ["erm", "spare"], [0], out, data=arguments.data, overrides=settings, jobs=2)
        erm, spare = (
            read_json(out / f"{m}-seed0" / "run.json")["seconds"] for m in ("erm", "spare")
        )
    epoch = spare["train"] / arguments.epochs
    parts = spare["outputs"] + spare["inference"]
    total = sum(spare[part] for part in ("early", "outputs", "inference", "train"))
    print(f"one training epoch (with its validation)      {epoch:7.2f} s")
    print(f"outputs of 50,000 examples                    {spare['outputs']:7.2f} s")
    print(f"group inference and weights                   {spare['inference']:7.2f} s")
    print(f"outputs + inference, share of an epoch        {parts / epoch:7.2f}")
    print(
        f"SPARE / ERM wall-clock, {arguments.epochs} epochs             {total / erm['train']:7.3f}"
    )


if __name__ == "__main__":
    main()
