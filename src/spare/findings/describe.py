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
        How likely each training example is sampled.
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
        (early.epoch, cluster_facts(early, groups, task.class_names)) for early in early_outputs
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
            # A class that is never sampled has no samples to share.
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
    early: EarlyOutputs, groups: Groups, class_names: Sequence[str]
) -> dict[int, Cluster]:
    """By group id: how often an early model is right, how sure it is, and its usual mistake.

    >>> from spare.groups.result import groups_from_parts
    >>> from spare.methods.method import EarlyOutputs
    >>> early = EarlyOutputs(1, np.array([0, 0, 1, 1]), np.array([0.9, 0.8, 0.7, 0.6]))
    >>> groups = groups_from_parts([0, 0, 1, 0], [0, 0, 0, 1])
    >>> cluster_facts(early, groups, ("cat", "dog"))[1]
    {'size': 1, 'accuracy': 0.0, 'confidence': 0.7, 'mistaken_for': 'dog', 'mistaken_share': 1.0}
    """
    rows_of = rows_by_class(groups.ids)
    facts: dict[int, Cluster] = {}
    for label, evidence in groups.evidence.items():
        for group in evidence.ids:
            rows = rows_of.get(group, np.empty(0, dtype=np.int64))
            counts = np.bincount(early.predicted[rows], minlength=len(class_names))
            right = int(counts[label])
            counts[label] = 0
            wrong = int(counts.argmax())
            facts[group] = {
                "size": len(rows),
                "accuracy": right / len(rows) if len(rows) else None,
                "confidence": float(early.confidence[rows].mean()) if len(rows) else None,
                "mistaken_for": class_names[wrong] if counts[wrong] else None,
                "mistaken_share": int(counts[wrong]) / len(rows) if len(rows) else 0.0,
            }
    return facts


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
