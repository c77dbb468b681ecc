"""Whole runs of several processes: one writes, all agree, a lost process is told, resuming."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spare
from spare.errors import InputError, RunError
from spare.methods import METHODS
from spare.progress import Progress
from tests.conftest import toy_task
from tests.engines import workers
from tests.processes import jobs
from tests.walks import run as run_alone

#: Nothing is augmented, so runs differ by rounding alone.
FEW = {"epochs": "4", "selection": "val_average", "model": "mlp", "cross_fit": "0",
       "treat_as": "embeddings", "batch_size": "32"}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table whose label one column gives away for most examples."""
    task = toy_task(n=600)
    features = task.train.inputs.take(np.arange(600)).numpy()
    file = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(file, features=features, label=task.train.labels, **task.train.attributes)
    return str(file)


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    return run_alone(data, "spare", 0, tmp_path_factory.mktemp("alone") / "x", overrides=FEW)


def close_to(record, alone):
    """The same groups, and scores that differ by an example here and there at most."""
    for label, of_class in alone["discovery"].items():
        assert record["discovery"][label]["sizes"] == of_class["sizes"]
    for split, by_epoch in alone["scores"].items():
        mine = record["scores"][split]["last"]
        assert mine["average"] == pytest.approx(by_epoch["last"]["average"], abs=0.01)
    losses = [[epoch["loss"] for epoch in each["history"]] for each in (record, alone)]
    np.testing.assert_allclose(*losses, rtol=1e-3)
    assert record["examples_seen"] == alone["examples_seen"]
    assert record["settings"] == alone["settings"]


def test_two_processes_give_the_run_of_one(data, alone, tmp_path):
    done = spare.train(data, processes=2, out=tmp_path / "x", report=False, **FEW)
    close_to(done.record, alone)
    assert done.record["notes"]["processes"] == 2
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == sorted(
        ["run.json", "groups.parquet", "held_out_groups.parquet", "settings.json",
         "weights.safetensors"]
    )  # fmt: skip
    again = spare.train(data, processes=2, out=tmp_path / "x", report=False, **FEW)
    assert again.record == done.record


def test_objects_stay_in_one_process(tmp_path):
    points = (np.eye(10).repeat(2, 0), np.arange(20) % 2)
    with pytest.raises(InputError, match="is in this process alone: give their names or paths"):
        spare.train(points, processes=2, out=tmp_path / "x")
    with pytest.raises(InputError, match="processes"):
        spare.train("digits", processes=0, out=tmp_path / "x")


def test_in_a_job_all_processes_train_together(data, alone, tmp_path):
    """As torchrun starts them: every process calls the same function."""
    out = str(tmp_path / "x")
    results = workers.run(jobs.run, 3, tmp_path, data, out, FEW)
    close_to(results[0], alone)
    assert all(json.dumps(each) == json.dumps(results[0]) for each in results)
    assert (Path(out) / "report.html").is_file()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("different", ["settings", "data"])
def test_processes_with_different_settings_or_data_are_refused(data, different, tmp_path):
    results = workers.run(jobs.run_unlike, 2, tmp_path, data, str(tmp_path / "x"), FEW, different)
    says = {"settings": r"settings \(lr: 0.1 and 0.2\)", "data": r"data \(train: '4"}[different]
    for said in results:
        assert re.match(f"InputError: processes 0 and 1 were started with different {says}", said)
    assert not (tmp_path / "x").exists()


def test_a_folder_of_another_run_is_refused_in_all_processes(data, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine.txt").write_text("kept")
    for said in workers.run(jobs.run, 2, tmp_path, data, str(tmp_path / "x"), FEW):
        assert said.startswith("RunError: ")
        assert "is not a folder of this kind" in said


@pytest.mark.parametrize("where", ["training", "clustering"])
def test_after_a_kill_the_run_goes_on_with_another_number(data, alone, where, tmp_path):
    out = str(tmp_path / "x")
    results = workers.of_survivors(jobs.run_until_killed, 3, tmp_path, data, out, FEW, where)
    for said, seconds in results.values():
        assert said.startswith("another process of the job has ended")
        assert seconds < 60
    assert list((tmp_path / "x.partial").glob("*.checkpoint"))
    done = spare.train(data, out=out, report=False, **FEW)
    close_to(done.record, alone)


def test_one_that_was_started_here_and_is_killed_is_named(data, alone, tmp_path):
    """`spare train --processes 2`: the other process is killed from outside while it trains."""
    out = tmp_path / "x"
    said, killed = [], []

    def kill(what, done, total):
        if what == "train" and not killed:
            killed.append(jobs.children())
            os.kill(killed[0][-1], signal.SIGKILL)

    progress = Progress(report=kill, say=said.append)
    with pytest.raises(
        RunError, match=r"process 1 of the job has ended \(ended by SIGKILL\): the "
    ):
        spare.train(data, processes=2, out=out, report=False, progress=progress, **FEW)
    assert said[-1] == "process 1: ended by SIGKILL"
    close_to(spare.train(data, out=out, report=False, **FEW).record, alone)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_across_processes(method, tmp_path):
    few = {"epochs": "2", "selection": "val_average", "early_budget": "0.5",
           "attribute_steps": "100"}  # fmt: skip
    known = {key: value for key, value in few.items() if key in jobs.known("digits", method)}
    out = str(tmp_path / "x")
    results = workers.run(jobs.run, 2, tmp_path, "digits", out, known, method)
    assert isinstance(results[0], dict), results[0]
    one = run_alone("digits", method, 0, tmp_path / "alone", overrides=known)
    assert results[0]["examples_seen"] == one["examples_seen"]
    mine, its = (r["scores"]["test"]["last"]["average"] for r in (results[0], one))
    assert mine == pytest.approx(its, abs=0.1)


@pytest.mark.long
def test_torchrun_starts_a_run_and_prints_once(data, alone, tmp_path):
    settings = [word for key, value in FEW.items() for word in ("--set", f"{key}={value}")]
    train = ["-m", "spare", "train", data, "--out", str(tmp_path / "x"), *settings, "--json"]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517"]
    with subprocess.Popen([sys.executable, *torchrun, *train], stdout=subprocess.PIPE) as job:
        printed = job.communicate(timeout=300)[0]
    assert job.returncode == 0
    close_to(json.loads(printed), alone)  # printed once
