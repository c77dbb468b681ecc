"""Peak memory of the commands that people start with, each in a process of its own.

    python benchmarks/memory.py

`import torch` alone is printed first, because most of every figure is that: how much it takes
depends on the build (one with CUDA maps hundreds of megabytes more than one for the processor).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

SPARE = ["-m", "spare"]


def peak_mb(arguments: list[str], folder: str) -> float:
    """The most memory that a Python process with these arguments has had at once."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            output.seek(0)
            raise SystemExit(f"{arguments} failed:\n{output.read().decode(errors='replace')}")
    return usage.ru_maxrss / 1024


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            # Ended as the commands end: taking torch apart needs more than importing it.
            "import torch": ["-c", "import os, torch; os._exit(0)"],
            "spare train digits": [*SPARE, "train", "digits", "--out", "run"],
            "spare discover digits": [*SPARE, "discover", "digits", "--out", "found"],
            "spare report": [*SPARE, "report", "run"],
        }
        torch_alone = 0.0
        print(f"{'':24}{'peak MB':>10}{'above torch':>14}")
        for name, arguments in commands.items():
            peak = peak_mb(arguments, folder)
            torch_alone = torch_alone or peak
            print(f"{name:24}{peak:10.0f}{peak - torch_alone:14.0f}", flush=True)


if __name__ == "__main__":
    main()
