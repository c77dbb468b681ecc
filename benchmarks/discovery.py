"""What discovery costs beside the epochs that it trains: Colored MNIST, 50,000 pictures.

    python benchmarks/discovery.py --data FOLDER [--times 3]

Each time one discovery with one early epoch, in a process of one thread. Printed as shares of that
epoch, since machines differ: outputs (one pass over all splits), inference (clustering) and
description (verdict, tables); and, in seconds, what pictures take: their statistics with the
associations of attributes, and the report, with its size.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

from spare.runs.discover import discover


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for time in range(arguments.times):
        with tempfile.TemporaryDirectory() as folder:
            once = {"candidates": "1", "restarts": "0"}
            record = discover(
                "cmnist", time, Path(folder) / "found", data=arguments.data, overrides=once
            )
            size = (Path(folder) / "found" / "report.html").stat().st_size
        rows.append(record["seconds"] | {"megabytes": size / 1e6})
        print("  ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
    epoch = np.array([row["early"] for row in rows])
    for name in ("outputs", "inference", "description"):
        shares = np.array([row[name] for row in rows]) / epoch
        print(f"{name:12} {100 * np.median(shares):.0f} % of an epoch")
    for name, unit in (("associations", "s"), ("report", "s"), ("megabytes", "MB")):
        print(f"{name:12} {np.median([row[name] for row in rows]):.2f} {unit}")


if __name__ == "__main__":
    main()
