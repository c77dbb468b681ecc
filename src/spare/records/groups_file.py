"""groups.parquet and held_out_groups.parquet: one row per example, with its group.

    id           the example's number in its split
    label        its class
    cluster      its group, a whole number
    probability  of training examples: how likely it is drawn
    name         what it is known by, such as its file, where it has a name
    predicted, confidence, x, y
                 what the early model said of it, and where it lies among its class
    split        of held-out examples: val or test

A file of anyone's own needs `id` and `cluster` only, and may be a CSV.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.files import write_atomic
from spare.groups.result import Groups
from spare.records.layout import GROUPS, HELD_OUT_GROUPS
from spare.records.record import ClassGroups


@dataclass(frozen=True)
class GroupTable:
    """A file of groups in columns; None for columns that it does not have."""

    path: Path
    ids: np.ndarray
    clusters: np.ndarray
    labels: np.ndarray | None = None
    splits: np.ndarray | None = None
    names: np.ndarray | None = None
    predicted: np.ndarray | None = None
    confidence: np.ndarray | None = None
    #: (examples, 2): where each lies among its class.
    points: np.ndarray | None = None
    #: Of a file that SPARE wrote: sampling powers by class, and the initial weights' number.
    powers: Mapping[str, float] | None = None
    weight_seed: int = 0

    def of_split(self, split: str) -> GroupTable:
        """The rows of one held-out split."""
        assert self.splits is not None
        rows = np.flatnonzero(self.splits == split)
        labels = None if self.labels is None else self.labels[rows]
        return GroupTable(self.path, self.ids[rows], self.clusters[rows], labels)


def write_groups(
    folder: Path,
    task: Task,
    groups: Groups,
    held_out: Mapping[str, np.ndarray],
    sampling: np.ndarray,
    *,
    early_probabilities: np.ndarray | None = None,
    points: np.ndarray | None = None,
    weight_seed: int = 0,
) -> None:
    """Write both files.

    Parameters
    ----------
    sampling
        How likely each training example is drawn.
    early_probabilities, points
        What the early model said of each training example, and where it lies among its class.
    weight_seed
        Which initial weights the groups belong to.
    """
    import pyarrow as pa

    train = _columns(task, "train", groups.ids)
    train.insert(3, ("probability", pa.array(sampling)))
    if early_probabilities is not None and points is not None:
        classes = np.asarray(task.class_names, dtype=object)
        train += [
            ("predicted", pa.array(classes[early_probabilities.argmax(1)], pa.string())),
            ("confidence", pa.array(early_probabilities.max(1).astype(np.float32))),
            ("x", pa.array(points[:, 0])),
            ("y", pa.array(points[:, 1])),
        ]
    powers = {task.class_names[label]: power for label, power in groups.powers().items()}
    about = {"powers": powers, "weight_seed": weight_seed}
    table = pa.table(dict(train)).replace_schema_metadata({"spare": json.dumps(about)})
    _write(folder / GROUPS, table)
    others = [
        pa.table(
            {"split": pa.array([name] * len(ids), pa.string())} | dict(_columns(task, name, ids))
        )
        for name, ids in held_out.items()
    ]
    if others:
        _write(folder / HELD_OUT_GROUPS, pa.concat_tables(others))


def read_groups(path: Path) -> GroupTable:
    """A file of groups, SPARE's or anyone's own."""
    table = _read(path)
    columns = {name: table[name] for name in table.column_names}
    if "cluster" not in columns:
        raise InputError(f"{path} has no column 'cluster'; it has {', '.join(columns)}.")
    if "id" not in columns:
        raise InputError(f"{path} does not say which example a row is: add a column 'id'.")
    powers, weight_seed = _metadata(table, path)
    points = None
    if {"x", "y"} <= columns.keys():
        points = np.stack([_numbers(columns[name], name, path) for name in ("x", "y")], 1)
    return GroupTable(
        path=path,
        ids=_whole_numbers(columns["id"], "ids", path),
        clusters=_whole_numbers(columns["cluster"], "clusters", path),
        labels=_words(columns.get("label")),
        splits=_words(columns.get("split")),
        names=_words(columns.get("name")),
        predicted=_words(columns.get("predicted")),
        confidence=(
            None if "confidence" not in columns
            else _numbers(columns["confidence"], "confidence", path)
        ),
        points=points,
        powers=powers,
        weight_seed=weight_seed,
    )  # fmt: skip


def read_held_out(path: Path) -> GroupTable | None:
    """The groups of held-out examples, beside the file of training's; None where there are none."""
    beside = path.with_name(HELD_OUT_GROUPS)
    if not beside.is_file():
        return None
    table = read_groups(beside)
    if table.splits is None:
        raise InputError(f"{beside} has no column 'split': run 'spare discover' again.")
    return table


