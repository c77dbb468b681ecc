"""Groups from a file: what `spare discover` wrote, or anyone's own.

    spare discover DATA            writes groups.parquet
    spare train DATA --groups F    trains with those groups instead of inferring any

The file has one row per training example: `id`, its number in the training split, and `cluster`, a
whole number. If there is a column `label`, it must be the class that the data says. Clusters lie
within classes; the largest of a class is where the shortcut holds. A file that `discover` wrote
also holds each class's sampling power, and has the groups of held-out examples beside it.

What the file knows, the method knows: it declares no group label, because it reads none of the
task's, but someone may have made the file from them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.groups.result import Groups, groups_from_parts, parts_by_size
from spare.methods.method import Inference, Inferred, sees
from spare.training.stages import Stages

#: The file with the groups of held-out examples, in the same folder.
HELD_OUT = "held_out_groups.parquet"


@dataclass(frozen=True)
class GivenOptions:
    #: A file of groups.
    groups: str = ""
    #: Digest of its content, filled in automatically, so that a changed file is another run.
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
        raise InputError("no groups were given: name a file with --groups, or --set groups=FILE.")
    path = Path(options.groups)
    table = _read(path)
    labels = np.asarray(task.train.labels)
    clusters = _clusters(table, "train", task, path)
    # The same cluster number in two classes is two groups.
    groups = groups_from_parts(parts_by_size(clusters, labels), labels)
    metadata = _metadata(table)
    powers = {
        label: float(metadata.get("powers", {}).get(name, 1.0))
        for label, name in enumerate(task.class_names)
    }
    held_out = {}
    held_out_path = path.with_name(HELD_OUT)
    if metadata and held_out_path.is_file():
        held_out = _held_out(_read(held_out_path), clusters, groups, task, held_out_path)
    return Inferred(
        groups.with_powers(powers),
        held_out,
        {"groups_from": path.name},
        # Files of version 0.1 call it "initial".
        weight_seed=int(metadata.get("weight_seed", metadata.get("initial", 0))),
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


def _metadata(table: Any) -> dict[str, Any]:
    """What `discover` wrote about the groups; {} for anyone's own file."""
    written = (table.schema.metadata or {}).get(b"spare")
    metadata: dict[str, Any] = {} if written is None else json.loads(written)
    return metadata


def _clusters(table: Any, split: str, task: Task, path: Path) -> np.ndarray:
    """The cluster of every example of a split, in its order."""
    if "cluster" not in table.column_names:
        raise InputError(f"{path} has no column 'cluster'; it has {', '.join(table.column_names)}.")
    if "id" not in table.column_names:
        raise InputError(f"{path} does not say which example a row is: add a column 'id'.")
    labels = np.asarray(task.splits()[split].labels)
    count = len(labels)
    ids = table.column("id").to_pylist()
    rows = np.asarray([-1 if number is None else number for number in ids])
    if rows.dtype.kind not in "iu":
        raise InputError(f"the ids in {path} must be the numbers of the examples, from 0.")
    counts = np.bincount(rows[(rows >= 0) & (rows < count)], minlength=count)
    if len(rows) != count or (counts != 1).any():
        raise InputError(
            f"{path} has {len(rows)} rows and names {int((counts > 0).sum())} of the {count} "
            f"{split} examples: it was made for other data; run 'spare discover' on this data."
        )
    if "label" in table.column_names:
        class_names = [task.class_names[label] for label in labels[rows]]
        pairs = zip(table.column("label").to_pylist(), class_names, strict=True)
        different = sum(str(label) != name for label, name in pairs)
        if different:
            raise InputError(
                f"{different} of the {count} {split} examples have another class in {path}: it was "
                f"made for other data; run 'spare discover' on this data."
            )
    try:
        values = np.asarray(table.column("cluster").to_pylist(), dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the clusters in {path} must be whole numbers, one per row.") from error
    clusters = np.empty(count, dtype=np.int64)
    clusters[rows] = values
    return clusters


def _held_out(
    table: Any, clusters: np.ndarray, groups: Groups, task: Task, path: Path
) -> dict[str, np.ndarray]:
    """The groups of val and test, with the ids of training's."""
    import pyarrow.compute as pc

    pairs = zip(groups.labels.tolist(), clusters.tolist(), strict=True)
    id_of = dict(zip(pairs, groups.ids.tolist(), strict=True))
    held_out = {}
    for name, split in task.splits().items():
        if name != "train":
            rows = table.filter(pc.equal(table.column("split"), name))
            of_split = _clusters(rows, name, task, path).tolist()
            pairs = zip(np.asarray(split.labels).tolist(), of_split, strict=True)
            held_out[name] = np.asarray([id_of.get(pair, -1) for pair in pairs])
            if (held_out[name] < 0).any():
                raise InputError(
                    f"{path} has clusters that no training example is in: run 'spare discover' "
                    f"again."
                )
    return held_out


INFERENCE = Inference("given", sees("none"), infer, GivenOptions)
