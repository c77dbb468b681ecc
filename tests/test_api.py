"""The verbs as Python functions: the same numbers as the command line, and data of every kind."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import spare
from spare.cli import main
from spare.errors import InputError, RunError


@pytest.fixture(scope="module")
def points():
    """Two classes told apart by column 0, and in training easier, but wrongly, by column 1."""
    rng = np.random.default_rng(0)
    label = np.arange(400) % 2
    place = np.where(rng.random(400) < 0.9, label, 1 - label)
    features = rng.normal(0, 0.5, (400, 5))
    features[:, 0] += 1.5 * label
    features[:, 1] += 6 * place
    return features.astype(np.float32), label, place


FAST = {"epochs": 3, "lr": 0.05, "cross_fit": 0}


def test_the_function_gives_what_the_verb_gives(tmp_path, capsys):
    run = spare.train("digits", method="spare", out=tmp_path / "function", epochs=1)
    with pytest.raises(SystemExit):
        main(["train", "digits", "--out", str(tmp_path / "verb"), "--set", "epochs=1"])
    printed = capsys.readouterr().out
    assert printed.startswith(str(run))
    record = json.loads((tmp_path / "verb" / "run.json").read_text())
    for key in ("scores", "discovery", "verdict", "associations", "settings", "command", "history"):
        assert record[key] == run.record[key]
    assert run.report.is_file()
    assert "<table" in run._repr_html_()
    assert "0-4" in run._repr_html_()


def test_what_a_run_offers(tmp_path):
    run = spare.train("digits", method="spare", out=tmp_path / "x", epochs=1, report=False)
    assert not run.report.exists()
    assert len(run.groups.clusters) == 900
    model = run.model("last")
    assert not model.training
    assert model(torch.zeros(2, 3, 16, 16)).shape == (2, 2)
    with pytest.raises(InputError, match="has no best weights; it has early, last, selected"):
        run.weights("best")
    again = spare.load_run(tmp_path / "x")
    assert isinstance(again, spare.Run)
    assert repr(again) == f"<Run: spare on digits, seed 0, in {tmp_path / 'x'}>"
    assert again.record == run.record
    assert str(again) == str(run)
    same = [again.model("last").state_dict(), model.state_dict()]
    assert all(torch.equal(same[0][name], same[1][name]) for name in same[1])
    assert again.write_report() == run.report
    assert run.report.is_file()


def table_of(points):
    import pyarrow as pa

    features, label, _ = points
    columns = {f"f{i}": features[:, i] for i in range(5)}
    return pa.table({**columns, "label": label})


def as_dataset(points):
    features, label, _ = points
    return torch.utils.data.TensorDataset(torch.tensor(features), torch.tensor(label))


KINDS = {
    "pair": lambda points: points[:2],
    "tensors": lambda points: (torch.tensor(points[0]), torch.tensor(points[1])),
    "mapping": lambda points: {"features": points[0], "label": points[1]},
    "table": table_of,
    "dataset": as_dataset,
}


@pytest.mark.parametrize("kind", KINDS)
def test_data_in_memory_is_read_like_a_file(kind, points, tmp_path):
    run = spare.train(KINDS[kind](points), out=tmp_path / "x", model="linear", report=False, **FAST)
    assert set(run.scores) == {"val", "test"}
    assert run.record["splits"] == {"train": 280, "val": 60, "test": 60}
    if kind in ("pair", "tensors", "mapping"):
        np.savez(tmp_path / "same.npz", features=points[0], label=points[1])
        read = spare.train(
            tmp_path / "same.npz", out=tmp_path / "y", model="linear", report=False, **FAST
        )
        assert read.record["scores"] == run.record["scores"]


def test_other_data_in_the_same_folder_is_noticed(points, tmp_path):
    features, label, _ = points
    arguments = {"out": tmp_path / "x", "method": "erm", "report": False, **FAST}
    del arguments["cross_fit"]
    first = spare.train((features, label), **arguments)
    assert spare.train((features, label), **arguments).record == first.record
    with pytest.raises(RunError, match="before the data, or a file that a setting names, changed"):
        spare.train((features + 1, label), **arguments)


class Net(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.hidden = nn.Linear(5, 7)
        self.out = nn.Linear(7, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


@pytest.mark.parametrize("model", [Net, Net(), lambda classes: Net(classes)])
def test_a_model_is_a_network_or_what_makes_one(model, points, tmp_path):
    arguments = {"method": "erm", "report": False, "epochs": 2, "lr": 0.05}
    run = spare.train(points[:2], model=model, out=tmp_path / "x", **arguments)
    assert run.record["settings"]["model"].startswith("given:")
    assert run.model()(torch.zeros(3, 5)).shape == (3, 2)
    with pytest.raises(InputError, match="was given in Python"):
        spare.load_run(tmp_path / "x").model()


def test_a_bench_of_objects_runs_here(points, tmp_path):
    done = spare.bench(
        points[:2], methods="erm,spare", seeds=[0], model=Net, out=tmp_path / "b", **FAST
    )
    assert [row["method"] for row in done.table["rows"]] == ["erm", "spare"]
    assert "erm" in str(done)
    assert "<table" in done._repr_html_()
    assert done.report.is_file()
    assert isinstance(spare.load_run(tmp_path / "b"), spare.Bench)


@pytest.mark.parametrize(("inference", "sizes"), [("jtt", 4), ("eiil", 4)])
def test_any_inference_can_discover(inference, sizes, points, tmp_path):
    found = spare.discover(
        points[:2], inference=inference, out=tmp_path / "x", epochs=3, lr=0.05, report=False
    )
    assert found.record["method"] == inference
    assert sum(len(groups["sizes"]) for groups in found.record["discovery"].values()) == sizes
    assert "scores" not in found.record
    assert isinstance(spare.load_run(tmp_path / "x"), spare.Discovery)


def test_a_method_and_an_inference_may_be_objects(points, tmp_path):
    from spare.methods import INFERENCES, METHODS

    erm = replace(METHODS["erm"], name="mine")
    run = spare.train(points[:2], method=erm, out=tmp_path / "x", epochs=1, report=False)
    assert run.record["method"] == "given:mine"
    found = spare.discover(
        points[:2], inference=INFERENCES["jtt"], out=tmp_path / "y", epochs=1, report=False
    )
    assert found.record["method"] == "given:jtt"
    for trust in (False, True):
        with pytest.raises(InputError, match=r"its method \(given:mine\) was given in Python"):
            spare.load_run(tmp_path / "x").model(trust=trust)


def test_what_a_record_cannot_name_is_refused(points, tmp_path):
    from spare.training.selection import RULES

    with pytest.raises(InputError, match="selection is text, not a Rule: name your own as"):
        spare.train(points[:2], selection=RULES["last"], out=tmp_path / "x")
    assert not list(tmp_path.iterdir())
