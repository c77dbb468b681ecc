"""What group inference found: a record a class for people, a row an example for machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spare.files import write_atomic
from spare.groups.clusters import Groups
from spare.metrics import minority_recovery, true_minority
from spare.task import Task
from spare.weights import importance_weights


def describe(task: Task, groups: Groups) -> dict[str, Any]:
    """What was found in each class; true attributes are used here only to score it."""
    recovery: dict[Any, dict[str, Any]] = {}
    if task.train.attributes:
        labels = np.asarray(task.train.labels)
        minority = true_minority(labels, task.groups(task.train))
        recovery = minority_recovery(labels, minority, ~groups.in_majority())
    return {
        task.class_names[label]: {
            "k": seen.k,
            "silhouette": seen.silhouette,
            "scores": {str(k): score for k, score in seen.scores.items()},
            "power": seen.power,
            "sizes": seen.sizes,
            "shares": seen.shares,
            "note": seen.note,
            **recovery.get(label, {}),
        }
        for label, seen in groups.evidence.items()
    }


def write_groups(
    path: Path,
    task: Task,
    groups: Groups,
    held_out: Mapping[str, np.ndarray],
    class_mass: str,
) -> None:
    """One row an example: its split, its number in it, its name, class and cluster; and how likely
    it is drawn, which only training examples are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    classes = np.asarray(task.class_names, dtype=object)
    parts = []
    for name, split in task.splits().items():
        if name != "train" and name not in held_out:
            continue
        ids = groups.ids if name == "train" else held_out[name]
        rows = np.arange(len(split))
        drawn = None
        if name == "train":
            drawn = importance_weights(groups, split.labels, class_mass=class_mass)
        parts.append(
            pa.table(
                {
                    "id": rows,
                    "label": pa.array(classes[split.labels], pa.string()),
                    "cluster": ids.astype(np.int32),
                    "probability": pa.array(
                        drawn if drawn is not None else [None] * len(rows), pa.float64()
                    ),
                    "split": pa.array([name] * len(rows), pa.string()),
                    "name": pa.array(task.names.get(name, [None] * len(rows)), pa.string()),
                }
            )
        )
    table = pa.concat_tables(parts)
    write_atomic(path, lambda temporary: pq.write_table(table, temporary))
