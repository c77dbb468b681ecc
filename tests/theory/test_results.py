"""The committed numbers behind docs/theory.md reach the figures that the page claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "theory"
PAGE = (ROOT / "docs" / "theory.md").read_text()


def study(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_growth():
    facts, settings = study("growth")["facts"], study("growth")["settings"]
    assert (settings["d"], settings["n"], settings["width"]) == (1000, 8000, 8000)
    assert set(facts["slopes"]) == {"relu", "erf", "tanh"}
    assert facts["largest_error"] < 0.05
    assert facts["exponents"]["d"] < 0
    assert f"within {100 * facts['largest_error']:.1f} %" in PAGE


def test_separability():
    facts, settings = study("separability")["facts"], study("separability")["settings"]
    assert settings["correlation"] == 0.995
    assert facts["share_obeying"] >= 0.99
    assert f"{100 * facts['share_obeying']:.2f} %" in PAGE


def test_dominance():
    facts = study("dominance")["facts"]
    assert facts["points_held"] == facts["points_in_regime"] > 0
    assert f"{facts['points_held']} of {facts['points_in_regime']}" in PAGE


def test_linear():
    facts = study("linear")["facts"]
    assert facts["constants_largest_difference"] < 1e-8
    for activation in ("erf", "tanh"):
        assert facts["largest_gap"][activation] < 0.01
    for activation, gaps in facts["gaps"].items():
        cells = " | ".join(f"{100 * gaps[part]:.2f}" for part in ("full", "color", "digit"))
        assert f"| {activation} | {cells} |" in PAGE


def test_reliance():
    facts, settings = study("reliance")["facts"], study("reliance")["settings"]
    assert settings["train_size"] == 0
    assert facts["ratio_after_2"] < 0.1
    assert facts["ratio_after_1"] < 0.1


@pytest.mark.parametrize("part", ["seen", "tested"])
def test_predictions(part):
    summary = json.loads((RESULTS / "predicting.json").read_text())["summary"]
    assert f"factor of {summary[part]['median factor']:.2f}" in PAGE
