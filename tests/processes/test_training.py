"""Training across gloo processes: as in one, whoever has which share of a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spare.errors import Interrupted
from spare.groups import one_class
from tests.engines import workers
from tests.objectives import test_devices as objectives
from tests.processes import jobs

#: Sums in another order differ in their last bits, and training carries these on.
CLOSE = {"rtol": 2e-4, "atol": 2e-5}
CASES = [
    ("plain", {"ema": 0.9, "optimizer": "adamw"}),
    ("normalized", {}),
    ("convolving", {"accumulate": 3}),
]


def all_close(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_allclose(one[key], other[key], **CLOSE, err_msg=key)


def same(one, other):
    return one.keys() == other.keys() and all((one[key] == other[key]).all() for key in one)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_weights_are_those_of_one_process_and_the_draw_is_the_same(count, tmp_path):
    results = workers.run(jobs.trained, count, tmp_path, CASES)
    for number, (name, more) in enumerate(CASES):
        alone = jobs.fit(name, replace(jobs.SETTINGS, **more))
        for of_rank in results:
            weights, history, seen, rows = of_rank[number]
            all_close(weights, alone[0])
            assert [h["loss"] for h in history] == pytest.approx(
                [h["loss"] for h in alone[1]], rel=1e-4
            )
            assert seen == alone[2]
            assert rows == alone[3]
            assert same(weights, results[0][number][0])  # to the bit


@pytest.mark.parametrize("count", [2, 3])
def test_every_objective_sees_the_whole_batch(count, tmp_path):
    names = list(objectives.OBJECTIVES)
    results = workers.run(jobs.with_objectives, count, tmp_path, names)
    for number, name in enumerate(names):
        weights, seen = jobs.weights_with(objectives, name)
        for of_rank in results:
            assert same(of_rank[number][0], results[0][number][0])
            assert of_rank[number][1] == seen
        all_close(results[0][number][0], weights)


def test_dropout_differs_between_shares_and_not_between_weights(tmp_path):
    results = workers.run(jobs.trained, 2, tmp_path, [("dropout", {})])
    assert same(results[0][0][0], results[1][0][0])
    alone = jobs.fit("dropout")
    assert results[0][0][1][-1]["loss"] == pytest.approx(alone[1][-1]["loss"], rel=0.5)


@pytest.mark.parametrize("counts", [(2, 2), (2, 3), (3, 1), (1, 2)])
def test_a_training_is_resumed_with_any_number_of_processes(counts, tmp_path):
    file = tmp_path / "x.checkpoint"
    first, second = counts
    stop = (str(file), 9)
    if first > 1:
        said = workers.run(jobs.stopped, first, tmp_path, *stop)
        assert all(each.startswith("Interrupted: stopped; the checkpoint") for each in said)
    else:
        with pytest.raises(Interrupted):
            jobs.stopped(0, 1, *stop)
    go_on = (str(file), 9_999)
    if second > 1:
        results = workers.run(jobs.stopped, second, tmp_path, *go_on)
    else:
        results = [jobs.stopped(0, 1, *go_on)]
    if first == second:  # then to the bit
        undisturbed = workers.run(jobs.trained, second, tmp_path, [("normalized", {})])
        assert same(results[0][0], undisturbed[0][0][0])
    straight = jobs.fit("normalized")
    for weights, history, seen, rows in results:
        all_close(weights, straight[0])
        assert len(history) == 2
        assert seen == straight[2]
        assert rows == straight[3][9:]


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_outputs_are_those_of_one_process_to_the_bit_and_each_counted_once(size, tmp_path):
    alone = jobs.outputs_of(0, 1, size)
    for found in workers.run(jobs.outputs_of, 3, tmp_path, size):
        for mine, its in zip(found, alone, strict=True):
            assert (mine == its).all()


@pytest.mark.filterwarnings("ignore::spare.errors.SpareWarning")
@pytest.mark.parametrize(
    "options", [{}, {"output": "features"}, {"clusterer": "agglomerative", "separate_at": 1}]
)
def test_each_process_keeps_its_outputs_and_all_find_the_groups_of_one(
    options, tmp_path, monkeypatch
):
    monkeypatch.setattr(one_class, "MANY", 50)
    alone, _ = jobs.separated(0, 1, options)
    for found, gathered in workers.run(jobs.separated, 3, tmp_path, options):
        for name in ("ids", "val", "predicted"):
            assert (found[name] == alone[name]).all()
        assert found["sizes"] == alone["sizes"]
        assert found["powers"] == pytest.approx(alone["powers"], abs=0.05)
        np.testing.assert_allclose(found["points"], alone["points"], atol=1e-4)
        # A sample of a class at most, unless the clusterer needs all examples in one place.
        assert gathered == (900 if "clusterer" in options else 300)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("settings", "InputError: processes 0 and 1 were started with different settings "
                     "(lr: 0.1 and 0.2): start all of them alike."),
        ("weights", "InputError: processes 0 and 1 were started with different initial weights"),
        ("objective", "InputError: this objective passes 8 inputs through the network where its "
                      "share of the batch has 16"),
        ("error", "SpareError: said by 0"),
        ("crash", jobs.CRASHED),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_every_process(what, says, tmp_path):
    for said in workers.run(jobs.told, 2, tmp_path, what):
        assert said.startswith(says)


def test_an_error_of_its_own_is_not_taken_for_the_loss_of_another(tmp_path):
    said = workers.run(jobs.told, 2, tmp_path, "late crash")
    assert said == [jobs.CRASHED, "SpareError: said by 1"]


def test_what_one_process_does_all_have(tmp_path):
    assert workers.run(jobs.told, 3, tmp_path, "once") == [{"from": 0}] * 3
    assert workers.run(jobs.told, 2, tmp_path, "function") == ["called"] * 2


@pytest.mark.parametrize("where", ["training", "gathering", "clustering", "telling"])
def test_a_process_that_is_killed_ends_the_others_with_a_sentence(where, tmp_path):
    results = workers.of_survivors(jobs.dies, 3, tmp_path, where)
    assert set(results) == {0, 1}
    for said, seconds in results.values():
        assert said.startswith("another process of the job has ended or did not answer in time")
        assert "\n" not in said
        assert seconds < 60
