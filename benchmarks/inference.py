"""Group inference compared with scikit-learn, and its memory. Ratios are measured in one run.

python benchmarks/inference.py            50,000 x 5 outputs in five classes, k 2..5
python benchmarks/inference.py --large    also 1,000,000 x 10 outputs in two classes
python benchmarks/inference.py --paper    only seconds at the sizes of the paper's data sets
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from measured import keep

#: Training examples of each class, and the seconds of k-means that the paper's table has.
PAPER = {
    "cmnist": ([10_000] * 5, 0.46),
    "waterbirds": ([3_682, 1_113], 0.07),
    "celeba": ([138_503, 24_267], 31.8),
    "urbancars": ([4_000, 4_000], 0.57),
    "restricted_imagenet": (
        [147_873, 6_500, 3_900, 6_500, 27_141, 23_400, 11_234, 5_200, 26_000],
        2.0,
    ),
}


def early_outputs(n: int, classes: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.random.default_rng(0).integers(0, classes, n)
    return outputs_of(labels, columns), labels


def outputs_of(labels: np.ndarray, columns: int, minority: float = 0.005) -> np.ndarray:
    """Softmax outputs like those of an early epoch: nearly all near their class, few elsewhere."""
    rng = np.random.default_rng(1)
    n = len(labels)
    target = labels.copy()
    chosen = rng.random(n) < minority
    target[chosen] = rng.integers(0, columns, chosen.sum())
    logits = rng.normal(0, 0.7, (n, columns))
    logits[np.arange(n), target] += 5
    exp = np.exp(logits)
    return (exp / exp.sum(1, keepdims=True)).astype(np.float32)


class Clock:
    """Seconds of a clock on the wall and of the processor; the latter is less disturbed."""

    def __init__(self) -> None:
        self.started = np.array([time.perf_counter(), time.process_time()])

    def read(self) -> np.ndarray:
        return np.array([time.perf_counter(), time.process_time()]) - self.started


def ours(outputs: np.ndarray, labels: np.ndarray, k: int | None = None) -> tuple[np.ndarray, dict]:
    import spare

    clock = Clock()
    groups = spare.infer_groups(outputs, labels, k=k)
    scores = {label: evidence.scores for label, evidence in groups.evidence.items()}
    return clock.read(), scores


def scikit_learn(outputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict]:
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    clock = Clock()
    scores: dict = {}
    for label in np.unique(labels).tolist():
        points = outputs[labels == label]
        scores[label] = {
            k: silhouette_score(points, KMeans(k, n_init=10, random_state=0).fit_predict(points))
            for k in range(2, 6)
        }
    return clock.read(), scores


def inertia_above(outputs: np.ndarray, labels: np.ndarray) -> float:
    """How far our k-means is above scikit-learn's at worst, relative to its inertia."""
    from sklearn.cluster import KMeans

    from spare.groups.kmeans import kmeans

    worst = -1.0
    for label in np.unique(labels).tolist():
        points = outputs[labels == label].astype(np.float64)
        for k, found in zip(range(2, 6), kmeans(points, range(2, 6), 0), strict=True):
            theirs = KMeans(k, n_init=10, random_state=0).fit(points).inertia_
            worst = max(worst, found.inertia / theirs - 1)
    return worst


def memory_above_start(n: int, classes: int, columns: int) -> dict:
    """In a process of its own: peak memory above what it started with, and time."""
    shape = [str(n), str(classes), str(columns)]
    command = [sys.executable, __file__, "--memory-of", *shape]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def print_memory(n: int, classes: int, columns: int) -> None:
    """What `memory_above_start` runs."""
    import sklearn.cluster  # noqa: F401  loaded before the start, as in a process that has trained
    import torch

    import spare

    outputs, labels = early_outputs(n, classes, columns)
    spare.infer_groups(outputs[:500], labels[:500], k=2, power=1)
    torch.ones(10) @ torch.ones(10)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = status_mb("VmRSS")
    started = time.perf_counter()
    groups = spare.infer_groups(outputs, labels)
    seconds = time.perf_counter() - started
    peak = status_mb("VmHWM")
    errors = [error for each in groups.evidence.values() for error in each.errors.values()]
    print(json.dumps({"mb": peak - before, "seconds": seconds, "largest_error": max(errors)}))


