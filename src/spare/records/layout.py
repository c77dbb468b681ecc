"""The names of all files in the folders that this package writes.

A run folder is complete or not there: while work is going on, everything is in `<folder>.partial`
with a checkpoint per stage. At the end the checkpoints are removed and the folder gets its name.

    settings.json              what was asked for; the first file in the folder
    run.json, discovery.json   the record of a training, or of a discovery
    groups.parquet             one row per training example, with its group
    held_out_groups.parquet    the same of validation and test examples
    weights.safetensors        weights of the selected and the last epoch, and of the early model
    report.html, class-N.png   made from the others, and can be made again

A bench folder holds one run folder per method and seed, `table.json` and `report.html`.
"""

from __future__ import annotations

import os
from pathlib import Path

REQUEST = "settings.json"
RUN = "run.json"
DISCOVERY = "discovery.json"
GROUPS = "groups.parquet"
HELD_OUT_GROUPS = "held_out_groups.parquet"
WEIGHTS = "weights.safetensors"
REPORT = "report.html"
TABLE = "table.json"
COMPARISON = "comparison.html"


def run_name(method: str, seed: int) -> str:
    """The name of a run's folder, which is one word: someone's own method has a colon in its name.

    >>> run_name("eiil+spare", 0), run_name("mine.code:METHOD", 1), run_name("../up", 2)
    ('eiil+spare-seed0', 'mine.code-METHOD-seed1', '..-up-seed2')
    """
    word = "".join(c if c.isalnum() or c in "+-_." else "-" for c in method)
    return f"{word}-seed{seed}"


def sheet_name(class_number: int) -> str:
    """The picture that shows examples of one class, one row per cluster."""
    return f"class-{class_number}.png"


def is_bench(folder: Path) -> bool:
    return os.path.lexists(folder / TABLE)
