"""A bench's workers: what happens when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque

import pytest

from spare.datasets import locate
from spare.errors import InputError
from spare.progress import Progress
from spare.runs.pool import run_jobs
from spare.runs.worker import Job
from tests.walks import bench


def workers_of(pid):
    """The worker processes that a process has started."""
    words = ["pgrep", "-P", str(pid), "-f", "spare.runs.worker"]
    return [int(word) for word in subprocess.run(words, capture_output=True).stdout.split()]


def job(folder, method="erm", seed=0, **overrides):
    return Job(locate("digits"), method, seed, folder / f"{method}-seed{seed}", overrides)


def test_a_worker_that_is_killed_loses_its_run_and_another_does_the_rest(tmp_path, monkeypatch):
    killed, started = [], []
    real = subprocess.Popen

    def popen(words, **more):
        started.append(words)
        return real(words, **more)

    monkeypatch.setattr("spare.runs.pool.subprocess.Popen", popen)

    def report(what, done, total):
        if what == "erm-seed0/train" and not killed:
            (worker,) = workers_of(os.getpid())
            killed.append(worker)
            os.kill(worker, signal.SIGKILL)

    lines = []
    jobs = deque([job(tmp_path, epochs=200), *(job(tmp_path, seed=i, epochs=1) for i in (1, 2))])
    failures = run_jobs(jobs, 1, Progress(report=report, say=lines.append))
    why = "its process was ended by SIGKILL"
    assert failures == [{"method": "erm", "seed": 0, "why": why}]
    assert lines[0] == f"erm-seed0 failed: {why}"
    assert lines[1:] == ["erm-seed1 is done", "erm-seed2 is done"]
    assert (tmp_path / "erm-seed1" / "run.json").is_file()
    assert (tmp_path / "erm-seed0.partial").is_dir()  # the same command continues it
    assert len([words for words in started if words[0] == sys.executable]) == 2
    assert workers_of(os.getpid()) == []


def test_a_job_is_the_same_after_it_was_sent(tmp_path):
    sent = job(tmp_path, method="spare", seed=3, k=2, power=[1.0])
    received = Job.from_json(sent.to_json())
    assert received.source == sent.source
    assert (received.method, received.seed, received.overrides) == ("spare", 3, sent.overrides)
    assert received.folder == sent.folder


def test_fewer_than_no_jobs_are_refused(tmp_path):
    with pytest.raises(InputError, match="jobs is from 0 to 1,024, not -1"):
        bench("digits", ["erm"], [0], tmp_path, jobs=-1)
