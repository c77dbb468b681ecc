"""The walk of the data: a plan in, one complete folder with a record out.

    plan -> task -> inference -> training -> scores -> findings -> record

A discovery is the same walk with an inference and no training, so without scores. The folder can be
resumed at any moment (records/folder.py); the report is made afterwards, from the record.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spare.data.task import Task
from spare.errors import InputError, check_seed
from spare.findings.associations import associations_of
from spare.findings.describe import components, describe_groups
from spare.findings.verdict import verdict_of
from spare.methods import Fitted
from spare.progress import SILENT, Progress
from spare.records.folder import do_once
from spare.records.groups_file import write_groups
from spare.records.record import DiscoveryRecord, Kind
from spare.records.weights_file import write_weights
from spare.runs.environment import (
    code_version,
    collected_warnings,
    forget_peak_memory,
    limited_threads,
    peak_memory_mb,
    versions,
)
from spare.runs.plan import Plan, with_model
from spare.runs.scoring import check_task, judge_of, kept_epochs, rules_of, score
from spare.training.loop import Kept, Trained
from spare.training.stages import Stages


@dataclass(frozen=True)
class Finished:
    """A finished run or discovery."""

    folder: Path
    plan: Plan
    record: DiscoveryRecord
    #: The data, as it was loaded; None where the folder was complete already.
    task: Task | None


def run(
    plan: Plan,
    seed: int,
    folder: Path,
    *,
    threads: int | None = 1,
    progress: Progress = SILENT,
) -> Finished:
    """Infer groups, train and score as planned; done work is found, unfinished work resumed."""
    check_seed(seed)
    loaded: list[Task] = []

    def work(partial: Path) -> dict[str, Any]:
        with limited_threads(threads):
            task, record = _walk(plan, seed, partial, progress)
        loaded.append(task)
        return record

    kind: Kind = "run" if plan.method.trains else "discovery"
    record = do_once(folder, plan.request(seed), kind, work, progress.say)
    return Finished(folder, plan, record, loaded[0] if loaded else None)


def _walk(plan: Plan, seed: int, partial: Path, progress: Progress) -> tuple[Task, dict[str, Any]]:
    """The data as it was loaded, and what the record holds beside the request."""
    forget_peak_memory()
    started = time.perf_counter()
    method, settings = plan.method, plan.settings
    with collected_warnings(progress.say) as warnings:
        data = plan.load_task(seed, progress)
        task = with_model(data, plan, progress)
    sees = method.sees(plan.options)
    rules = {"selected": settings.selection}
    if method.trains:
        if task.holds_outputs:
            raise InputError(
                f"{plan.source.name} holds a model's outputs (one column per class), which cannot "
                f"be trained on: use spare discover, or --set treat_as=embeddings if they are not "
                f"outputs."
            )
        check_task(task, method, sees, settings.selection)
        rules = rules_of(task, method, settings.selection)
    kept: dict[str, Trained] = {}
    stages = Stages(
        seed=seed,
        settings=settings,
        judge=judge_of(task, rules),
        folder=partial,
        keep=lambda trained: kept.update({trained.name: trained}),
        progress=progress,
    )
    with collected_warnings(progress.say) as more_warnings:
        fitted = method.fit(task.as_seen_by(sees), stages, plan.options)
    trained_part: dict[str, Any] = {}
    states = {}
    if fitted.trained is not None:
        trained = kept[fitted.trained.name]
        epochs = kept_epochs(fitted, trained, rules)
        trained_part = _trained_part(task, fitted, trained, epochs, plan, rules)
        states = {when: epoch.state for when, epoch in epochs.items() if when != "paper_rule"}
    elif fitted.inferred is not None and fitted.inferred.early is not None:
        states = {"early": fitted.inferred.early}
    if states:
        write_weights(partial, states)
    scored = time.perf_counter()
    findings = _findings(data, task, fitted, sees, partial, seed, progress)
    now = time.perf_counter()
    phases = stages.seconds | {"findings": now - scored}
    # Work of an interrupted process counts too: a stage's clock is in its checkpoint.
    phases["total"] = max(now - started, sum(phases.values()))
    notes = fitted.notes if fitted.inferred is None else fitted.inferred.notes | fitted.notes
    warnings += more_warnings
    return data, {
        "kind": plan.source.kind,
        "sees": sees,
        "splits": {name: len(split) for name, split in task.splits().items()},
        **trained_part,
        **findings,
        "notes": notes | ({"warnings": warnings} if warnings else {}),
        "seconds": {name: round(value, 3) for name, value in phases.items()},
        "examples_seen": stages.examples_seen,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "code": code_version(),
        "command": plan.command(seed),
    }


def _trained_part(
    task: Task,
    fitted: Fitted,
    trained: Trained,
    epochs: dict[str, Kept],
    plan: Plan,
    rules: dict[str, str],
) -> dict[str, Any]:
    """What a run's record has beyond a discovery's."""
    part: dict[str, Any] = {
        "selection": plan.settings.selection,
        "selected_epoch": epochs["selected"].epoch,
    }
    if "paper_rule" in epochs:
        part["paper_rule"] = rules["paper_rule"]
        part["paper_rule_epoch"] = epochs["paper_rule"].epoch
    if "early" in epochs:
        part["early_epoch"] = epochs["early"].epoch
    return part | {
        "scores": score(task, fitted, epochs, plan.settings),
        # Without attribute columns a "group" in the scores is a class.
        "groups_known": any(split.attributes for split in task.splits().values()),
        "history": trained.history,
    }


def _findings(
    data: Task,
    task: Task,
    fitted: Fitted,
    sees: str,
    partial: Path,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """What the inferred groups are, how they look, and whether they speak for a shortcut."""
    inferred = fitted.inferred
    if inferred is None:
        return {"discovery": None, "associations": []}
    count = len(task.train)
    sampling = fitted.probabilities
    sampling = np.full(count, 1 / count) if sampling is None else sampling
    progress.report("findings", 0, 1)
    early = inferred.early_outputs
    last = early[-1].probabilities if early else None
    write_groups(
        partial,
        task,
        inferred.groups,
        inferred.held_out,
        sampling,
        early_probabilities=last,
        points=None if last is None else components(last, task.train.labels),
        weight_seed=inferred.weight_seed,
    )
    findings: dict[str, Any] = {
        "discovery": describe_groups(task, inferred.groups, sampling, early),
        # True groups go with their own attributes: that is no finding.
        "associations": (
            [] if sees == "train" else associations_of(data, inferred.groups.ids, seed)
        ),
    }
    if early:
        findings["verdict"] = verdict_of(task, early)
    progress.report("findings", 1, 1)
    return findings
