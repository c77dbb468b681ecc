"""What a discovery costs besides the epochs that it trains: Colored MNIST, 50,000 pictures.

    python benchmarks/discovery.py --data FOLDER [--times 3]

Each time one discovery with one early epoch, in one thread. Printed as shares of that epoch, since
machines differ: outputs (one pass over all splits) and inference (clustering). Printed in seconds:
findings (verdict, tables, and the statistics of all pictures with their associations) and the
report, with its size.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import spare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.times):
        with tempfile.TemporaryDirectory() as folder:
            found = spare.discover(
                "cmnist",
                seed=seed,
                out=Path(folder) / "found",
                data=arguments.data,
                separate_at="1",
                report=False,
            )
            started = time.perf_counter()
            size = found.write_report(data=arguments.data).stat().st_size
            report = time.perf_counter() - started
        rows.append(found.record["seconds"] | {"report": report, "megabytes": size / 1e6})
        print("  ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
    epoch = np.array([row["early"] for row in rows])
    for name in ("outputs", "inference"):
        shares = np.array([row[name] for row in rows]) / epoch
        print(f"{name:12} {100 * np.median(shares):.0f} % of an epoch")
    for name, unit in (("findings", "s"), ("report", "s"), ("megabytes", "MB")):
        print(f"{name:12} {np.median([row[name] for row in rows]):.2f} {unit}")


if __name__ == "__main__":
    main()
