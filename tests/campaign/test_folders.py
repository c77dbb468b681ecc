"""The short form of the campaign of damaged folders, and that it would notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.folders import DAMAGES, Ended, Opened, wrong_with

ROOT = Path(__file__).parents[2]


def test_damaged_and_malicious_folders_do_no_harm(tmp_path):
    """In a process of its own, because it forks: a forked child cannot use its parent's threads."""
    words = ["--cases", "16", "--verbs", "1", "--processes", "0", "--seed", "15"]
    out = tmp_path / "counts.json"
    done = subprocess.run(
        [sys.executable, "-m", "campaign.folders", *words, "--out", str(out)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    counts = json.loads(out.read_text())
    assert (counts["cases"], counts["failures"]) == (16, 0)
    assert set(counts["details"]["damages"]) <= {*DAMAGES}


@pytest.mark.parametrize(
    ("code", "output", "problem"),
    [
        (0, "Report: x\n", ""),
        (1, "warning: no\nspare: error: it is damaged.\n", ""),
        (0, "spare: error: it is damaged.\n", "1 lines of error, exit code 0"),
        (1, "spare: error: a\nspare: error: b\n", "2 lines of error, exit code 1"),
        (1, "Traceback (most recent call last):\n", "a traceback"),
        (99, "", "exit code 99"),
        (-11, "", "exit code -11"),
        (-1000, "", "not done after"),
        (0, "\x1b[2J", "terminal escapes"),
    ],
)
def test_what_a_person_should_not_see_is_noticed(code, output, problem):
    assert wrong_with(Ended(code, output, 1.0, 1.0)).startswith(problem)
    assert bool(wrong_with(Ended(code, output, 1.0, 1.0))) == bool(problem)


def test_a_file_that_is_opened_or_written_is_noticed(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine").write_text("mine")
    opened = Opened(tmp_path)
    list((tmp_path / "sub").iterdir())
    assert opened.drain() == []
    (tmp_path / "sub" / "mine").read_text()
    assert opened.drain() == [str(tmp_path / "sub" / "mine")]
    (tmp_path / "new").write_text("")
    assert opened.drain() == [str(tmp_path / "new")]
