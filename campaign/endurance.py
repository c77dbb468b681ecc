"""Long training: does memory grow with the number of epochs?

    python -m campaign.endurance --epochs 2000 --out counts.json

The real command, `spare train digits`, is started with that many epochs, and its memory is read
from /proc while it trains: what it has allocated itself (RssAnon), the median over the epochs from
50 to 150 against the median over the last 100. One of 50 epochs is the beginning, before which
libraries still fill their caches. What is allowed to grow is small: one line of history an epoch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: The growth that is still called flat.
ALLOWED = 0.05
#: Epochs before which libraries still fill their caches, and over how many a median is taken.
WARM_UP, WINDOW = 50, 100
SECONDS_BETWEEN = 0.5


def endurance(epochs: int, folder: Path) -> dict[str, object]:
    """Train for so many epochs, and compare memory at the start and at the end."""
    run = folder / "run"
    words = ["train", "digits", "--out", str(run), "--set", f"epochs={epochs}"]
    started = time.perf_counter()
    with (folder / "errors.txt").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "spare", *words], stdout=subprocess.DEVNULL, stderr=errors
        )
        samples = []
        while process.poll() is None:
            training = (folder / "run.partial" / "train.checkpoint").exists()
            if training and (memory := memory_mb(process.pid)) is not None:
                samples.append(memory)
            time.sleep(SECONDS_BETWEEN)
        errors.seek(0)
        said = errors.read()
    seconds = time.perf_counter() - started
    # Epochs take equally long, so the samples are spread over them evenly.
    warm_up, window = (max(1, len(samples) * count // epochs) for count in (WARM_UP, WINDOW))
    start = statistics.median(samples[warm_up : warm_up + window] or [0.0])
    end = statistics.median(samples[-window:] or [0.0])
    growth = end / start - 1 if start else float("inf")
    failed = process.returncode != 0 or not growth <= ALLOWED
    return {
        "name": "endurance",
        "cases": epochs,
        "failures": int(failed),
        "seconds": round(seconds, 1),
        "details": {
            "memory_start_mb": round(start, 1),
            "memory_end_mb": round(end, 1),
            "growth": round(growth, 4) if start else None,
            "samples": len(samples),
            **({"errors": said[-2000:]} if process.returncode else {}),
        },
    }


def memory_mb(process: int) -> float | None:
    """What a process has allocated; None if it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(kilobytes[0]) / 1024 if kilobytes else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="file to write the counts to, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = endurance(arguments.epochs, Path(folder))
    text = json.dumps(counts, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")
    sys.exit(counts["failures"])


if __name__ == "__main__":
    main()
