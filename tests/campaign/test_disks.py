"""The short form of campaign.disks: one training on a disk that fails in several ways."""

from __future__ import annotations

import json
import subprocess
import sys

from campaign.common import ROOT


def test_a_disk_that_fails_costs_nothing_but_a_sentence(tmp_path):
    out = tmp_path / "disks.json"
    words = ["--cases", "6", "--kinds", "full,write,read-only", "--only", "train erm"]
    # In a process of its own, because it forks.
    done = subprocess.run(
        [sys.executable, "-m", "campaign.disks", *words, "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert out.is_file(), done.stderr
    result = json.loads(out.read_text())
    assert (done.returncode, result["failed"]) == (0, [])
    assert result["cases"] == 6
    assert result["details"]["how it ended"].get("one sentence", 0) >= 3
