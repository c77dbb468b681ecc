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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.groups.result import Groups, groups_from_parts, parts_by_size
from spare.methods.method import Inference, Inferred, sees
from spare.records.groups_file import GroupTable, read_groups, read_held_out
from spare.training.stages import Stages


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
    table = read_groups(path)
    labels = np.asarray(task.train.labels)
    clusters = _in_order(table, "train", task)
    # The same cluster number in two classes is two groups.
    groups = groups_from_parts(parts_by_size(clusters, labels), labels)
    powers = table.powers or {}
    # Only beside a file that `discover` wrote are the other's clusters those of this one.
    others = read_held_out(path) if table.powers is not None else None
    held_out = {} if others is None else _held_out(others, clusters, groups, task)
    return Inferred(
        groups.with_powers(
            {label: powers.get(name, 1.0) for label, name in enumerate(task.class_names)}
        ),
        held_out,
        {"groups_from": path.name},
        weight_seed=table.weight_seed,
    )


def _in_order(table: GroupTable, split: str, task: Task) -> np.ndarray:
    """The cluster of every example of a split, in its order."""
    labels = np.asarray(task.splits()[split].labels)
    count, rows = len(labels), table.ids
    counts = np.bincount(rows[(rows >= 0) & (rows < count)], minlength=count)
    if len(rows) != count or (counts != 1).any():
        raise InputError(
            f"{table.path} has {len(rows)} rows and names {int((counts > 0).sum())} of the {count} "
            f"{split} examples: it was made for other data; run 'spare discover' on this data."
        )
    if table.labels is not None:
        class_names = np.asarray(task.class_names, dtype=object)[labels[rows]]
        different = int((table.labels != class_names).sum())
        if different:
            raise InputError(
                f"{different} of the {count} {split} examples have another class in {table.path}: "
                f"it was made for other data; run 'spare discover' on this data."
            )
    clusters = np.empty(count, dtype=np.int64)
    clusters[rows] = table.clusters
    return clusters


def _held_out(
    table: GroupTable, clusters: np.ndarray, groups: Groups, task: Task
) -> dict[str, np.ndarray]:
    """The groups of val and test, with the ids of training's."""
    pairs = zip(groups.labels.tolist(), clusters.tolist(), strict=True)
    id_of = dict(zip(pairs, groups.ids.tolist(), strict=True))
    held_out = {}
    for name, split in task.splits().items():
        if name != "train":
            of_split = _in_order(table.of_split(name), name, task).tolist()
            pairs = zip(np.asarray(split.labels).tolist(), of_split, strict=True)
            held_out[name] = np.asarray([id_of.get(pair, -1) for pair in pairs])
            if (held_out[name] < 0).any():
                raise InputError(
                    f"{table.path} has clusters that no training example is in: run "
                    f"'spare discover' again."
                )
    return held_out


INFERENCE = Inference("given", sees("none"), infer, GivenOptions)
