"""One (task, method, seed) to one run folder, resumable at any moment.

While it works, everything is in `<folder>.partial`: a checkpoint per stage, each replaced in one
step. At the end scores are written there, the checkpoints go, and the folder gets its name: a
folder without `.partial` is complete, so resuming a finished run is skipping it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import resource
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import spare
from spare.datasets import data_root, dataset_named
from spare.errors import InputError, RunError, SpareWarning, check_seed
from spare.files import cannot_write, read_json, write_atomic, write_json, write_tensors
from spare.methods import Fitted, Method, method_named
from spare.metrics import group_scores, minority_recovery, true_minority
from spare.presets import FORMAT, Plan, plan
from spare.selection import rule_named
from spare.stages import Judge, Report, Stages
from spare.task import Split, Task
from spare.train import State, outputs
from spare.weights import importance_weights

#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0
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
    planned = plan(task, recipe, overrides or {})
    request = planned.request(seed)
    folder = Path(os.path.abspath(folder))
    if folder == Path.cwd():  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    done = finished(folder, request)
    if done is not None:
        say(f"{folder} is complete: nothing to do")
        return done
    partial = folder.with_name(f"{folder.name}.partial")
    with _locked(partial):
        if (partial / "settings.json").exists():
            _refuse_other(partial, read_json(partial / "settings.json"), request)
        if (partial / "run.json").exists():  # ended between the last write and the new name
            _complete(partial, folder)
            return read_json(folder / "run.json")
        write_json(partial / "settings.json", request)
        try:
            with _threads(threads):
                record = _work(
                    planned, recipe, seed, data_root(data), partial, report, say, should_stop
                )
        except BaseException:
            if not any(partial.glob("*.checkpoint")):  # nothing to go on from: leave no trace
                shutil.rmtree(partial)
            raise
        write_json(partial / "run.json", request | record)
        _complete(partial, folder)
    return request | record


def finished(folder: Path, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of a complete run folder, or None; an error if it is of another setting."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / "run.json").is_file():
        raise RunError(
            f"{folder} exists and is not a run folder (no run.json): choose another --out."
        )
    record = read_json(folder / "run.json")
    _refuse_other(folder, record, request)
    return record


def _refuse_other(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if found.get("format", 0) > FORMAT:
        raise RunError(f"{folder} was written by a newer version of spare-ml: upgrade to read it.")
    for part in ("task", "method", "seed", "settings", "options"):
        if found.get(part) == wanted[part]:
            continue
        there, asked = found.get(part), wanted[part]
        if isinstance(there, dict) and isinstance(asked, dict):
            key = next(k for k in sorted({*there, *asked}) if there.get(k) != asked.get(k))
            part, there, asked = key, there.get(key), asked.get(key)
        raise RunError(
            f"{folder} holds a run of another setting ({part} is {there!r} there, {asked!r} was "
            f"asked for): choose another --out, or delete that folder."
        )


def _work(
    planned: Plan,
    recipe: Method,
    seed: int,
    data: Path,
    partial: Path,
    report: Report,
    say: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    started = time.perf_counter()
    report("data", 0, 1)
    task: Task = dataset_named(planned.task).load(data, seed, **planned.choices)
    report("data", 1, 1)
    sees = recipe.sees(planned.options)
    _check_labels(task, recipe, sees, planned)
    stages = Stages(
        seed=seed,
        settings=planned.settings,
        folder=partial,
        judge=_judge(task, planned.settings.selection),
        needs_inferred_groups=rule_named(planned.settings.selection).needs == "inferred groups",
        report=report,
        should_stop=should_stop,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpareWarning)
        fitted = recipe.fit(task.as_seen_by(sees), stages, planned.options)
    notes = [str(w.message) for w in caught if issubclass(w.category, SpareWarning)]
    for note in notes:
        say(f"warning: {note}")

    scores = _scores(task, fitted, planned)
    _write_weights(partial, fitted)
    discovery = None
    if fitted.groups is not None:
        discovery = _discovery(task, fitted)
        _write_groups(partial, task, fitted)
    parts = stages.seconds
    # Work of an interrupted process counts too: a stage's clock is in its checkpoint.
    total = max(time.perf_counter() - started, sum(parts.values()))
    return {
        "selection": planned.settings.selection,
        "sees": sees,
        "selected_epoch": fitted.trained.selected_epoch,
        "scores": scores,
        "discovery": discovery,
        "notes": fitted.notes | ({"warnings": notes} if notes else {}),
        "history": fitted.trained.history,
        "seconds": {name: round(value, 3) for name, value in (parts | {"total": total}).items()},
        "examples_seen": stages.examples_seen,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "command": command(planned, seed),
    }


def _check_labels(task: Task, recipe: Method, sees: str, planned: Plan) -> None:
    rule = rule_named(planned.settings.selection)
    if sees == "train" and not task.train.attributes:
        raise InputError(
            f"{recipe.name} needs group labels for training, and {task.name} has none."
        )
    if task.val is None:
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
            f"{recipe.name} needs validation group labels with these options, and {task.name} has "
            f"none."
        )
    if rule.needs == "inferred groups" and not recipe.infers_groups:
        raise InputError(
            f"selection rule {rule.name!r} needs a method that infers groups (such as spare), and "
            f"{recipe.name} does not: use --set selection=val_average."
        )


def _judge(task: Task, selection: str) -> Judge:
    """Scores an epoch on validation by the named rule; the only place where val groups choose."""
    rule = rule_named(selection)
    true_groups = None
    if task.val is not None and task.val.attributes:
        true_groups = task.groups(task.val)

    def judge(epoch: int, correct: np.ndarray, inferred: np.ndarray | None) -> dict[str, float]:
        groups = inferred if rule.needs == "inferred groups" else true_groups
        record = {"score": rule.score(epoch, correct, groups), "average": float(correct.mean())}
        if true_groups is not None:
            scores = group_scores(correct, true_groups, task.group_names)
            record["worst_group"] = scores["worst_group"]
        return record

    return judge


def _scores(task: Task, fitted: Fitted, planned: Plan) -> dict[str, Any]:
    """scores[split][when][name] for val and test, the selected and the last epoch."""
    counts = None
    if task.train.attributes:
        counts = np.bincount(task.groups(task.train), minlength=len(task.group_names))
    trained = fitted.trained
    found: dict[str, Any] = {}
    for name, split in task.splits().items():
        if name == "train":
            continue
        found[name] = {}
        for when, state in (("selected", trained.selected), ("last", trained.last)):
            correct = _predictions(fitted, state, split, planned) == split.labels
            if split.attributes:
                groups, names = task.groups(split), task.group_names
            else:  # no true groups: classes are what can be told apart
                groups, names = split.labels, task.class_names
            found[name][when] = group_scores(correct, groups, names, counts)
    return found


def _predictions(fitted: Fitted, state: State, split: Split, planned: Plan) -> np.ndarray:
    model = fitted.trained.model
    model.load_state_dict(state)
    settings = planned.settings
    said = outputs(model, split, batch_size=settings.eval_batch_size, workers=settings.workers)
    return said.logits.argmax(1).numpy()


def _discovery(task: Task, fitted: Fitted) -> dict[str, Any]:
    """What was found in each class; true attributes are used here only to score it."""
    assert fitted.groups is not None
    recovery: dict[Any, dict[str, Any]] = {}
    if task.train.attributes:
        labels = np.asarray(task.train.labels)
        minority = true_minority(labels, task.groups(task.train))
        recovery = minority_recovery(labels, minority, ~fitted.groups.in_majority())
    return {
        task.class_names[label]: {
            "k": seen.k,
            "silhouette": seen.silhouette,
            "scores": {str(k): score for k, score in seen.scores.items()},
            "power": seen.power,
            "sizes": seen.sizes,
            "shares": seen.shares,
            "note": seen.note,
            **recovery.get(label, {}),
        }
        for label, seen in fitted.groups.evidence.items()
    }


def _write_weights(partial: Path, fitted: Fitted) -> None:
    tensors = {f"selected/{name}": value for name, value in fitted.trained.selected.items()}
    tensors |= {f"last/{name}": value for name, value in fitted.trained.last.items()}
    write_tensors(partial / "weights.safetensors", tensors, {})


def _write_groups(partial: Path, task: Task, fitted: Fitted) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert fitted.groups is not None
    labels = np.asarray(task.train.labels)
    table = pa.table(
        {
            "id": np.arange(len(labels)),
            "label": np.asarray(task.class_names)[labels],
            "cluster": fitted.groups.ids.astype(np.int32),
            "probability": importance_weights(fitted.groups, labels),
        }
    )
    write_atomic(partial / "groups.parquet", lambda path: pq.write_table(table, path))


def _complete(partial: Path, folder: Path) -> None:
    try:
        for checkpoint in partial.glob("*.checkpoint"):
            checkpoint.unlink()
        (partial / ".lock").unlink(missing_ok=True)
        os.replace(partial, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """One process a run folder: a second one says so instead of mixing its files in."""
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = (partial / ".lock").open("w")
    except OSError as error:
        raise cannot_write(partial, error) from error
    with lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(f"another process is working on {partial}.") from None
                time.sleep(0.1)
        yield


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Thread count changes the last bits of a sum, so a run fixes it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Within it, Ctrl-C and SIGTERM do not break off a step: they are asked for after it.

    A worker process (SPARE_PARENT in its environment) also stops when its parent is gone.
    """
    stop = threading.Event()
    parent = int(os.environ.get("SPARE_PARENT", 0))
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: stop.is_set() or (parent != 0 and os.getppid() != parent)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if platform.system() == "Linux" else peak / 1024**2


def versions() -> dict[str, str]:
    found = {"spare-ml": spare.__version__, "python": platform.python_version()}
    return found | {name: version(name) for name in VERSIONED}


def command(planned: Plan, seed: int) -> str:
    """A command that gives this run again, wherever the data is."""
    default = plan(planned.task, method_named(planned.method), {})
    words = ["spare", "train", planned.task, "--method", planned.method, "--seed", str(seed)]
    for now, was in (
        (planned.flat_settings(), default.flat_settings()),
        (planned.flat_options(), default.flat_options()),
    ):
        for key, value in now.items():
            if value != was[key]:
                text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                words += ["--set", f"{key}={text}"]
    return " ".join(words)
