"""Made-up outputs of an early model, as many as are wanted: always the same."""

from __future__ import annotations

import numpy as np

CHUNK = 1 << 20


def chunks(rows: int, columns: int = 10, classes: int = 2, minority: float = 0.005):
    """Early outputs and labels, some rows at a time."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([7, number])
        n = min(CHUNK, rows - start)
        labels = rng.integers(0, classes, n)
        target = np.where(rng.random(n) < minority, rng.integers(0, columns, n), labels)
        logits = rng.normal(0, 0.7, (n, columns)).astype(np.float32)
        logits[np.arange(n), target] += 5
        np.exp(logits, out=logits)
        logits /= logits.sum(1, keepdims=True)
        yield logits, labels


def in_memory(rows: int, **options) -> tuple[np.ndarray, np.ndarray]:
    outputs = np.empty((rows, 10), dtype=np.float32)
    labels = np.empty(rows, dtype=np.int64)
    start = 0
    for block, of_block in chunks(rows, **options):
        outputs[start : start + len(block)] = block
        labels[start : start + len(block)] = of_block
        start += len(block)
    return outputs, labels
