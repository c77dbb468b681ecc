"""What the processes of a job do in tests of training; each returns what is compared."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import spare
from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import SpareError
from spare.models import Classifier, build
from spare.processes.world import joined
from spare.progress import Progress
from spare.training.batches import shuffled
from spare.training.checkpoint import snapshot
from spare.training.loop import cross_entropy, train
from spare.training.outputs import outputs
from spare.training.settings import Settings
from tests.conftest import toy_task

#: A last batch of two examples, of which a third process has none.
TASK = toy_task(n=194)
SETTINGS = Settings(epochs=2, batch_size=32, lr=0.05, momentum=0.5)


class Normalized(torch.nn.Module):
    """Batch normalization and, if wanted, dropout; not divided into features and head."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(16, 2),
        )

    def forward(self, x):
        return self.layers(x)


def convolving():
    features = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 1, 2)),
        torch.nn.Conv2d(1, 4, 1),
        torch.nn.BatchNorm2d(4, momentum=None),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
    )
    return Classifier(features, torch.nn.Linear(8, 2))


MODELS = {
    "normalized": Normalized,
    "convolving": convolving,
    "dropout": lambda: Normalized(0.3),
    "plain": TASK.build_model,
}


class Draws(torch.nn.Module):
    """Cross-entropy that remembers which rows it was given."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, model, x, y, index):
        self.rows.append(index.tolist())
        return cross_entropy(model, x, y, index)


def fit(name, settings=SETTINGS, **more):
    """What training this model leaves: its weights, and how it went."""
    given = {"objective": Draws(), "batches": shuffled(len(TASK.train), 32), "key": (0, 1)} | more
    trained = train(build(MODELS[name], (3,)), TASK.train, settings, **given)
    rows = given["objective"].rows if isinstance(given["objective"], Draws) else []
    weights = {key: value.numpy() for key, value in trained.last.items()}
    return weights, trained.history, trained.examples_seen, rows


def trained(rank, count, cases):
    """What every case leaves: a model's name and more settings."""
    with joined():
        return [fit(name, replace(SETTINGS, **more)) for name, more in cases]


def with_objectives(rank, count, names):
    from tests.objectives import test_devices as objectives

    with joined():
        return [weights_with(objectives, name) for name in names]


def weights_with(objectives, name):
    make, batches = objectives.OBJECTIVES[name]
    model = build(objectives.TASK.build_model, (1,))
    objective = make()
    done = objectives.trained_with(objective, batches, model)
    memory = snapshot(objective) if isinstance(objective, torch.nn.Module) else {}
    state = {"loss": torch.tensor([h["loss"] for h in done.history])} | done.last | memory
    return {key: value.numpy() for key, value in state.items()}, done.examples_seen


def stopped(rank, count, file, steps, name="normalized"):
    """Train until the last process is asked to stop after so many steps."""
    asked = iter(range(1, 10_000))
    stop = Progress(should_stop=lambda: rank == count - 1 and next(asked) == steps)
    with joined():
        return fit(name, checkpoint=Path(file), progress=stop)


def outputs_of(rank, count, size):
    with joined():
        found = outputs(
            build(TASK.build_model, (1,)), TASK.train, Settings(eval_batch_size=size), features=True
        )
        return found.logits.numpy(), found.features.numpy()


def separated(rank, count, options):
    """What SPARE finds, and the most rows of outputs that a process has gathered."""
    from spare.methods.separation import SeparationOptions
    from spare.methods.spare import infer
    from spare.training.stages import Stages

    gathered = _watch_gathering() if count > 1 else [0]
    task = three_classes()
    stages = Stages(
        seed=0,
        settings=Settings(epochs=4, batch_size=32, lr=0.05, eval_batch_size=100),
        judge=lambda epoch: ({}, {}),
    )
    with joined():
        found = infer(task, stages, SeparationOptions(**options))
    return {
        "ids": found.groups.ids,
        "val": found.held_out["val"],
        "predicted": found.early_outputs[-1].predicted,
        "points": found.early_outputs[-1].points,
        "sizes": [each.sizes for each in found.groups.evidence.values()],
        "powers": list(found.groups.powers().values()),
    }, max(gathered)


def _watch_gathering():
    """Every class counts as large from here on; how many rows each gathering gives is listed."""
    from spare.engines.processes import SharedPoints
    from spare.groups import one_class
    from spare.processes.world import World

    rows, of_points, of_world = [], SharedPoints.gather, World.gather

    def gather(self, values):
        found = of_points(self, values)
        rows.append(len(found) if values.ndim > 1 and values.shape[1] > 2 else 0)
        return found

    def gather_tensors(self, values, lengths):
        rows.append(sum(lengths))
        return of_world(self, values, lengths)

    SharedPoints.gather, World.gather, one_class.MANY = gather, gather_tensors, 50
    return rows


