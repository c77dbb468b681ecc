"""`spare theory`, as a person types it."""

from __future__ import annotations

import csv
import json

import numpy as np
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
        (["growth", "--set", "correlation=-0.1"], "correlation is from 0 to 1, not -0.1."),
        (["separability", "--set", "correlation=2"], "correlation is from 0 to 1, not 2.0."),
        (["growth", "--set", "core=0"], "core is above 0"),
        (["growth", "--set", "seed=1"], "unknown setting of this study 'seed': did you mean"),
        (["dominance", "--set", "width=7"], "the width is an even number"),
        (["linear", "--set", "width=7"], "the width is an even number"),
        (["dominance", "--set", "lr=1e6", *SMALL], "a step size (lr) of 1e+06 is beyond stability"),
        (["separability", "--set", "n=9000000", "--set", "d=100000"], "d=100,000, n=9,000,000 and"),
        (["growth", "--set", "lr=1e6", *SMALL], "a step size (lr) of 1e+06 is beyond stability"),
        (["growth", "--set", "d=1000000", "--set", "n=1000000"], "d=1,000,000, n=1,000,000 and"),
        (["dominance", "--set", "activations=relo"], "unknown activation 'relo'"),
        (["growth", "--set", "activations=", *SMALL], "activations is empty: name at least one."),
        (["linear", "--set", "activations="], "activations is empty: name at least one."),
        (
            ["dominance", "--set", "ratios=1,2,1"],
            "ratios names 1.0 more than once: name each once.",
        ),
        (
            ["dominance", "--set", "lr=1e-9", *SMALL],
            "training for 2 d log d / lr takes 491,321,347,",
        ),
        (
            ["separability", "--set", "correlation=0.3"],
            "with a correlation of 0.3 and alone=0.5 no",
        ),
        (
            ["reliance", "--set", "task=digits", "--set", "masks=x"],
            "digits is not made of image file",
        ),
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


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda rows: [rows[0], rows[0] + rows[1], *rows[2:]], "features 1 and 2 are not orthogon"),
        (lambda rows: [0 * rows[0], *rows[1:]], "a feature is zero or not finite"),
        (lambda rows: rows[:3], "features are four vectors of d=60 numbers"),
        (lambda rows: [], "features.csv holds no features: it should have"),
        (lambda rows: [*rows[:3], rows[3][:5]], "features.csv holds no features: it should have"),
    ],
)
def test_features_of_a_file_are_checked(capsys, tmp_path, monkeypatch, change, line):
    monkeypatch.chdir(tmp_path)
    rows = list(3 * np.eye(60)[:4])

    def write(rows):
        text = "\n".join(",".join(map(str, row)) for row in rows)
        (tmp_path / "features.csv").write_text(text)

    more = [*SMALL, "--set", "features_file=features.csv", "--set", "steps=5"]
    more += ["--set", "sweep_seeds=0", "--set", "activations=erf"]
    write(change(rows))
    code, out, err = call(capsys, "growth", *more)
    assert (code, out) == (1, "")
    assert err.startswith(f"spare: error: {line}")
    assert err.count("\n") == 1
    write(rows)
    assert call(capsys, "growth", "--out", "out", *more)[0] == 0
    err = call(capsys, "growth", *more, "--set", "core=2")[2]
    assert err == "spare: error: core is the size of the features that were given: leave it out.\n"


def test_a_foreign_file_in_the_folder_is_one_sentence(capsys, tmp_path):
    (tmp_path / "growth.json").write_text('{"sections": 3}')
    more = ["--set", "ratios=1", "--set", "activations=erf", "--set", "minorities=no"]
    code, _, err = call(capsys, "dominance", "--out", str(tmp_path), *SMALL, *more)
    assert code == 1
    assert "is not what 'spare theory' writes" in err
