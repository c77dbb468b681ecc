"""The short form of the campaign of hostile inputs: a few cases of every kind of data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_hostile_inputs_end_in_one_sentence(tmp_path):
    # In a process of its own, because every case is forked from one that has started no threads.
    out = tmp_path / "counts.json"
    command = [sys.executable, "-m", "campaign.inputs", "--cases", "13", "--seed", "5"]
    subprocess.run([*command, "--out", str(out)], cwd=ROOT, capture_output=True, timeout=300)
    counts = json.loads(out.read_text())
    assert counts["cases"] == 13
    assert counts["failed"] == []
    # Where everything is refused at the door, nothing behind it is tested.
    assert sum(n for name, n in counts["details"].items() if name.endswith(" accepted")) >= 2
