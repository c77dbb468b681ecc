"""What SPARE, or bridge, costs compared with plain training, on Colored MNIST with equal settings.

    python benchmarks/overhead.py --data FOLDER [--method spare] [--epochs 20] [--set separate_at=1]

Plain training and the method, as its preset has it, run at the same time in one-thread processes,
so that both have the same machine; ratios are taken within that run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measured import keep

import spare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--method", default="spare", choices=("spare", "bridge"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], help="settings of both, as key=value")
    parser.add_argument("--write", action="store_true", help="to results/engines")
    arguments = parser.parse_args()
    method = arguments.method
    with tempfile.TemporaryDirectory() as folder:
        bench = spare.bench(
            "cmnist",
            methods=["erm", method],
            seeds=[0],
            out=folder,
            data=arguments.data,
            jobs=2,
            report=False,
            epochs=arguments.epochs,
            **dict(pair.split("=", 1) for pair in arguments.set),
        )
        records = {run.record["method"]: run.record for run in bench.runs}
    plain, ours = records["erm"], records[method]
    seconds = ours["seconds"]
    epoch = seconds["train"] / arguments.epochs
    print(f"one epoch of {method} (with its validation)         {epoch:7.2f} s")
    print(f"outputs, all candidate epochs                   {seconds['outputs']:7.2f} s")
    print(f"group inference and weights, all candidates     {seconds['inference']:7.2f} s")
    both = seconds["outputs"] + seconds["inference"]
    print(f"outputs + inference, share of an epoch          {both / epoch:7.2f}")
    print(f"{method} / erm, {arguments.epochs} epochs")
    examples = ours["examples_seen"] / plain["examples_seen"]
    total = seconds["total"] / plain["seconds"]["total"]
    print(f"  examples     {examples:7.3f}")
    print(f"  wall-clock   {total:7.3f}")
    if arguments.write:
        measured = {
            "settings": arguments.set,
            "epochs": arguments.epochs,
            "examples": examples,
            "wall_clock": total,
            "seconds": {"erm": plain["seconds"], method: seconds},
        }
        keep(f"overhead-{method}", measured)


if __name__ == "__main__":
    main()
