"""What a person types, and every line that comes back."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import spare
from spare.cli import main


def spare_cli(*words, cwd=None, env=None):
    return subprocess.run(
        [sys.executable, "-m", "spare", *words], capture_output=True, text=True, cwd=cwd, env=env
    )


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_help_names_every_verb_and_version_is_the_packages(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for verb in ("demo", "data", "discover", "train", "bench", "report", "figure", "list"):
        assert verb in out
    assert call(capsys, "--version")[1].strip() == spare.__version__


@pytest.mark.parametrize(
    "words",
    [["bench", "digits"], ["demo"], ["discover", "outputs.parquet", "--engine", "streaming"]],
)
def test_what_is_for_one_process_is_refused_in_all_that_torchrun_starts(
    words, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for rank in "01":
        about = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        for name, value in about.items():
            monkeypatch.setenv(name, value)
        code, _, err = call(capsys, *words)
        assert code == 1
        assert f"spare {words[0]}" in err
        assert "is for one process" in err
    assert not list(tmp_path.iterdir())


NO_TASK = "unknown task (nor is there a file or folder of that name) {!r}: did you mean {!r}?"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train", "digit"], NO_TASK.format("digit", "digits")),
        (["train", "digits", "--method", "spar"], "unknown method 'spar': did you mean 'spare'?"),
        (
            ["train", "digits", "--set", "lrr=1"],
            "unknown setting for spare on digits (--set) 'lrr': did you mean 'lr'?",
        ),
        (["train", "digits", "--set", "lr"], "--set takes key=value, not 'lr'."),
        (["train", "digits", "--set", "lr=fast"], "lr is a number, not 'fast'."),
        (["train", "digits", "--set", "epochs=2.5"], "epochs is a whole number, not '2.5'."),
        (
            ["train", "digits", "--set", "nesterov=perhaps"],
            "nesterov is true or false, not 'perhaps'.",
        ),
        (["bench", "digits", "--seeds", "0,x"], "seeds is a whole number, not 'x'."),
        (
            ["bench", "digits", "--seeds", "0", "1", "2"],
            "'1', '2': nothing takes these. Several values take commas and no spaces, as in "
            "--seeds 0,1,2; names with spaces take quotes.",
        ),
        (
            ["train", "digits", "--set", "epochs=2", "lr=0.1"],
            "'lr=0.1' stands alone: every setting takes its own --set, as in --set lr=0.1.",
        ),
        (
            ["report", "runs", "lr=0.1"],  # takes no settings
            "'lr=0.1': nothing takes this. Several values take commas and no spaces, as in "
            "--seeds 0,1,2; names with spaces take quotes.",
        ),
        (
            ["trian", "digits"],
            'Unknown command "trian". Did you mean "train"? Available commands: data, demo, '
            "discover, train, bench, report, compare, figure, ...",
        ),
        (
            ["train", "digits", "--seed", "-1"],
            "a seed is from 0 to 4,294,967,295, not -1.",
        ),
        (["train"], 'Command "train" parameter --task requires an argument.'),
        (["train", "digits", "--sed", "1"], "Unknown option: --sed. Did you mean --seed?"),
        (["data", "get", "mnits"], "unknown data set to get 'mnits': did you mean 'mnist'?"),
        (["list", "settings", "--task", "cmnst"], NO_TASK.format("cmnst", "cmnist")),
    ],
)
def test_mistakes_get_one_line_and_exit_code_1(capsys, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert code == 1
    assert out == ""
    assert err == f"spare: error: {line}\n"
    assert not list(tmp_path.iterdir())


def test_training_without_the_data_says_how_to_get_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, "train", "cmnist", "--data", str(tmp_path / "none"))
    assert code == 1
    assert "MNIST is missing" in err
    assert "spare data get mnist" in err
    assert err.count("\n") == 1


def test_train_prints_scores_what_was_found_and_the_folder(capsys, tmp_path):
    words = ["train", "digits", "--out", str(tmp_path / "x"), "--set", "epochs=1"]
    code, out, err = call(capsys, *words)
    assert code == 0
    assert "spare on digits, seed 0" in out
    assert "training used: none; selection used: val groups (val_worst_group)" in out
    assert "What was found in each class after epoch" in out
    assert f"Run folder: {tmp_path / 'x'}\n" in out
    assert out.endswith(f"Report, to be opened in a browser: {tmp_path / 'x' / 'report.html'}\n")
    assert (tmp_path / "x" / "report.html").is_file()
    code, out, err = call(capsys, *words)  # again: at once, and said
    assert code == 0
    assert err == f"{tmp_path / 'x'} is complete: nothing to do\n"


def test_json_is_json_and_nothing_else(tmp_path):
    words = ["train", "digits", "--method", "erm", "--out", str(tmp_path / "x"), "--json"]
    done = spare_cli(*words, "--set", "epochs=1")
    record = json.loads(done.stdout)
    assert record["method"] == "erm"
    assert record["folder"] == str(tmp_path / "x")
    assert done.stderr == ""  # no progress bars where there is no terminal


@pytest.mark.parametrize("what", ["methods", "tasks", "rules", "settings"])
def test_lists(capsys, what):
    code, out, _ = call(capsys, "list", what, "--json")
    assert code == 0
    rows = json.loads(out)
    assert len(rows) >= 2
    code, text, _ = call(capsys, "list", what)
    assert all(str(next(iter(row.values()))) in text for row in rows)


def test_data_list_says_what_is_there(capsys, tmp_path):
    code, out, _ = call(capsys, "data", "list", "--data", str(tmp_path))
    assert code == 0
    assert "spare data get mnist" in out
    assert str(tmp_path) in out


def test_data_get_verifies_what_is_there(capsys, real_data):
    code, out, err = call(capsys, "data", "get", "mnist", "--data", str(real_data))
    assert code == 0
    assert out.endswith("was checked\n")
    assert err == ""


def test_the_demo(tmp_path):
    """As a newcomer runs it: plain training fails, SPARE does not, and both are shown."""
    done = spare_cli("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    plain = next(line for line in lines if line.startswith("plain training"))
    robust = next(line for line in lines if line.startswith("SPARE"))
    assert "test examples" in done.stdout
    assert float(plain.split()[3]) < 30
    assert float(robust.split()[1]) > 60
    assert "training used: none; selection used: nothing (last)" in done.stdout
    assert "What was found in each class" in done.stdout
    for name in ("erm-seed0", "spare-seed0"):
        assert (tmp_path / "runs" / "demo" / name / "run.json").exists()
        assert f"runs/demo/{name}" in done.stdout
    assert "see them: runs/demo/spare-seed0/report.html" in done.stdout
    assert "data:image" in (tmp_path / "runs/demo/spare-seed0/report.html").read_text()


def test_a_reader_that_goes_away_is_no_traceback():
    words = f"{sys.executable} -m spare list settings | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_a_report_is_made_of_a_run_and_of_nothing_else(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(
        capsys, "train", "digits", "--set", "epochs=2", "--set", "separate_at=1", "--out", "run"
    )
    assert code == 0
    code, out, err = call(capsys, "report", "run")
    assert (code, out, err) == (0, "Report: run/report.html\n", "")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "data:image/webp" in page
    assert "worst group" in page
    code, out, err = call(capsys, "compare", "run", "run", "--out", "both")
    assert (code, out, err) == (0, "Comparison: both/comparison.html\n", "")
    code, _, err = call(capsys, "report", ".")
    assert code == 1
    assert "holds neither a run nor a discovery" in err
