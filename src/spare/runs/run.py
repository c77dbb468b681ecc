"""One (task, method, seed) to one run folder, resumable at any moment (folders.py)."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shlex
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import spare
from spare.cli.console import show
from spare.data.inputs import shape_of
from spare.data.task import Split, Task
from spare.datasets import locate
from spare.errors import DataError, InputError, SpareWarning, check_seed
from spare.findings.describe import describe, judged, write_groups
from spare.methods import METHODS, Fitted, Method, method_named
from spare.models import ModelChoice, builder
from spare.records.folder import once
from spare.records.weights_file import write_states
from spare.runs.plan import Plan, plan
from spare.training.checkpoint import State
from spare.training.frozen import frozen_features
from spare.training.loop import Kept, Trained
from spare.training.metrics import gaps, group_scores, pattern_shares
from spare.training.outputs import outputs
from spare.training.selection import SMALLEST_INFERRED_GROUP, rule_named
from spare.training.stages import Judge, Report, Stages

VERSIONED = ("torch", "torchvision", "numpy", "scikit-learn")


def run(
    task: str,
    method: str,
    seed: int,
    folder: Path,
    *,
    data: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    threads: int | None = 1,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train one method on one task and score it; returns what run.json holds.

    A complete folder of the same settings is returned as it is; an unfinished one is gone on with.
    """
    check_seed(seed)
    recipe = method_named(method)
    planned = plan(locate(task, data, overrides), recipe, overrides or {})

    def work(partial: Path) -> dict[str, Any]:
        with limited_threads(threads):
            return _work(planned, recipe, seed, partial, report, say, should_stop)

    return once(folder, planned.request(seed), "run.json", work, say)


def run_name(method: str, seed: int) -> str:
    """The run folder's name; someone's own method has a colon in its name."""
    return f"{method.replace(':', '-')}-seed{seed}"


def load_task(planned: Plan, seed: int, report: Report) -> Task:
    """The task with the model that the settings name, on cached features where it is frozen."""
    report("data", 0, 1)
    task = planned.load_task(seed, report)
    report("data", 1, 1)
    return with_model(task, planned, report)


def with_model(task: Task, planned: Plan, report: Report) -> Task:
    choice = planned.model
    if task.holds_outputs:
        return task
    if choice.frozen:
        task = frozen_features(task, choice, planned.settings, report)
        choice = ModelChoice("linear")
    shape = shape_of(task.train.inputs)
    return replace(task, build_model=builder(choice, len(task.class_names), shape))


