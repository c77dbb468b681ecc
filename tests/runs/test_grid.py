from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from spare.cli import main
from spare.datasets import locate
from spare.errors import InputError, RunError
from spare.methods import METHODS
from spare.progress import Progress
from spare.report.text import bench_text
from spare.runs.grid import FinishedBench, RunsFailed, plan_grid
from spare.runs.table import mean_and_spread, table
from tests.walks import bench

QUICK = {"epochs": "1"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    said = []
    summary = bench(
        "digits", ["spare", "erm"], [0, 1], out, overrides=QUICK, progress=Progress(say=said.append)
    )
    return out, summary


def test_one_folder_per_run_and_a_table(done):
    out, summary = done
    names = sorted(path.parent.name for path in out.glob("*/run.json"))
    assert names == ["erm-seed0", "erm-seed1", "spare-seed0", "spare-seed1"]
    assert json.loads((out / "table.json").read_text()) == summary
    assert [row["method"] for row in summary["rows"]] == ["spare", "erm"]  # as they were named
    rows = {row["method"]: row for row in summary["rows"]}
    assert rows["spare"]["seeds"] == [0, 1]
    assert rows["spare"]["split"] == "test"
    values = rows["spare"]["selected"]["worst_group"]["values"]
    runs = [json.loads((out / f"spare-seed{s}" / "run.json").read_text()) for s in (0, 1)]
    assert values == [r["scores"]["test"]["selected"]["worst_group"] for r in runs]
    assert all(r["threads"] == 1 for r in runs)
    command = "spare bench digits --methods spare,erm --seeds 0,1 --set epochs=1"
    assert summary["command"] == command


def test_one_seed_has_no_spread(done):
    out, summary = done
    assert bench_text(summary).count(" ± ") > 8  # both methods, and the line above them
    one = table([json.loads((out / "erm-seed0" / "run.json").read_text())])
    assert bench_text(one).count(" ± ") == 1  # only the line above


def test_given_again_it_only_reads(done, monkeypatch):
    out, summary = done
    monkeypatch.setattr("spare.runs.pool._Worker", lambda *_: pytest.fail("a run was started"))
    said = []
    again = bench(
        "digits", ["spare", "erm"], [0, 1], out, overrides=QUICK, progress=Progress(say=said.append)
    )
    assert again == summary
    assert len([line for line in said if line.endswith("is complete")]) == 4


def test_another_setting_in_the_same_folder_is_refused_before_anything_runs(done):
    out, _ = done
    with pytest.raises(RunError, match="epochs is 1 there, 2 was asked for"):
        bench("digits", ["erm"], [0], out, overrides={"epochs": "2"})


def test_an_option_of_one_method_does_not_trouble_the_others(tmp_path):
    grid = plan_grid(locate("digits"), ["erm", "spare"], [0], tmp_path, QUICK | {"k": "2"})
    assert grid.plans["spare"].options.k == 2
    assert [job.overrides for job in grid.jobs] == [{"epochs": 1}, {"epochs": 1, "k": 2}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("digits", ["erm", "spair"], [0]), "did you mean 'spare'"),
        (("digitz", ["erm"], [0]), "did you mean 'digits'"),
        (("digits", ["erm", "erm"], [0]), "'erm' is named twice"),
        (("digits", ["erm"], [0, 0]), "0 is named twice"),
        (("digits", [], [0]), "at least one method"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(tmp_path, arguments, says):
    with pytest.raises(InputError, match=says):
        bench(*arguments, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_setting_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="did you mean 'k_max'"):
        bench("digits", ["erm", "spare"], [0], tmp_path, overrides={"kmax": "3"})


def test_a_run_that_fails_is_named_and_the_others_go_on_and_are_shown(tmp_path, capsys):
    words = ["bench", "digits", "--methods", "erm,spare", "--seeds", "0", "--out", str(tmp_path)]
    words += ["--set", "epochs=1", "--set", "selection=val_inferred_groups"]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 1
    out, err = capsys.readouterr()
    assert "erm-seed0 failed: selection rule" in err
    assert "spare: error: 1 of the runs failed: erm-seed0: selection rule" in err.splitlines()[-1]
    assert (tmp_path / "spare-seed0" / "run.json").exists()
    table = json.loads((tmp_path / "table.json").read_text())
    (row,), (failed,) = table["rows"], table["failures"]
    assert (failed["method"], failed["seed"]) == ("erm", 0)
    assert failed["why"].startswith("selection rule")
    assert out.splitlines()[-1].split()[:4] == ["erm", "0", "selection", "rule"]
    shown = next(line.split() for line in out.splitlines() if line.startswith("spare "))
    assert f"{row['peak_memory_mb']:.0f}" in shown
    page = (tmp_path / "report.html").read_text()
    assert "1 run failed" in page
    assert "selection rule" in page[page.index('id="failed"') :]


def test_of_many_failed_runs_the_error_names_a_few_and_the_table_all(tmp_path):
    failures = [{"method": "erm", "seed": seed, "why": "no luck"} for seed in range(20)]
    bench = FinishedBench(tmp_path, {"rows": [], "failures": failures}, {})
    said = str(RunsFailed(failures, bench))
    assert said.startswith("20 of the runs failed: erm-seed0: no luck; erm-seed1: no luck; ")
    assert f"and 17 more, which {tmp_path / 'table.json'} names" in said
    assert bench_text(bench.table).count("no luck") == 20


def test_where_no_run_is_left_there_is_only_the_reason(tmp_path, capsys):
    with pytest.raises(RunsFailed, match="1 of the runs failed: erm-seed0: selection rule") as it:
        bench(
            "digits",
            ["erm"],
            [0],
            tmp_path,
            overrides=QUICK | {"selection": "val_inferred_groups"},
        )
    assert it.value.bench.table["rows"] == []


def test_mean_and_spread():
    found = mean_and_spread([1.0, 2.0, 3.0])
    assert (found["mean"], found["sd"], found["values"]) == (2.0, pytest.approx(1.0), [1, 2, 3])
    half = 4.302653 / 3**0.5  # Student's t with two degrees of freedom, from a table
    assert found["interval"] == pytest.approx([2 - half, 2 + half], rel=1e-6)
    assert mean_and_spread([1.0])["sd"] == 0.0
    assert mean_and_spread([1.0])["interval"] is None
    assert table([]) == {"rows": []}


def record(method, seed, worst, examples=100, seconds=10.0):
    score = {"worst_group": worst, "average": 0.9}
    return {
        "task": "t", "method": method, "seed": seed, "selection": "last", "sees": "none",
        "settings": {}, "options": {}, "seconds": {"total": seconds}, "examples_seen": examples,
        "peak_memory_mb": 1.0, "scores": {"test": {"selected": score, "last": score}},
    }  # fmt: skip


def test_differences_are_paired_by_seed():
    """JTT varies by 20 points over seeds, and SPARE is 10 above it in each of them."""
    runs = [record("jtt", seed, 0.5 + 0.1 * seed) for seed in (2, 0, 1)]
    runs += [record("spare", seed, 0.6 + 0.1 * seed) for seed in (0, 1, 2, 3)]
    rows = {row["method"]: row for row in table(runs)["rows"]}
    found = rows["jtt"]["spare_minus_this"]
    assert found["seeds"] == [0, 1, 2]
    assert found["selected"]["worst_group"]["values"] == pytest.approx([0.1] * 3)
    assert found["selected"]["worst_group"]["sd"] == pytest.approx(0)
    assert "spare_minus_this" not in rows["spare"]


def test_cost_is_relative_to_plain_training():
    runs = [record("erm", 0, 0.1), record("jtt", 0, 0.5, examples=570, seconds=40.0)]
    rows = {row["method"]: row for row in table(runs)["rows"]}
    assert rows["jtt"]["cost"] == {"examples": 5.7, "seconds": 4.0}
    assert rows["erm"]["cost"] == {"examples": 1.0, "seconds": 1.0}
    assert "cost" not in table(runs[1:])["rows"][0]


def test_scores_by_a_methods_paper_rule_stand_beside_the_others_with_its_name():
    runs = [record("erm", 0, 0.2), record("lff", 0, 0.5), record("lff", 1, 0.7)]
    for run in runs[1:]:
        run["paper_rule"] = "last"
        run["scores"]["test"]["paper_rule"] = run["scores"]["test"]["last"]
    plain, own = table(runs)["rows"]
    assert "paper_rule" not in plain
    assert own["paper_rule_name"] == "last"
    assert own["paper_rule"]["worst_group"] == own["last"]["worst_group"]


def test_all_stands_for_every_method(monkeypatch, tmp_path):
    named = []
    monkeypatch.setattr("spare.runs.grid.run_jobs", lambda todo, *_: named.extend(todo) or [])
    bench("digits", ["all"], [0], tmp_path)
    assert [job.method for job in named] == list(METHODS)


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize(
    ("sign", "methods"),
    [(signal.SIGKILL, "erm,spare"), (signal.SIGINT, "erm"), (signal.SIGTERM, "erm")],
)
def test_workers_stop_with_their_parent(tmp_path, sign, methods):
    """The signal goes to the parent alone: no worker and no half-written file is left behind."""
    words = ["bench", "digits", "--methods", methods, "--seeds", "0", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "spare", *words, "--set", "epochs=300"], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    try:
        while not list(tmp_path.glob("*.partial/*.checkpoint")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = children_of(process.pid)
        assert workers
        process.send_signal(sign)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        line = "spare: stopped; give the same command again to continue from the checkpoints.\n"
        assert errors.decode() == line
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline + 30
        time.sleep(0.05)
    assert not list(tmp_path.rglob("run.json"))
    assert not list(tmp_path.rglob("*.tmp"))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().split(")")[1].split()[0] != "Z"
