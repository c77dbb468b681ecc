"""Benchmarks are run by hand; here, that each still starts and says how it is used."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import spare
from tests.pictures import picture_folder

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = [path for path in sorted(FOLDER.glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_starts(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend(str(FOLDER))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_embeddings_of_pictures_can_be_trained_on(tmp_path, monkeypatch):
    """What benchmarks/features.py writes is a file of embeddings as a user has one."""
    picture_folder(tmp_path / "photos", {"cat": 30, "dog": 30})
    file = tmp_path / "embeddings.npz"
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(FOLDER))
    words = ["--model", "small_cnn", "--size", "12", "--normalize", "half", "--out", str(file)]
    monkeypatch.setattr(sys, "argv", ["features.py", str(tmp_path / "photos"), *words])
    runpy.run_path(str(FOLDER / "features.py"), run_name="__main__")
    with np.load(file) as arrays:
        assert len(arrays["features"]) == 60
        assert Counter(arrays["label"].tolist()) == {"cat": 30, "dog": 30}
        assert set(arrays["split"].tolist()) == {"train", "val", "test"}
    run = spare.train(
        file, method="erm", label="label", epochs=1, report=False, out=tmp_path / "run"
    )
    assert run.record["scores"]["test"]["last"]["average"] > 0