def _work(
    planned: Plan,
    recipe: Method,
    seed: int,
    partial: Path,
    report: Report,
    say: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    started = time.perf_counter()
    with collected_warnings(say) as notes:
        task = load_task(planned, seed, report)
    if task.holds_outputs:
        raise InputError(
            f"{planned.source.name} holds a model's outputs (one column a class), which cannot be "
            f"trained on: use spare discover, or --set treat_as=embeddings if they are not outputs."
        )
    sees = recipe.sees(planned.options)
    _check_labels(task, recipe, sees, planned)
    rules = _rules(task, recipe, planned)
    kept: dict[str, Trained] = {}
    stages = Stages(
        seed=seed,
        settings=planned.settings,
        folder=partial,
        judge=_judge(task, rules),
        keep=lambda trained: kept.update({trained.name: trained}),
        report=report,
        should_stop=should_stop,
    )
    with collected_warnings(say) as more_notes:
        fitted = recipe.fit(task.as_seen_by(sees), stages, planned.options)
    notes += more_notes

    trained = kept[fitted.trained.name]
    last = Kept(len(trained.history), trained.last)
    states = {"selected": trained.kept.get(rules["selected"], last)}
    if rules.get("own_rule") in trained.kept:
        states["own_rule"] = trained.kept[rules["own_rule"]]
    states["last"] = last
    if fitted.early is not None:  # what plain training had come to, for comparison
        epoch = fitted.notes.get("separated_at") or getattr(planned.options, "reference_epochs", 0)
        states["early"] = Kept(int(epoch or 0), fitted.early)
    scores = _scores(task, fitted, states, planned)
    stored = {when: kept.state for when, kept in states.items() if when != "own_rule"}
    write_states(partial, stored)
    discovery = None
    if fitted.groups is not None:
        assert fitted.probabilities is not None
        discovery = describe(task, fitted.groups, fitted.probabilities, fitted.looks)
        write_groups(
            partial,
            task,
            fitted.groups,
            fitted.held_out,
            fitted.probabilities,
            fitted.looks,
            fitted.notes.get("initial", 0),
        )
    parts = stages.seconds
    # Work of an interrupted process counts too: a stage's clock is in its checkpoint.
    total = max(time.perf_counter() - started, sum(parts.values()))
    return {
        "selection": planned.settings.selection,
        "sees": sees,
        "selected_epoch": states["selected"].epoch,
        **(
            {"own_rule": rules["own_rule"], "own_epoch": states["own_rule"].epoch}
            if "own_rule" in states
            else {}
        ),
        **({"early_epoch": states["early"].epoch} if "early" in states else {}),
        "scores": scores,
        # Without attribute columns a "group" in the scores is a class.
        "groups_known": any(split.attributes for split in task.splits().values()),
        "discovery": discovery,
        **({"verdict": judged(task, fitted.looks)} if fitted.looks else {}),
        "notes": fitted.notes | ({"warnings": notes} if notes else {}),
        "history": trained.history,
        "seconds": {name: round(value, 3) for name, value in (parts | {"total": total}).items()},
        "examples_seen": stages.examples_seen,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "command": command(planned, seed),
    }


def _check_labels(task: Task, recipe: Method, sees: str, planned: Plan) -> None:
    rule = rule_named(planned.settings.selection)
    if len(task.class_names) < 2:
        raise DataError(
            f"{task.name} has one class only ({task.class_names[0]}): there is nothing to tell it "
            f"from."
        )
    if sees == "train" and not task.train.attributes:
        raise InputError(
            f"{recipe.name} needs group labels of the training split, and {task.name} has none: "
            f"name their columns with --attributes, or use a method that needs none "
            f"({', '.join(label_free())})."
        )
    if task.val is None:
        if sees == "val":
            raise InputError(
                f"{recipe.name} needs a validation split with group labels, and {task.name} has "
                f"none."
            )
        if rule.needs != "nothing":
            raise InputError(
                f"selection rule {rule.name!r} needs a validation split, and {task.name} has none: "
                f"use --set selection=last."
            )
        return
    if rule.needs == "val groups" and not task.val.attributes:
        raise InputError(
            f"{task.name} has no validation group labels: use --set selection=val_average."
        )
    if sees == "val" and not task.val.attributes:
        raise InputError(
            f"{recipe.name} needs group labels of the validation split, and {task.name} has none: "
            f"name their columns with --attributes, or use a method that needs none "
            f"({', '.join(label_free())})."
        )
    if rule.needs == "inferred groups" and not recipe.infers_groups:
        raise InputError(
            f"selection rule {rule.name!r} needs a method that infers groups (such as spare), and "
            f"{recipe.name} does not: use --set selection=val_average."
        )


def label_free() -> list[str]:
    return [m.name for m in METHODS.values() if m.sees(m.options()) == "none"]


def _rules(task: Task, recipe: Method, planned: Plan) -> dict[str, str]:
    """The rules by which an epoch is kept: the run's, and that of the method's paper."""
    rules = {"selected": planned.settings.selection}
    if recipe.own_rule and recipe.own_rule != planned.settings.selection and task.val is not None:
        rules["own_rule"] = recipe.own_rule
    return rules


def _judge(task: Task, names: Mapping[str, str]) -> Judge:
    """Scores an epoch on validation by the named rules; the only place where val groups choose."""
    rules = {name: rule_named(name) for name in names.values()}
    true_groups = None
    if task.val is not None and task.val.attributes:
        true_groups = task.groups(task.val)

    def judge(
        epoch: int, correct: np.ndarray, inferred: np.ndarray | None
    ) -> tuple[dict[str, float], dict[str, float]]:
        scores = {
            name: rule.score(
                epoch, correct, inferred if rule.needs == "inferred groups" else true_groups
            )
            for name, rule in rules.items()
        }
        record = {"score": scores[names["selected"]], "average": float(correct.mean())}
        if true_groups is not None:
            record["worst_group"] = group_scores(correct, true_groups, task.group_names)[
                "worst_group"
            ]
        return scores, record

    return judge


def _scores(
    task: Task, fitted: Fitted, states: Mapping[str, Kept], planned: Plan
) -> dict[str, Any]:
    """scores[split][when][name] for val and test, the selected and the last epoch."""
    counts = None
    shares: dict[tuple[bool, ...], float] = {}
    if task.train.attributes:
        counts = np.bincount(task.groups(task.train), minlength=len(task.group_names))
        if task.shortcuts:
            shares = pattern_shares(task.train.labels, _shortcuts(task, task.train))
    found: dict[str, Any] = {}
    for name, split in task.splits().items():
        if name == "train":
            continue
        found[name] = {}
        for when, kept in states.items():
            correct = _predictions(fitted, kept.state, split, planned) == split.labels
            if split.attributes:
                groups, names = task.groups(split), task.group_names
            else:  # no true groups: classes are what can be told apart
                groups, names = split.labels, task.class_names
            scores = group_scores(correct, groups, names, counts)
            if split.attributes and task.shortcuts:
                scores |= gaps(correct, split.labels, _shortcuts(task, split), shares)
            if fitted.groups is not None and name in fitted.held_out:
                inferred = fitted.groups.names(task.class_names)
                scores["inferred"] = group_scores(
                    correct, fitted.held_out[name], inferred, smallest=SMALLEST_INFERRED_GROUP
                )
            found[name][when] = scores
    return found


def _shortcuts(task: Task, split: Split) -> dict[str, np.ndarray]:
    assert split.attributes is not None
    return {name: split.attributes[name] for name in task.shortcuts}


def _predictions(fitted: Fitted, state: State, split: Split, planned: Plan) -> np.ndarray:
    model = fitted.trained.model
    model.load_state_dict(state)
    settings = planned.settings
    said = outputs(model, split, batch_size=settings.eval_batch_size, workers=settings.workers)
    return said.logits.argmax(1).numpy()


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Thread count changes the last bits of a sum, so a run fixes it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def collected_warnings(say: Callable[[str], None]) -> Iterator[list[str]]:
    """Our own warnings within it, said once each and kept."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpareWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, SpareWarning):
            if str(warning.message) not in notes:
                notes.append(str(warning.message))
        else:  # not ours to hold back
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    for note in notes:
        say(f"warning: {note}")


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Within it, Ctrl-C and SIGTERM do not break off a step: they are asked for after it.

    A worker process (SPARE_PARENT in its environment) also stops when its parent is gone.
    """
    told: list[int] = []  # not an Event: a second signal while it is being set would lock up
    parent = int(os.environ.get("SPARE_PARENT", 0))
    before = {
        number: signal.signal(number, lambda number, _: told.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(told) or (parent != 0 and os.getppid() != parent)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if platform.system() == "Linux" else peak / 1024**2


def versions() -> dict[str, str]:
    found = {"spare-ml": spare.__version__, "python": platform.python_version()}
    return found | {name: version(name) for name in VERSIONED}


def command(planned: Plan, seed: int, verb: str = "train") -> str:
    """A command that gives this run again, wherever the data is."""
    words = ["spare", verb, planned.source.name]
    words += ["--method", planned.method] if verb == "train" else []
    words += ["--seed", str(seed)]
    for key, value in planned.changed().items():
        words += ["--set", f"{key}={show(value)}"]
    return shlex.join(words)