def at_paper_sizes(repeats: int) -> None:
    """Outputs are made up, a tenth of each class far from the rest; sizes are the paper's."""
    print("seconds: ten starts of k-means in every class, and silhouettes; median, one thread")
    print(f"{'data set':20}{'examples':>10}{'k = 2':>9}{'k 2..5':>9}{'paper':>9}")
    for name, (sizes, paper) in PAPER.items():
        labels = np.repeat(np.arange(len(sizes)), sizes)
        outputs = outputs_of(labels, len(sizes), minority=0.1)
        ours(outputs[::100], labels[::100])  # imports and first calls are not what is timed
        two, best = (
            np.median([ours(outputs, labels, k)[0][0] for _ in range(repeats)]) for k in (2, None)
        )
        print(f"{name:20}{len(labels):>10,}{two:>9.2f}{best:>9.2f}{paper:>9.2f}")


def status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="to results/engines")
    parser.add_argument("--memory-of", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print_memory(*arguments.memory_of)
        return
    if arguments.paper:
        at_paper_sizes(arguments.repeats)
        return

    outputs, labels = early_outputs(50_000, 5, 5)
    ours(outputs[:1000], labels[:1000])  # imports and first calls are not what is compared
    mine, theirs = [], []
    for _ in range(arguments.repeats):
        seconds, scores = ours(outputs, labels)
        mine.append(seconds)
        seconds, oracle = scikit_learn(outputs, labels)
        theirs.append(seconds)
    gap = max(abs(scores[c][k] - oracle[c][k]) for c in scores for k in scores[c])
    above = inertia_above(outputs, labels)
    ratio = np.median(np.array(theirs) / np.array(mine), axis=0)
    of_theirs, of_mine = np.median(theirs, axis=0), np.median(mine, axis=0)
    print("50,000 x 5 outputs, five classes, k 2..5                wall       CPU")
    for what, (wall, cpu), unit in (
        ("scikit-learn KMeans(n_init=10) + silhouette_score", of_theirs, "s"),
        ("spare.infer_groups", of_mine, "s"),
        (f"ratio (median of {arguments.repeats})", ratio, "x"),
    ):
        print(f"  {what:50} {wall:7.2f} {unit} {cpu:7.2f} {unit}")
    print(f"  largest difference of a score                      {gap:9.1e}")
    print(f"  inertia above scikit-learn's, at worst             {above:9.1e}")
    small = memory_above_start(50_000, 5, 5)
    if arguments.write:
        measured = {
            "scikit_learn_seconds": dict(zip(("wall", "cpu"), of_theirs.tolist(), strict=True)),
            "spare_seconds": dict(zip(("wall", "cpu"), of_mine.tolist(), strict=True)),
            "ratio": dict(zip(("wall", "cpu"), ratio.tolist(), strict=True)),
            "largest_score_difference": float(gap),
            "inertia_above": above,
        }
        keep("inference", measured)
    print(f"  peak memory above the process's start              {small['mb']:7.0f} MB")
    if arguments.large:
        large = memory_above_start(1_000_000, 2, 10)
        print(
            "1,000,000 x 10 outputs, two classes, k 2..5 (silhouettes from about 2,000 anchors per "
            "k)"
        )
        print(f"  time                                               {large['seconds']:7.1f} s")
        print(f"  peak memory above the process's start              {large['mb']:7.0f} MB")
        print(f"  largest standard error of a score                  {large['largest_error']:9.1e}")


if __name__ == "__main__":
    main()
