"""`spare theory`, as a person types it."""

from __future__ import annotations

import csv
import json

import pytest

import spare
from spare.cli import main

SMALL = ["--set", "d=60", "--set", "n=200", "--set", "width=100", "--threads", "1"]


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["theory", *words])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_every_study_has_a_command(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for name in (*spare.theory.STUDIES, "predict", "all"):
        assert name in out


def test_a_study_prints_numbers_and_leaves_tables_a_figure_and_a_page(capsys, tmp_path):
    more = ["--set", "ratios=0.2,1", "--set", "activations=erf", "--set", "minorities=no"]
    code, out, err = call(capsys, "dominance", "--out", str(tmp_path), *SMALL, *more)
    assert (code, err) == (0, "")
    assert "bound held" in out
    rows = list(csv.DictReader((tmp_path / "dominance-ratios.csv").read_text().splitlines()))
    assert [float(row["ratio"]) for row in rows] == [0.2, 1.0]
    assert (tmp_path / "dominance.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert 'id="dominance"' in page
    assert "data:image/png;base64," in page
    assert json.loads((tmp_path / "dominance.json").read_text())["facts"]["bound_held"]["erf"]


def test_studies_share_a_page_and_json_is_for_machines(capsys, tmp_path):
    first = ["--set", "steps=5", "--set", "sweep_seeds=0", "--set", "activations=erf"]
    first += ["--set", "core=2", "--set", "spurious=3"]
    code, out, _ = call(capsys, "growth", "--out", str(tmp_path), *SMALL, *first, "--json")
    assert code == 0
    assert json.loads(out)["facts"]["slopes"]["erf"]
    second = ["--set", "sweeps=no", "--set", "core=2", "--set", "spurious=3"]
    assert call(capsys, "separability", "--out", str(tmp_path), *SMALL, *second)[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert page.index('id="growth"') < page.index('id="separability"')


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["growth", "--set", "widht=10"], "unknown setting of this study 'widht': did you mean"),
        (["growth", "--set", "width=101"], "the width is an even number"),
        (["growth", "--set", "correlation=1.5"], "correlation is from 0 to 1, not 1.5."),
        (["growth", "--set", "core=0"], "core is above 0"),
        (["growth", "--set", "lr=1e6", *SMALL], "a step size (lr) of 1e+06 is beyond stability"),
        (["growth", "--set", "d=1000000", "--set", "n=1000000"], "d=1,000,000, n=1,000,000 and"),
        (["dominance", "--set", "activations=relo"], "unknown activation 'relo'"),
        (["separability", "--seed", "-1", *SMALL], "a seed is from 0"),
        (["predict", "nowhere/at/all"], "there is no file or folder nowhere/at/all"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(capsys, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    small = ["--set", "core=2", "--set", "spurious=3"] if SMALL[1] in words else []
    if "separability" in words:
        small += ["--set", "sweeps=no"]
    code, out, err = call(capsys, *words, *small)
    assert (code, out) == (1, "")
    assert err.startswith(f"spare: error: {line}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_foreign_file_in_the_folder_is_one_sentence(capsys, tmp_path):
    (tmp_path / "growth.json").write_text('{"sections": 3}')
    more = ["--set", "ratios=1", "--set", "activations=erf", "--set", "minorities=no"]
    code, _, err = call(capsys, "dominance", "--out", str(tmp_path), *SMALL, *more)
    assert code == 1
    assert "is not what 'spare theory' writes" in err
