"""What group inference found: a record a class for people, a row an example for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.errors import InputError
from spare.files import write_atomic
from spare.findings.verdict import class_verdict, overall, strongest
from spare.groups.result import Groups
from spare.training.metrics import minority_recovery, true_minority

HELD_OUT = "held_out_groups.parquet"


@dataclass(frozen=True)
class Look:
    """What an early model said of every training example; epoch None for outputs that were given.

    The last of several looks is the one that the groups were taken from.
    """

    epoch: int | None
    #: (examples, classes): probabilities, each row summing to 1.
    said: np.ndarray
    #: What they were clustered into.
    groups: Groups


@dataclass(frozen=True)
class Examples:
    """groups.parquet in columns: every training example's cluster and class, what it is known by,
    and what the early model said of it."""

    ids: np.ndarray
    labels: np.ndarray
    names: np.ndarray | None
    predicted: np.ndarray | None
    confidence: np.ndarray | None
    points: np.ndarray | None


def describe(
    task: Task, groups: Groups, probabilities: np.ndarray, looks: Sequence[Look] = ()
) -> dict[str, Any]:
    """What was found in each class; true attributes are used here only to score it.

    probabilities   how likely each training example is drawn
    looks           what early models said, by which clusters are described
    """
    mass = np.bincount(groups.ids, weights=probabilities, minlength=len(groups.names()))
    recovery: dict[Any, dict[str, Any]] = {}
    if task.train.attributes:
        labels = np.asarray(task.train.labels)
        minority = true_minority(labels, task.groups(task.train))
        recovery = minority_recovery(labels, minority, ~groups.in_majority())
    facts = [(look.epoch, cluster_facts(look.said, groups, task.class_names)) for look in looks]
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
            **({"clusters": [facts[-1][1][group] for group in seen.ids]} if facts else {}),
            **({"by_epoch": _by_epoch(facts, seen.ids)} if len(facts) > 1 else {}),
            **recovery.get(label, {}),
        }
        for label, seen in groups.evidence.items()
    }


def judged(task: Task, looks: Sequence[Look]) -> dict[str, Any]:
    """The verdict: the strongest of what each look says, each by its own clusters."""
    found = []
    for look in looks:
        facts = cluster_facts(look.said, look.groups, task.class_names)
        classes = {
            task.class_names[label]: class_verdict(
                [facts[group] for group in seen.ids], seen.silhouette
            )
            for label, seen in look.groups.evidence.items()
        }
        found.append({**overall(classes), "epoch": look.epoch, "classes": classes})
    return strongest(found)


def cluster_facts(
    said: np.ndarray, groups: Groups, class_names: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """By group id: how often an early model is right about it, how sure it is, and what it takes it
    for when it is wrong.

    >>> from spare.groups.groups import groups_from_parts
    >>> said = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    >>> facts = cluster_facts(said, groups_from_parts([0, 0, 1, 0], [0, 0, 0, 1]), ("cat", "dog"))
    >>> facts[1]
    {'size': 1, 'accuracy': 0.0, 'confidence': 0.7, 'mistaken_for': 'dog', 'mistaken_share': 1.0}
    """
    predicted, sure = said.argmax(1), said.max(1)
    found = {}
    for label, seen in groups.evidence.items():
        for group in seen.ids:
            own = np.flatnonzero(groups.ids == group)
            counts = np.bincount(predicted[own], minlength=said.shape[1])
            right = int(counts[label])
            counts[label] = 0
            wrong = int(counts.argmax())
            found[group] = {
                "size": len(own),
                "accuracy": right / len(own) if len(own) else None,
                "confidence": float(sure[own].mean()) if len(own) else None,
                "mistaken_for": class_names[wrong] if counts[wrong] else None,
                "mistaken_share": int(counts[wrong]) / len(own) if len(own) else 0.0,
            }
    return found


def _by_epoch(
    facts: Sequence[tuple[int | None, dict[int, dict[str, Any]]]], ids: Sequence[int]
) -> list[dict[str, Any]]:
    """The same clusters as earlier and later models saw them, in the order of the epochs."""
    ordered = sorted(facts, key=lambda one: -1 if one[0] is None else one[0])
    return [
        {
            "epoch": epoch,
            **{name: [seen[group][name] for group in ids] for name in ("accuracy", "confidence")},
        }
        for epoch, seen in ordered
    ]


def components(said: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Two coordinates an example, by which a class can be drawn: the principal components of its
    logits, each class by itself. Of two classes there is only one, and the second is 0."""
    logits = np.log(np.clip(said.astype(np.float64), 1e-7, None))
    logits -= logits.mean(1, keepdims=True)
    found = np.zeros((len(said), 2), dtype=np.float32)
    for label in np.unique(labels):
        own = labels == label
        centred = logits[own] - logits[own].mean(0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        axes = axes[:, ::-1][:, :2]
        # Which way an axis points is a matter of chance: the way in which it is longer.
        axes = axes * np.where(np.abs(axes.max(0)) >= np.abs(axes.min(0)), 1, -1)
        found[own, : axes.shape[1]] = centred @ axes
    return found


def write_groups(
    folder: Path,
    task: Task,
    groups: Groups,
    held_out: Mapping[str, np.ndarray],
    probabilities: np.ndarray,
    looks: Sequence[Look] = (),
    initial: int = 0,
) -> None:
    """groups.parquet: a row for each training example, with how likely it is drawn and, where an
    early model was looked at, what it said and where the example lies among its class; with the
    powers, and the number of the initial weights that the groups belong to.
    held_out_groups.parquet: the same of val and test, which are never drawn."""
    import pyarrow as pa

    train = _columns(task, "train", groups.ids)
    train.insert(3, ("probability", pa.array(probabilities)))
    if looks:
        said = looks[-1].said
        classes = np.asarray(task.class_names, dtype=object)
        x, y = components(said, np.asarray(task.train.labels)).T
        train += [
            ("predicted", pa.array(classes[said.argmax(1)], pa.string())),
            ("confidence", pa.array(said.max(1).astype(np.float32))),
            ("x", pa.array(x)),
            ("y", pa.array(y)),
        ]
    powers = {task.class_names[label]: power for label, power in groups.powers().items()}
    about = {"powers": powers, "initial": initial}
    table = pa.table(dict(train)).replace_schema_metadata({"spare": json.dumps(about)})
    _write(folder / "groups.parquet", table)
    others = [
        pa.table(
            {"split": pa.array([name] * len(ids), pa.string())} | dict(_columns(task, name, ids))
        )
        for name, ids in held_out.items()
    ]
    if others:
        _write(folder / HELD_OUT, pa.concat_tables(others))


def read_examples(folder: Path, described: Mapping[str, Any] | None) -> Examples | None:
    """groups.parquet of a folder, None where nothing was inferred.

    described   what its record says of each class; a file that says otherwise is refused
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "groups.parquet"
    if not described or not path.is_file():
        return None
    try:
        table = pq.read_table(path)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        return _checked(columns, described)
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not what was written with the record beside it ({error}): run its command "
            f"again."
        ) from error


def _checked(columns: Mapping[str, np.ndarray], described: Mapping[str, Any]) -> Examples:
    sizes = [size for seen in described.values() for size in seen["sizes"]]
    owners = np.repeat(list(described), [len(seen["sizes"]) for seen in described.values()])
    missing = {"cluster", "label"} - columns.keys()
    if missing:
        raise ValueError(f"it has no column {min(missing)!r}")
    ids = columns["cluster"]
    if ids.dtype.kind not in "iu" or not np.isin(ids, np.arange(len(sizes))).all():
        raise ValueError(f"its clusters are not the numbers from 0 to {len(sizes) - 1}")
    if not np.array_equal(np.bincount(ids, minlength=len(sizes)), sizes):
        raise ValueError("its clusters have other sizes")
    if not np.array_equal(columns["label"], owners[ids]):
        raise ValueError("its clusters are of other classes")
    placed = {"x", "y"} <= columns.keys()
    points = np.stack([columns["x"], columns["y"]], 1) if placed else None
    if points is not None and not np.isfinite(points).all():
        raise ValueError("a point is nowhere")
    predicted = columns.get("predicted")
    if predicted is not None and not set(predicted) <= described.keys():
        raise ValueError("a predicted class is none of the record's")
    return Examples(
        ids,
        columns["label"],
        columns.get("name"),
        predicted,
        columns.get("confidence"),
        points,
    )


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
