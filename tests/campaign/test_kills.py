"""The short form of campaign.kills: one training, killed twice."""

from __future__ import annotations

import json

from campaign import kills


def test_killed_at_random_moments_it_ends_with_the_same_numbers(tmp_path):
    out = tmp_path / "kills.json"
    words = ["--cases", "2", "--seed", "0", "--only", "train spare", "--out", str(out)]
    code = kills.main(words)
    result = json.loads(out.read_text())
    assert (code, result["failed"]) == (0, [])
    assert result["cases"] == 2
