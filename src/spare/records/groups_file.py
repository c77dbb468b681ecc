"""groups.parquet and held_out_groups.parquet: one row per example, with its group.

    id           the example's number in its split
    label        its class
    cluster      its group, a whole number
    probability  of training examples: how likely it is sampled
    name         what it is known by, such as its file, where it has a name
    predicted, confidence, x, y
                 what the early model said of it, and where it lies among its class
    split        of held-out examples: val or test

A file of anyone's own needs `id` and `cluster` only, and may be a CSV.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.files.reading import parse_json, why_not
from spare.files.writing import write_atomic
from spare.groups.result import Groups
from spare.records.checks import Seed
from spare.records.group_columns import (
    numbers,
    read_columns,
    refuse_other_than_file,
    whole_numbers,
    words,
)
from spare.records.layout import GROUPS, HELD_OUT_GROUPS
from spare.records.record import ClassGroups

#: The columns that say which example is in which group, and those that a page shows besides.
NEEDED = ("id", "cluster")
OF_ANYONE = (*NEEDED, "label", "split")
OF_A_PAGE = (*OF_ANYONE, "name", "predicted", "confidence", "x", "y")
#: A point further away than any logit is not plotted.
FARTHEST = 1e15


class About(TypedDict):
    """What a file that SPARE wrote says of itself; files of version 0.1 call its seed "initial"."""

    powers: NotRequired[dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e6)]] | None]
    weight_seed: NotRequired[Seed]
    initial: NotRequired[Seed]


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
    predicted: np.ndarray | None = None,
    confidence: np.ndarray | None = None,
    points: np.ndarray | None = None,
    weight_seed: int = 0,
) -> None:
    """Write both files.

    Parameters
    ----------
    sampling
        How likely each training example is sampled.
    predicted, confidence, points
        What the early model took each training example for and how sure it was, and where the
        example lies among its class.
    weight_seed
        Which initial weights the groups belong to.
    """
    import pyarrow as pa

    train = _columns(task, "train", groups.ids)
    train.insert(3, ("probability", pa.array(sampling)))
    if predicted is not None and confidence is not None and points is not None:
        classes = np.asarray(task.class_names, dtype=object)
        train += [
            ("predicted", pa.array(classes[predicted], pa.string())),
            ("confidence", pa.array(confidence.astype(np.float32))),
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


def read_groups(path: Path, wanted: Collection[str] = OF_ANYONE) -> GroupTable:
    """A file of groups, SPARE's or anyone's own; of its columns, those that are wanted."""
    table = read_columns(path, wanted)
    columns = {name: table[name] for name in table.column_names}
    about = _metadata(table, path)
    points = None
    if {"x", "y"} <= columns.keys():
        points = np.stack([numbers(columns[name], name, path) for name in ("x", "y")], 1)
    confidence = columns.get("confidence")
    return GroupTable(
        path=path,
        ids=whole_numbers(columns["id"], "ids", path),
        clusters=whole_numbers(columns["cluster"], "clusters", path),
        labels=words(columns.get("label"), "label", path),
        splits=words(columns.get("split"), "split", path),
        names=words(columns.get("name"), "name", path),
        predicted=words(columns.get("predicted"), "predicted", path),
        confidence=None if confidence is None else numbers(confidence, "confidence", path),
        points=points,
        powers=about.get("powers"),
        weight_seed=about.get("weight_seed", about.get("initial", 0)),
    )


def read_held_out(path: Path) -> GroupTable | None:
    """The groups of held-out examples, beside the file of training's; None where there are none."""
    beside = path.with_name(HELD_OUT_GROUPS)
    if not os.path.lexists(beside):
        return None
    refuse_other_than_file(beside)
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
    if not described or not os.path.lexists(path):
        return None
    try:
        refuse_other_than_file(path)
        table = read_groups(path, OF_A_PAGE)
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
    if not np.array_equal(np.sort(table.ids), np.arange(len(table.ids))):
        raise InputError("its ids are not those of the examples")
    if table.points is not None and not (np.abs(table.points) < FARTHEST).all():
        raise InputError("a point has no finite coordinates")
    if (
        table.confidence is not None
        and not ((table.confidence >= 0) & (table.confidence <= 1.001)).all()
    ):
        raise InputError("a confidence is not from 0 to 1")
    if table.predicted is not None and not set(table.predicted) <= described.keys():
        raise InputError("a predicted class is none of the record's")


def _metadata(table: Any, path: Path) -> dict[str, Any]:
    """Sampling powers by class and the weight seed, of a file that SPARE wrote."""
    written = (table.schema.metadata or {}).get(b"spare")
    try:
        about: dict[str, Any] = {} if written is None else parse_json(written)
        msgspec.convert(about, About, strict=True)
        return about
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(
            f"the metadata of {path} is damaged ({why_not(error)}): run the command that wrote it "
            f"again."
        ) from error


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