def three_classes(n=900):
    """Classes that a feature gives away for most examples; a process has no batch of val."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    taken = np.where(rng.random(n) < 0.1, (labels + 1) % 3, labels)
    points = torch.from_numpy(rng.normal(0, 0.1, (n, 3)).astype(np.float32))
    points[np.arange(n), taken] += 2
    train = Split(TensorInputs(points), labels)
    return Task(
        name="three",
        train=train,
        val=train.subset(np.arange(150)),
        test=None,
        class_names=("a", "b", "c"),
        attribute_values={},
        build_model=lambda: Classifier(torch.nn.Identity(), torch.nn.Linear(3, 3)),
    )


CRASHED = "RunError: process 0 failed: KeyError: 'nothing'."


def told(rank, count, what):
    """What is said in each process when they do not fit together."""
    try:
        return _told(rank, what)
    except KeyError:  # the process itself shows where, as any program does
        return CRASHED


def _told(rank, what):
    with joined() as world:
        if what == "settings":
            world.agree("settings", {"seed": 0, "options": {"lr": 0.1 * (1 + rank)}})
        if what == "weights":
            train(build(TASK.build_model, (rank,)), TASK.train, SETTINGS,
                  batches=shuffled(194, 32), key=(0,))  # fmt: skip
        if what == "objective":
            train(build(TASK.build_model, (0,)), TASK.train, SETTINGS, objective=_halves,
                  batches=shuffled(194, 32), key=(0,))  # fmt: skip
        if what == "once":
            return world.once(lambda: {"from": rank})
        if what == "function":
            return world.once(lambda: lambda: "called")()
        if what == "error":
            return world.once(lambda: _refused(rank))
        if what == "crash":
            return world.once(lambda: {}["nothing"])
        if what == "late crash":
            if rank:
                _refused(rank)
            time.sleep(1)  # by then the other has ended
            return {}["nothing"]
    return ""


def _halves(model, x, y, index):
    return model(x[: len(x) // 2]).sum()


def _refused(rank):
    raise SpareError(f"said by {rank}")


def dies(rank, count, where):
    """The last process is killed while all train, gather outputs or wait for one that clusters.

    Or while all train, and what the others tell each other of it does not arrive.
    """
    started = time.monotonic()
    if where == "telling":
        torch.distributed.send = lambda *_: time.sleep(1000)
    last = rank == count - 1

    def kill():
        os.kill(os.getpid(), signal.SIGKILL)

    class Deadly(torch.nn.Module):
        steps = 0

        def forward(self, model, x, y, index):
            self.steps += 1
            if last and self.steps == 5:
                kill()
            return cross_entropy(model, x, y, index)

    try:
        with joined() as world:
            if where in ("training", "telling"):
                fit("normalized", objective=Deadly())
            if where == "gathering":
                model = build(TASK.build_model, (1,))
                if last:
                    model.features.register_forward_hook(lambda *_: kill())
                outputs(model, TASK.train, Settings(eval_batch_size=10))
            if where == "clustering":
                if last:
                    kill()
                world.once(lambda: [np.ones(100).sum() for _ in iter(lambda: _at_work(), None)])
    except SpareError as error:
        return str(error), time.monotonic() - started
    return "", 0.0


def run(rank, count, data, out, settings, method="spare"):
    return spare.train(data, method=method, out=out, **settings).record


def run_unlike(rank, count, data, out, settings, different):
    if different == "settings":
        settings = settings | {"lr": 0.1 * (1 + rank)}
    if different == "data" and rank:
        _change_a_label()
    return run(rank, count, data, out, settings)


def _change_a_label():
    """What this process loads differs from what the others load."""
    from spare.runs import run as runs

    load = runs.Plan.load_task

    def other(self, seed, progress):
        task = load(self, seed, progress)
        labels = np.array(task.train.labels)
        labels[5] = 1 - labels[5]
        return replace(task, train=replace(task.train, labels=labels))

    runs.Plan.load_task = other


def run_until_killed(rank, count, data, out, settings, where):
    """The last process is killed in the second epoch of training, or in clustering."""
    started = time.monotonic()

    def kill():
        os.kill(os.getpid(), signal.SIGKILL)

    if rank == count - 1:
        from spare.engines import processes
        from spare.training import stages

        whole = stages.Stages.train

        def deadly(self, name, *given, **more):
            if name == "train":
                more["objective"] = _Deadly(kill)
            return whole(self, name, *given, **more)

        if where == "clustering":
            processes.cluster_class = lambda *given, **more: kill()
        else:
            stages.Stages.train = deadly
    try:
        run(rank, count, data, out, settings)
    except SpareError as error:
        return str(error), time.monotonic() - started
    return "", 0.0


class _Deadly(torch.nn.Module):
    """Cross-entropy for 20 steps, which is more than an epoch."""

    def __init__(self, kill):
        super().__init__()
        self.kill, self.steps = kill, 0

    def forward(self, model, x, y, index):
        self.steps += 1
        if self.steps > 20:
            self.kill()
        return cross_entropy(model, x, y, index)


def children():
    """The processes that this one has started, in order."""
    task = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    return [int(number) for number in Path(task).read_text().split()]


def known(task, method):
    """The names of all settings and options."""
    from spare.datasets import locate
    from spare.methods import method_named
    from spare.runs.plan import known_settings

    kinds = known_settings(locate(task), method_named(method))
    return {key for keys in kinds.values() for key in keys}


def _at_work():
    """Part of work that would take longer than anyone may wait to hear of a loss."""
    time.sleep(0.1)
    return True
