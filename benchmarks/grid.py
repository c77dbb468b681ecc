"""What a bench costs beside its runs: starting processes, handing out jobs, reading records.

    python benchmarks/grid.py

Runs 24 short trainings of `digits` in one worker, then in all cores, and prints the wall-clock time
beside the sum of the runs' own: the difference is what the bench adds to every run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import spare


def measure(jobs: int, runs: int, epochs: int) -> tuple[float, float]:
    """Seconds that the bench took times its workers, and those of its runs together."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = spare.bench(
            "digits",
            methods=["erm", "spare"],
            seeds=range(runs // 2),
            epochs=epochs,
            out=Path(folder) / "bench",
            jobs=jobs,
            report=False,
            progress=spare.Progress(),
        )
        taken = time.perf_counter() - started
        return jobs * taken, sum(run.record["seconds"]["total"] for run in done.runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    for jobs in sorted({1, os.cpu_count() or 1}):
        taken, own = measure(jobs, given.runs, given.epochs)
        print(
            f"{jobs} worker{'s' * (jobs > 1)}: {taken:.1f} s of process time for {given.runs} runs "
            f"of together {own:.1f} s: {(taken - own) / given.runs:.2f} s more per run"
        )


if __name__ == "__main__":
    main()
