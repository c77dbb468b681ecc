"""Selection by what XRM's twins get wrong: with any method, and without group labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spare.datasets import locate
from spare.errors import InputError, Interrupted
from spare.methods import METHODS
from spare.progress import Progress
from spare.runs import run as walk
from spare.runs.plan import make_plan
from spare.runs.scoring import check_rule
from tests.walks import discover, run

QUICK = {"epochs": "3", "selection": "val_cross_mistakes"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run("digits", "erm", 0, tmp_path_factory.mktemp("x") / "erm", overrides=QUICK)


def test_the_twins_are_trained_first_and_counted(plain):
    n = plain["splits"]["train"]
    assert plain["selection"] == "val_cross_mistakes"
    assert plain["examples_seen"] == (3 + 2 * 2) * n
    note = plain["notes"]["selected_by_twins"]
    assert sum(note["val_groups"]) == plain["splits"]["val"]
    assert len(note["val_groups"]) == 4
    assert (note["twin_epochs"], note["twin_lr"], note["twin_weight_decay"]) == (0, 0.0, -1.0)
    assert plain["seconds"]["early"] > 0


def test_the_trained_network_is_the_one_of_any_other_rule(plain, tmp_path):
    other = run("digits", "erm", 0, tmp_path / "x", overrides=QUICK | {"selection": "val_average"})
    assert other["scores"]["test"]["last"] == plain["scores"]["test"]["last"]
    assert "selected_by_twins" not in other["notes"]
    assert [epoch["loss"] for epoch in other["history"]] == [e["loss"] for e in plain["history"]]


@pytest.mark.parametrize("method", ["gb", "ssa"])
def test_the_twins_get_no_group_label_whatever_the_method_sees(tmp_path, monkeypatch, method):
    given = []

    class EnoughError(Exception):
        pass

    def spy(task, stages, options):
        given.append(task)
        raise EnoughError

    monkeypatch.setattr(walk, "val_groups", spy)
    with pytest.raises(EnoughError):
        run("digits", method, 0, tmp_path / "x", overrides=QUICK)
    assert [split.attributes for split in given[0].splits().values()] == [None, None, None]


def test_a_method_that_has_twins_selects_by_them_at_no_cost(tmp_path):
    options = {"twin_epochs": "4"}
    record = run("digits", "xrm+spare", 0, tmp_path / "a", overrides=QUICK | options)
    rule = {"selection": "val_inferred_groups"}
    inferred = run("digits", "xrm+spare", 0, tmp_path / "b", overrides=QUICK | options | rule)
    assert record["examples_seen"] == inferred["examples_seen"]
    assert record["notes"]["selected_by_twins"]["twin_epochs"] == 4
    scores = [[epoch["score"] for epoch in r["history"]] for r in (record, inferred)]
    assert scores[0] == scores[1]
    assert record["selected_epoch"] == inferred["selected_epoch"]


@pytest.mark.parametrize("stop_at", [20, 70])
def test_a_killed_run_continues_with_the_same_numbers(plain, tmp_path, stop_at):
    steps = iter(range(1, 10_000))
    stop = Progress(should_stop=lambda: next(steps) == stop_at)
    with pytest.raises(Interrupted):
        run("digits", "erm", 0, tmp_path / "x", overrides=QUICK, progress=stop)
    record = run("digits", "erm", 0, tmp_path / "x", overrides=QUICK)
    for key in ("scores", "history", "selected_epoch", "examples_seen", "notes"):
        assert record[key] == plain[key]


def test_the_twins_have_the_options_that_xrm_has_for_the_data(monkeypatch, tmp_path):
    """Without MNIST: the preset of Colored MNIST is all that is looked at."""
    given = []

    def spy(task, stages, options):
        given.append(options)
        raise InputError("enough.")

    monkeypatch.setattr(walk, "val_groups", spy)
    plan = make_plan(locate("cmnist"), METHODS["erm"], {"selection": "val_cross_mistakes"})
    digits = make_plan(locate("digits"), METHODS["erm"], {}).load_task(0, Progress())
    with pytest.raises(InputError, match="enough"):
        walk._select_by_twins(plan, digits, None, {"selected": "val_cross_mistakes"})
    assert (given[0].twin_lr, given[0].twin_weight_decay) == (0.001, 0.001)


def test_a_discovery_trains_no_twins(tmp_path):
    record = discover("digits", 0, tmp_path / "a", overrides=QUICK | {"separate_at": "1"})
    assert record["examples_seen"] == record["splits"]["train"]


def test_without_a_validation_split_the_rule_is_refused(toy):
    with pytest.raises(InputError, match="'val_cross_mistakes' needs a validation split"):
        check_rule(replace(toy, val=None), METHODS["erm"], "val_cross_mistakes")
    check_rule(toy, METHODS["erm"], "val_cross_mistakes")
