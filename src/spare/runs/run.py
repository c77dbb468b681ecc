"""The walk of the data: a plan in, one complete folder with a record out.

    plan -> task -> inference -> training -> scores -> findings -> record

A discovery is the same walk with an inference and no training, so without scores. The folder can be
resumed at any moment (records/folder.py); the report is made afterwards, from the record.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
import torch

from spare.data.task import Task
from spare.errors import InputError, SpareError, SpareWarning, reason
from spare.findings.associations import associations_of, picture_statistics
from spare.findings.describe import describe_groups
from spare.findings.taken import resemblances, taken_blocks
from spare.findings.verdict import verdict_of
from spare.limits import check_seed
from spare.methods import METHODS, Fitted
from spare.methods.xrm import XrmOptions, val_groups
from spare.processes.world import current
from spare.progress import SILENT, Progress
from spare.records.code import code_version
from spare.records.folder import do_once
from spare.records.groups_file import write_groups
from spare.records.record import (
    DiscoveryRecord,
    Findings,
    Kind,
    RunRecord,
    TakenBlock,
    Training,
)
from spare.records.weights_file import write_weights
from spare.runs.environment import (
    Threads,
    collected_warnings,
    forget_peak_memory,
    limited_threads,
    peak_memory_mb,
    versions,
)
from spare.runs.plan import Plan, check_names, make_plan, with_model
from spare.runs.scoring import (
    check_labels,
    check_rule,
    judge_of,
    kept_epochs,
    rules_of,
    score,
)
from spare.runs.together import check_same_data, led
from spare.runs.values import convert
from spare.training.device import device_named, own_device
from spare.training.loop import Kept, Trained
from spare.training.selection import rule_named
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
    threads: int = 1,
    progress: Progress = SILENT,
) -> Finished:
    """Infer groups, train and score as planned; done work is found, unfinished work resumed.

    Of several processes, one opens the folder and writes; the others train and evaluate along.

    threads     0 for all
    """
    check_seed(seed)
    seed, threads = int(seed), convert("threads", threads, Threads)
    check_names(plan)
    world = current()
    if world.size > 1 and plan.settings.compile:
        raise InputError(
            "compile=true is for one process: what several tell each other in the middle of a "
            "network cannot be compiled."
        )
    request = plan.request(seed)
    world.agree("settings", {**request, "version": code_version()["version"]})
    progress = progress if world.leads else Progress(should_stop=progress.should_stop)
    loaded: list[Task] = []

    def work(place: Path) -> DiscoveryRecord | None:
        device = device_named(plan.settings.device)
        with limited_threads(threads), own_device(device, world):
            task, record = _walk(plan, seed, place, progress)
        loaded.append(task)
        return record

    kind: Kind = "run" if plan.method.trains else "discovery"
    record = led(world, work, lambda lead: do_once(folder, request, kind, lead, progress.say))
    return Finished(folder, plan, record, loaded[0] if loaded else None)


def _walk(
    plan: Plan, seed: int, place: Path, progress: Progress
) -> tuple[Task, DiscoveryRecord | None]:
    """The data as it was loaded, and the record, in the process that leads."""
    forget_peak_memory()
    started, world = time.perf_counter(), current()
    method, settings = plan.method, plan.settings
    with collected_warnings(progress.say) as warnings:
        data = world.in_turn(lambda: plan.load_task(seed, progress))
        check_same_data(world, data)
        task = world.in_turn(lambda: with_model(data, plan, progress))
    if method.trains and task.holds_outputs:
        raise InputError(
            f"{plan.source.name} holds a model's outputs (one column per class), which cannot be "
            f"trained on: use spare discover, or --set treat_as=embeddings if they are not outputs."
        )
    sees = method.sees(plan.options)
    check_labels(task, method, sees)
    rules = {"selected": settings.selection}
    if method.trains:
        check_rule(task, method, settings.selection)
        rules = rules_of(task, method, settings.selection)
    kept: dict[str, Trained] = {}
    stages = Stages(
        seed=seed,
        settings=settings,
        judge=judge_of(task, rules),
        folder=place,
        keep=lambda trained: kept.update({trained.name: trained}),
        progress=progress,
    )
    with collected_warnings(progress.say) as more_warnings:
        twins = _select_by_twins(plan, task, stages, rules)
        fitted = method.fit(task.as_seen_by(sees), stages, plan.options)
    inferred = fitted.inferred
    training: Training | None = None
    states = {} if inferred is None or inferred.early is None else {"early": inferred.early}
    if fitted.trained is not None:
        trained = kept.get(fitted.trained.name, fitted.trained)
        epochs = kept_epochs(fitted, trained, rules)
        training = _training(task, fitted, trained, epochs, plan, rules)
        states = {when: epoch.state for when, epoch in epochs.items() if when != "paper_rule"}
    if not world.leads:
        return data, None
    if states:
        write_weights(place, states)
    scored = time.perf_counter()
    with collected_warnings(progress.say) as last_warnings:
        findings = _findings(data, task, fitted, sees, place, seed, progress)
    now = time.perf_counter()
    seconds = stages.cost.seconds | {"findings": now - scored}
    # Work of an interrupted process counts too: a stage's clock is in its checkpoint.
    seconds["total"] = max(now - started, sum(seconds.values()))
    several = {"processes": world.size} if world.size > 1 else {}
    notes = several | twins | (fitted.notes if inferred is None else inferred.notes | fitted.notes)
    warnings += more_warnings + last_warnings
    record: DiscoveryRecord = {
        **plan.request(seed),
        "kind": plan.source.kind,
        "sees": sees,
        "splits": {name: len(split) for name, split in task.splits().items()},
        **findings,
        "notes": notes | ({"warnings": warnings} if warnings else {}),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "examples_seen": stages.cost.examples_seen,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "code": code_version(),
        "command": plan.command(seed),
    }
    if training is None:
        return data, record
    run_record: RunRecord = {**record, **training}
    return data, run_record


def _select_by_twins(
    plan: Plan, task: Task, stages: Stages, rules: dict[str, str]
) -> dict[str, Any]:
    """Train XRM's twins if a rule selects by them; returns what to note of them in the record.

    Their options are those of the run's method if it is an xrm, else those that xrm has for this
    data. They get the task without any group label, whatever the method sees.
    """
    needs = {rule_named(rule).needs for rule in rules.values()} if plan.method.trains else set()
    if "cross mistakes" not in needs:
        return {}
    options = plan.options
    if not isinstance(options, XrmOptions):
        options = make_plan(plan.source, METHODS["xrm"], {}).options
    groups = val_groups(task.as_seen_by("none"), stages, options)
    stages.use_cross_mistakes(groups)
    used = {field.name: getattr(options, field.name) for field in fields(XrmOptions)}
    sizes = np.bincount(groups, minlength=2 * len(task.class_names)).tolist()
    return {"selected_by_twins": used | {"val_groups": sizes}}


def _training(
    task: Task,
    fitted: Fitted,
    trained: Trained,
    epochs: dict[str, Kept],
    plan: Plan,
    rules: dict[str, str],
) -> Training:
    """What a run's record has beyond a discovery's."""
    training: Training = {
        "selection": plan.settings.selection,
        "selection_used": rule_named(plan.settings.selection).needs,
        "selected_epoch": epochs["selected"].epoch,
        "scores": score(task, fitted, epochs, plan.settings),
        # Without attribute columns a "group" in the scores is a class.
        "groups_known": any(split.attributes for split in task.splits().values()),
        "history": trained.history,
    }
    if "paper_rule" in epochs:
        training["paper_rule"] = rules["paper_rule"]
        training["paper_rule_epoch"] = epochs["paper_rule"].epoch
    if "early" in epochs:
        training["early_epoch"] = epochs["early"].epoch
    return training


def _findings(
    data: Task,
    task: Task,
    fitted: Fitted,
    sees: str,
    partial: Path,
    seed: int,
    progress: Progress,
) -> Findings:
    """What the inferred groups are, what they go with, and whether they show a shortcut."""
    inferred = fitted.inferred
    if inferred is None:
        return {"discovery": None, "associations": []}
    count = len(task.train)
    sampling = fitted.probabilities
    sampling = np.full(count, 1 / count) if sampling is None else sampling
    progress.report("findings", 0, 1)
    early = inferred.early_outputs
    said: dict[str, Any] = {}
    if early:
        last = early[-1]
        said = {"predicted": last.predicted, "confidence": last.confidence, "points": last.points}
    write_groups(
        partial,
        task,
        inferred.groups,
        inferred.held_out,
        sampling,
        weight_seed=inferred.weight_seed,
        **said,
    )
    findings: Findings = {
        "discovery": describe_groups(task, inferred.groups, sampling, early),
        "associations": [],
    }
    taken: dict[str, TakenBlock] = {}
    alike: dict[Any, float | None] = {}
    if sees != "train":  # true groups go with their own attributes: that is no finding
        groups, described = inferred.groups, findings["discovery"] or {}
        try:
            statistics = picture_statistics(data)
            findings["associations"] = associations_of(data, groups, seed, statistics)
            taken = taken_blocks(groups, described, task.class_names, statistics)
            alike = resemblances(groups, inferred.blocks, statistics)
        except (SpareError, OSError) as error:  # a picture that is gone costs no training
            note = f"what clusters go with is not known: {reason(error)}."
            warn(note, SpareWarning, stacklevel=2)
    if inferred.blocks:
        epoch = inferred.notes["separated_at"]
        findings["verdict"] = verdict_of(task, inferred.blocks, epoch, taken, alike)
    progress.report("findings", 1, 1)
    return findings
