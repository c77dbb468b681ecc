"""docs/reliability.md is what the counts in results/reliability give."""

from __future__ import annotations

import importlib
import json

import pytest

from campaign import report
from campaign.common import Tally


def test_the_page_is_what_the_counts_give():
    assert report.main(["--check"]) == 0, "make it again: python -m campaign.report"


def test_a_part_that_was_not_run_says_so_and_one_that_failed_names_the_case(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    tally = Tally("kills", {"by signal": {"SIGINT": 2}})
    tally.add("SIGINT to it after 1 s", seconds=3.0, memory_mb=500)
    tally.add("SIGINT to all | after 2 s", "it hung", again="python -m campaign.kills", seconds=1)
    tally.finish(tmp_path / "kills.json")
    result = json.loads((tmp_path / "kills.json").read_text())
    assert (result["cases"], result["failures"]) == (2, 1)
    page = report.page()
    line = next(line for line in page.splitlines() if line.startswith("| [Kills"))
    assert line.split(" | ")[1:5] == ["2", "1", "3.0 s", "500 MB"]
    assert "- **failed**: SIGINT to all \\| after 2 s: it hung" in page
    assert "| SIGINT | 2 |" in page
    assert "Not run yet: `make check-all ONLY=disks`." in page


@pytest.mark.parametrize("name", ["kills", "fuzz", "disks", "grid", "versions"])
def test_every_part_has_a_script(name):
    assert name in report.PARTS
    assert callable(importlib.import_module(f"campaign.{name}").main)
