"""Groups from a file: what `spare discover` wrote, or anyone's own.

    spare discover DATA            writes groups.parquet
    spare train DATA --groups F    trains with those groups instead of naming some itself

A row is a training example: `id`, its number in the training split, and `cluster`, a whole number;
its class, if there is a column `label`, must be the data's. Clusters lie within classes; the
largest of a class is where the shortcut holds. A file that SPARE wrote also says with which power
to draw, and has the groups of held-out examples beside it.

What the file knows, the method knows: it declares no group label, because it reads none of the
task's, but someone may have made the file from them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.findings.describe import HELD_OUT
from spare.groups.result import Groups, groups_from_parts, parts_by_size
from spare.groups.weights import shares
from spare.methods.method import Inference, Inferred, sees
from spare.training.stages import Stages


@dataclass(frozen=True)
class GivenOptions:
    #: The file.
    groups: str = ""
    #: What is in it; found by itself, so that a changed file is another run.
    groups_digest: str = ""

    def __post_init__(self) -> None:
        if not self.groups:
            return
        path = Path(self.groups)
        if not path.is_file():
            raise InputError(f"there is no file of groups at {path}: 'spare discover' writes one.")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        object.__setattr__(self, "groups_digest", digest)


def infer(task: Task, stages: Stages, options: GivenOptions) -> Inferred:
    if not options.groups:
        raise InputError("which groups? Name a file with --groups, or with --set groups=FILE.")
    path = Path(options.groups)
    table = _read(path)
    labels = np.asarray(task.train.labels)
    clusters = _clusters(table, "train", task, path)
    # The same cluster number in two classes is two groups.
    groups = groups_from_parts(parts_by_size(clusters, labels), labels)
    about = _about(table)
    powers = {
        label: float(about.get("powers", {}).get(name, 1.0))
        for label, name in enumerate(task.class_names)
    }
    held_out = {}
    beside = path.with_name(HELD_OUT)
    if about and beside.is_file():
        others = _read(beside)
        held_out = _held_out(others, clusters, groups, task, beside)
    return Inferred(
        _with_powers(groups, powers),
        held_out,
        {"groups_from": path.name},
        initial=int(about.get("initial", 0)),
    )


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


def _about(table: Any) -> dict[str, Any]:
    written = (table.schema.metadata or {}).get(b"spare")
    return {} if written is None else json.loads(written)


def _clusters(table: Any, split: str, task: Task, path: Path) -> np.ndarray:
    """The cluster of every example of a split, in its order."""
    if "cluster" not in table.column_names:
        raise InputError(f"{path} has no column 'cluster'; it has {', '.join(table.column_names)}.")
    if "id" not in table.column_names:
        raise InputError(f"{path} says of no row which example it is: add a column 'id'.")
    labels = np.asarray(task.splits()[split].labels)
    count = len(labels)
    places = table.column("id").to_pylist()
    where = np.asarray([-1 if place is None else place for place in places])
    if where.dtype.kind not in "iu":
        raise InputError(f"the ids in {path} are the numbers of the examples, from 0.")
    counts = np.bincount(where[(where >= 0) & (where < count)], minlength=count)
    if len(where) != count or (counts != 1).any():
        raise InputError(
            f"{path} has {len(where)} rows and names {int((counts > 0).sum())} of the {count} "
            f"{split} examples: it was made for other data; run 'spare discover' on this."
        )
    if "label" in table.column_names:
        given = table.column("label").to_pylist()
        own = [task.class_names[label] for label in labels[where]]
        other = sum(str(a) != b for a, b in zip(given, own, strict=True))
        if other:
            raise InputError(
                f"{other} of the {count} {split} examples have another class in {path}: it was "
                f"made for other data; run 'spare discover' on this."
            )
    try:
        values = np.asarray(table.column("cluster").to_pylist(), dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the clusters in {path} are whole numbers, one a row.") from error
    found = np.empty(count, dtype=np.int64)
    found[where] = values
    return found


def _held_out(
    table: Any, clusters: np.ndarray, groups: Groups, task: Task, path: Path
) -> dict[str, np.ndarray]:
    """The groups of val and test, by the same numbers."""
    import pyarrow.compute as pc

    own = zip(groups.labels.tolist(), clusters.tolist(), strict=True)
    renamed = dict(zip(own, groups.ids.tolist(), strict=True))
    found = {}
    for name, split in task.splits().items():
        if name != "train":
            rows = table.filter(pc.equal(table.column("split"), name))
            ids = _clusters(rows, name, task, path)
            pairs = zip(np.asarray(split.labels).tolist(), ids.tolist(), strict=True)
            found[name] = np.asarray([renamed.get(pair, -1) for pair in pairs])
            if (found[name] < 0).any():
                raise InputError(f"{path} has clusters that no training example is in.")
    return found


def _with_powers(groups: Groups, powers: dict[int, float]) -> Groups:
    evidence = {
        label: replace(
            seen, power=powers[label], shares=shares(np.asarray(seen.sizes), powers[label]).tolist()
        )
        for label, seen in groups.evidence.items()
    }
    return replace(groups, evidence=evidence)


INFERENCE = Inference("given", sees("none"), infer, GivenOptions)
