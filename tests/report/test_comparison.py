"""Several runs on one page."""

from __future__ import annotations

import pytest

from spare.errors import InputError
from spare.files.writing import write_json
from spare.report.comparison import read_runs, run_names, write_comparison
from tests.recorded import run_record
from tests.report.test_page import HOSTILE, Checked, folder_of


def run_folder(path, method, worst, *, seed=0, task="mine", groups=("cat/land", "cat/water")):
    record = run_record(
        worst,
        {groups[0]: {"accuracy": worst, "n": 50}, groups[1]: {"accuracy": 0.975, "n": 40}},
        task=task,
        method=method,
        seed=seed,
        examples_seen=100 * (seed + 1),
        seconds={"total": 10.0} if method == "erm" else {"total": 45.0, "findings": 33.0},
        command=f"spare train {method}",
    )
    path.mkdir()
    write_json(path / "run.json", record)
    return path


def test_groups_intervals_and_cost_side_by_side(tmp_path):
    folders = [
        run_folder(tmp_path / "a", "erm", 0.1),
        run_folder(tmp_path / "b", "spare", 0.8, groups=("cat/land", "dog/land")),
    ]
    page = write_comparison(read_runs(folders), tmp_path).read_text()
    seen = Checked(page)
    text = " ".join("".join(seen.text).split())
    assert "10.0 (4.3 to 21.4)" in text  # 5 of 50
    assert "1.2012" in text  # time relative to plain training, and seconds, without findings
    assert text.count("97.5") == 2  # each run has a group that the other lacks
    assert "spare train erm" in text
    assert not [v for n, v in seen.attributes if n in ("src", "href") and not v.startswith("#")]


def test_hostile_names_are_shown_as_text(tmp_path):
    folders = [
        run_folder(tmp_path / str(i), method, 0.5, groups=HOSTILE[i : i + 2])
        for i, method in enumerate(HOSTILE[:3])
    ]
    seen = Checked(write_comparison(read_runs(folders), tmp_path).read_text())
    assert "img" not in seen.elements
    assert seen.elements.count("script") == 2


def test_runs_are_named_by_what_they_differ_in():
    def named(*runs):
        return run_names([{"method": method, "seed": seed} for method, seed in runs])

    assert named(("erm", 0), ("spare", 0)) == ["erm", "spare"]
    assert named(("erm", 0), ("erm", 1)) == ["erm, seed 0", "erm, seed 1"]
    assert named(("erm", 0), ("erm", 0)) == ["erm (1)", "erm (2)"]


def test_runs_that_cannot_be_compared_are_refused_in_one_sentence(tmp_path):
    one = run_folder(tmp_path / "one", "erm", 0.1)
    with pytest.raises(InputError, match="at least two"):
        read_runs([one])
    other = run_folder(tmp_path / "other", "erm", 0.1, task="yours")
    with pytest.raises(InputError, match="these are of 'mine' and 'yours'"):
        read_runs([one, other])
    folder_of(tmp_path / "found")
    with pytest.raises(InputError, match="is a discovery, which has no scores"):
        read_runs([one, tmp_path / "found"])