def read_recorded_groups(
    folder: Path, described: Mapping[str, ClassGroups] | None
) -> GroupTable | None:
    """groups.parquet of a run or discovery, None where nothing was inferred.

    Parameters
    ----------
    described
        What its record says of each class; a file that says otherwise is refused.
    """
    path = folder / GROUPS
    if not described or not path.is_file():
        return None
    try:
        table = read_groups(path)
        _check(table, described)
    except InputError as error:
        raise InputError(
            f"{path} is not what was written with the record beside it ({str(error).rstrip('.')}): "
            f"run its command again."
        ) from error
    return table


def _check(table: GroupTable, described: Mapping[str, ClassGroups]) -> None:
    sizes = [size for groups in described.values() for size in groups["sizes"]]
    owners = np.repeat(list(described), [len(groups["sizes"]) for groups in described.values()])
    if table.labels is None:
        raise InputError("it has no column 'label'")
    if not np.isin(table.clusters, np.arange(len(sizes))).all():
        raise InputError(f"its clusters are not the numbers from 0 to {len(sizes) - 1}")
    if not np.array_equal(np.bincount(table.clusters, minlength=len(sizes)), sizes):
        raise InputError("its clusters have other sizes")
    if not np.array_equal(table.labels, owners[table.clusters]):
        raise InputError("its clusters are of other classes")
    if table.points is not None and not np.isfinite(table.points).all():
        raise InputError("a point has no finite coordinates")
    if table.predicted is not None and not set(table.predicted) <= described.keys():
        raise InputError("a predicted class is none of the record's")


def _read(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".csv":
            return pa.csv.read_csv(path)
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a table of groups: {error}") from error


def _metadata(table: Any, path: Path) -> tuple[dict[str, float] | None, int]:
    """Sampling powers by class and the weight seed, of a file that SPARE wrote."""
    written = (table.schema.metadata or {}).get(b"spare")
    try:
        about = {} if written is None else json.loads(written)
        # Files of version 0.1 call the weight seed "initial".
        weight_seed = int(about.get("weight_seed", about.get("initial", 0)))
        powers = about.get("powers")
        if powers is not None:
            powers = {str(name): float(power) for name, power in powers.items()}
        return powers, weight_seed
    except (ValueError, TypeError, AttributeError):
        pass
    raise InputError(f"the metadata of {path} is damaged: run the command that wrote it again.")


def _whole_numbers(column: Any, what: str, path: Path) -> np.ndarray:
    try:
        values = np.asarray(column.to_pylist())
    except (TypeError, ValueError):
        values = np.array([None])
    if values.dtype.kind not in "iu":
        raise InputError(f"the {what} in {path} must be whole numbers, one per row.")
    return values.astype(np.int64)


def _numbers(column: Any, what: str, path: Path) -> np.ndarray:
    values = np.asarray(column.to_numpy())
    if values.dtype.kind not in "fiu":
        raise InputError(f"column {what!r} of {path} must hold numbers.")
    return values


def _words(column: Any) -> np.ndarray | None:
    return (
        None if column is None else np.asarray([str(v) for v in column.to_pylist()], dtype=object)
    )


def _columns(task: Task, split: str, ids: np.ndarray) -> list[tuple[str, Any]]:
    """Each example's number in its split, its class, its group, and its name where it has one."""
    import pyarrow as pa

    labels = task.splits()[split].labels
    classes = np.asarray(task.class_names, dtype=object)
    columns = [
        ("id", pa.array(np.arange(len(labels)))),
        ("label", pa.array(classes[labels], pa.string())),
        ("cluster", pa.array(ids.astype(np.int32))),
    ]
    if split in task.names:
        columns.append(("name", pa.array(task.names[split], pa.string())))
    return columns


def _write(path: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    write_atomic(path, lambda temporary: pq.write_table(table, temporary))
