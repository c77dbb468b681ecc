"""What was found in each class, and what early models make of every cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from spare.data.task import Task
from spare.groups.arrays import rows_by_class
from spare.records.record import ClassGroups, Cluster, ClustersAtEpoch
from spare.training.metrics import inferred_minority, minority_recovery, true_minority

if TYPE_CHECKING:
    from spare.groups.result import Groups
    from spare.methods.method import EarlyOutputs

#: A direction in which points spread less than this share of the most is rounding.
ROUNDING = 1e-7
#: The smallest number that can be divided by.
TINY = np.finfo(np.float64).tiny


def describe_groups(
    task: Task,
    groups: Groups,
    sampling: np.ndarray,
    early_outputs: Sequence[EarlyOutputs] = (),
) -> dict[str, ClassGroups]:
    """Describe the groups of every class; true attributes are used only to score them.

    Parameters
    ----------
    sampling
        How likely each training example is drawn.
    early_outputs
        What early models said at one look after the other, and last what was clustered.
    """
    mass = np.bincount(groups.ids, weights=sampling, minlength=len(groups.names()))
    recovery: dict[Any, dict[str, Any]] = {}
    if task.train.attributes:
        labels = np.asarray(task.train.labels)
        minority = true_minority(task, task.train)
        recovery = minority_recovery(labels, minority, inferred_minority(groups, minority))
    facts = [
        (early.epoch, cluster_facts(early.probabilities, groups, task.class_names))
        for early in early_outputs
    ]
    described: dict[str, ClassGroups] = {}
    for label, evidence in groups.evidence.items():
        class_mass = mass[evidence.ids]
        class_groups: ClassGroups = {
            "k": evidence.k,
            "silhouette": evidence.silhouette,
            "scores": {str(k): score for k, score in evidence.scores.items()},
            "power": evidence.power,
            "sizes": evidence.sizes,
            # A class that is never drawn has no draws to share.
            "shares": (class_mass / (class_mass.sum() or 1)).tolist(),
            "note": evidence.note,
        }
        if facts:
            class_groups["clusters"] = [facts[-1][1][group] for group in evidence.ids]
        if len(facts) > 2:
            class_groups["by_epoch"] = _by_epoch(facts[:-1], evidence.ids)
        described[task.class_names[label]] = cast(
            ClassGroups, {**class_groups, **recovery.get(label, {})}
        )
    return described


def cluster_facts(
    probabilities: np.ndarray, groups: Groups, class_names: Sequence[str]
) -> dict[int, Cluster]:
    """By group id: how often an early model is right, how sure it is, and its usual mistake.

    >>> from spare.groups.result import groups_from_parts
    >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    >>> groups = groups_from_parts([0, 0, 1, 0], [0, 0, 0, 1])
    >>> cluster_facts(probabilities, groups, ("cat", "dog"))[1]
    {'size': 1, 'accuracy': 0.0, 'confidence': 0.7, 'mistaken_for': 'dog', 'mistaken_share': 1.0}
    """
    predicted, confidence = probabilities.argmax(1), probabilities.max(1)
    rows_of = rows_by_class(groups.ids)
    facts: dict[int, Cluster] = {}
    for label, evidence in groups.evidence.items():
        for group in evidence.ids:
            rows = rows_of.get(group, np.empty(0, dtype=np.int64))
            counts = np.bincount(predicted[rows], minlength=probabilities.shape[1])
            right = int(counts[label])
            counts[label] = 0
            wrong = int(counts.argmax())
            facts[group] = {
                "size": len(rows),
                "accuracy": right / len(rows) if len(rows) else None,
                "confidence": float(confidence[rows].mean()) if len(rows) else None,
                "mistaken_for": class_names[wrong] if counts[wrong] else None,
                "mistaken_share": int(counts[wrong]) / len(rows) if len(rows) else 0.0,
            }
    return facts


def components(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Two coordinates per example to plot a class by: the principal components of its logits.

    Each class has components of its own. With two classes there is only one: the second is 0.
    """
    logits = np.log(np.clip(probabilities.astype(np.float64), 1e-7, None))
    logits -= logits.mean(1, keepdims=True)
    points = np.zeros((len(probabilities), 2), dtype=np.float32)
    for rows in rows_by_class(labels).values():
        centered = logits[rows] - logits[rows].mean(0)
        axes = _two_axes(centered)
        # The sign of an axis is arbitrary: its largest loading is made positive.
        axes = axes * np.where(np.abs(axes.max(0)) >= np.abs(axes.min(0)), 1, -1)
        points[rows, : axes.shape[1]] = centered @ axes
    return points


def _two_axes(centered: np.ndarray) -> np.ndarray:
    """The two directions in which centered points spread most, as columns; zeros where none."""
    if len(centered) >= centered.shape[1]:
        axes = np.linalg.eigh(centered.T @ centered)[1]
        return np.asarray(axes[:, ::-1][:, :2])
    # With many classes of few examples, the products of examples are the much smaller matrix.
    axes = centered.T @ np.linalg.eigh(centered @ centered.T)[1][:, ::-1][:, :2]
    lengths = np.linalg.norm(axes, axis=0)
    return np.asarray(
        np.where(lengths > ROUNDING * lengths[0], axes / np.maximum(lengths, TINY), 0)
    )


def _by_epoch(
    facts: Sequence[tuple[int | None, Mapping[int, Cluster]]], ids: Sequence[int]
) -> list[ClustersAtEpoch]:
    """The same clusters according to earlier and later models."""
    return [
        {
            "epoch": epoch,
            "accuracy": [clusters[group]["accuracy"] for group in ids],
            "confidence": [clusters[group]["confidence"] for group in ids],
        }
        for epoch, clusters in facts
    ]
