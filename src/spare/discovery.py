"""What group inference found: a record a class for people, a row an example for machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spare.files import write_atomic
from spare.groups.groups import Groups
from spare.metrics import minority_recovery, true_minority
from spare.task import Task


def describe(task: Task, groups: Groups, probabilities: np.ndarray) -> dict[str, Any]:
    """What was found in each class; true attributes are used here only to score it.

    probabilities   how likely each training example is drawn
    """
    mass = np.bincount(groups.ids, weights=probabilities, minlength=len(groups.names()))
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
            # A class that is never drawn shares out nothing.
            "shares": (mass[seen.ids] / (mass[seen.ids].sum() or 1)).tolist(),
            "note": seen.note,
            **recovery.get(label, {}),
        }
        for label, seen in groups.evidence.items()
    }


def write_groups(
    folder: Path,
    task: Task,
    groups: Groups,
    held_out: Mapping[str, np.ndarray],
    probabilities: np.ndarray,
) -> None:
    """groups.parquet: a row for each training example, with how likely it is drawn.
    held_out_groups.parquet: the same of val and test, which are never drawn."""
    import pyarrow as pa

    train = _columns(task, "train", groups.ids)
    train.insert(3, ("probability", pa.array(probabilities)))
    _write(folder / "groups.parquet", pa.table(dict(train)))
    others = [
        pa.table(
            {"split": pa.array([name] * len(ids), pa.string())} | dict(_columns(task, name, ids))
        )
        for name, ids in held_out.items()
    ]
    if others:
        _write(folder / "held_out_groups.parquet", pa.concat_tables(others))


def _columns(task: Task, name: str, ids: np.ndarray) -> list[tuple[str, Any]]:
    """Each example's number in its split, its class, its cluster, and its name where it has one."""
    import pyarrow as pa

    labels = task.splits()[name].labels
    classes = np.asarray(task.class_names, dtype=object)
    found = [
        ("id", pa.array(np.arange(len(labels)))),
        ("label", pa.array(classes[labels], pa.string())),
        ("cluster", pa.array(ids.astype(np.int32))),
    ]
    if name in task.names:
        found.append(("name", pa.array(task.names[name], pa.string())))
    return found


def _write(path: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    write_atomic(path, lambda temporary: pq.write_table(table, temporary))
