"""The whole job: SPARE on Colored MNIST with one early and twenty more epochs, on one thread.

    python benchmarks/job.py bare --data FOLDER [--write]
    python benchmarks/job.py spuco --data FOLDER --spuco PYTHON [--write]

`bare` compares it with nothing but the steps of a bare torch loop: as many, with the same network,
batches and optimizer, half of them measured before the job and half after it. `spuco` compares it
with SpuCo's own SPARE on its own Colored MNIST (spuco_job.py), each in a process of its own, one
after the other. PYTHON is one of an environment with spuco==2.0.3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from data import load
from measured import keep
from steps import bare_steps, some_batches

from spare.datasets import mnist
from spare.models import build
from spare.records.layout import RUN

SPUCO_JOB = Path(__file__).with_name("spuco_job.py")


def whole_process(command: list[str], **environment: str) -> tuple[float, float, str]:
    """Seconds and peak memory in MB of a process, and what it printed."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env=os.environ | environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if status:
        raise SystemExit(f"{command} failed:\n{printed}")
    return seconds, usage.ru_maxrss / 1024, printed


def our_job(arguments: argparse.Namespace) -> dict[str, Any]:
    """The job as people start it, report included."""
    choices = {"separate_at": "1", "epochs": str(arguments.epochs)}
    if arguments.train_size:
        choices["train_size"] = str(arguments.train_size)
    words = [word for key, value in choices.items() for word in ("--set", f"{key}={value}")]
    if arguments.data:
        words += ["--data", str(arguments.data)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "spare", "train", "cmnist", "--out", f"{folder}/run"]
        seconds, memory, _ = whole_process([*command, *words], OMP_NUM_THREADS="1")
        record = json.loads(Path(folder, "run", RUN).read_text())
    return {
        "seconds": seconds,
        "memory_mb": memory,
        "examples": record["splits"]["train"],
        "batch_size": record["settings"]["batch_size"],
        "phases": record["seconds"],
        "worst_group": record["scores"]["test"]["selected"]["worst_group"],
        "average": record["scores"]["test"]["selected"]["average"],
    }


def beside_bare_steps(arguments: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    task, plan = load("cmnist", arguments.data, {}, 0)
    batches = some_batches(task, plan.settings, 500)
    examples = arguments.train_size or len(task.train)
    steps = (1 + arguments.epochs) * math.ceil(examples / plan.settings.batch_size)
    model = build(task.build_model, (0,))
    bare_steps(model, plan.settings, batches, len(batches))  # the first steps are slower
    before = bare_steps(model, plan.settings, batches, steps // 2)
    job = our_job(arguments)
    after = bare_steps(model, plan.settings, batches, steps - steps // 2)
    return {
        "job": job,
        "steps": steps,
        "bare_seconds": {"before": before, "after": after},
        "ratio": job["seconds"] / (before + after),
    }


def unpack_mnist(data: Path, folder: Path) -> None:
    """MNIST as torchvision wants it, which SpuCo reads it with: unpacked."""
    (folder / mnist.FOLDER).mkdir(parents=True)
    for name in mnist.CHECKSUMS:
        packed = data / mnist.FOLDER / f"{name}.gz"
        plain = data / mnist.FOLDER / name
        values = plain.read_bytes() if plain.is_file() else gzip.decompress(packed.read_bytes())
        (folder / mnist.FOLDER / name).write_bytes(values)


def beside_spuco(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        unpack_mnist(arguments.data, Path(folder))
        command = [arguments.spuco, str(SPUCO_JOB), "--data", folder]
        command += ["--epochs", str(arguments.epochs), "--out", f"{folder}/found.json"]
        seconds, memory, _ = whole_process(command, OMP_NUM_THREADS="1")
        found = json.loads(Path(folder, "found.json").read_text())
    theirs = {"seconds": seconds, "memory_mb": memory} | found
    job = our_job(arguments)
    return {
        "job": job,
        "spuco": theirs,
        "times_faster": theirs["seconds"] / job["seconds"],
        "memory_share": job["memory_mb"] / theirs["memory_mb"],
        "worst_group_above": job["worst_group"] - theirs["worst_group"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("beside", choices=("bare", "spuco"))
    parser.add_argument("--data", type=Path, help="folder of data sets, which holds mnist")
    parser.add_argument("--spuco", help="a Python with spuco 2.0.3")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train-size", type=int, default=0, help="fewer, to try it out")
    parser.add_argument("--write", action="store_true", help="to results/engines")
    arguments = parser.parse_args()
    if arguments.beside == "spuco" and (not arguments.spuco or not arguments.data):
        parser.error("name a Python with spuco 2.0.3 with --spuco, and --data")
    compare = {"bare": beside_bare_steps, "spuco": beside_spuco}[arguments.beside]
    measured = compare(arguments)
    print(json.dumps(measured, indent=2))
    if arguments.write:
        keep(f"job-{arguments.beside}", measured)


if __name__ == "__main__":
    main()
