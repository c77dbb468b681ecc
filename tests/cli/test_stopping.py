"""Ctrl-C and SIGTERM, at any moment: one line, exit code 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from spare.cli import main
from spare.runs.signals import stop_on_signal

#: A process that gets a signal while it imports a module.
DURING_IMPORT = """
import os, sys

class Hook:
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Hook())
sys.argv = ["spare", *{words!r}]
from spare.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "number"),
    [("cyclopts", signal.SIGINT), ("torch._C", signal.SIGTERM), ("sklearn.utils", signal.SIGINT)],
)
def test_ctrl_c_during_imports_is_one_line(module, number, tmp_path):
    code = DURING_IMPORT.format(module=module, number=int(number), words=["train", "digits"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "spare: stopped.\n", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("during", "words"),
    [
        ("spare.runs.plan.Plan.load_task", ["train", "digits"]),
        ("spare.methods.separation.clustered", ["train", "digits"]),
        ("spare.api.walks.write_report", ["discover", "digits"]),
        ("spare.runs.plan.Plan.load_task", ["figure", "samples", "digits"]),
        ("spare.synthetic.folder.write_json", ["data", "draw", "celeba", "--out", "x"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_stopped_at_any_moment_it_is_one_line(during, words, number, capfd, tmp_path, monkeypatch):
    def stopped(*_, **__):
        os.kill(os.getpid(), number)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.01)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spare.runs.signals.GRACE", 0.2)
    monkeypatch.setattr(during, stopped)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 130
    assert capfd.readouterr().err == "spare: stopped.\n"
    assert not list(tmp_path.rglob("*.tmp"))


def test_an_interrupt_that_is_swallowed_comes_again(monkeypatch):
    monkeypatch.setattr("spare.runs.signals.GRACE", 0.05)
    came = 0
    with stop_on_signal():
        for number in (signal.SIGTERM, 0):
            try:
                os.kill(os.getpid(), number)
                time.sleep(10)
            except KeyboardInterrupt:
                came += 1
    assert came == 2
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_work_that_asks_is_not_broken_off(monkeypatch):
    monkeypatch.setattr("spare.runs.signals.GRACE", 0.1)
    with stop_on_signal() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        time.sleep(0.3)  # a checkpoint may take longer to write than nobody asks
        assert should_stop()
