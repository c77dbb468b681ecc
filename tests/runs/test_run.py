"""Run folders: complete or not there, refused when they are another's, and safe from kill -9."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from spare.cli import main
from spare.datasets import locate
from spare.errors import DataError, InputError, Interrupted, RunError, SpareError
from spare.files.writing import write_json, write_tensors
from spare.methods import METHODS, method_named
from spare.progress import SILENT, Progress
from spare.records.weights_file import read_weights
from spare.runs.plan import make_plan, with_model
from spare.runs.restore import check_unchanged, network_with, plan_of
from spare.runs.signals import stop_on_signal
from tests.walks import discover, run

QUICK = {"epochs": "2"}


def quick(folder, method="spare", seed=0, overrides=QUICK, **more):
    return run("digits", method, seed, folder, overrides=overrides, **more)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    return folder, quick(folder)


def test_what_a_run_folder_holds(done):
    folder, record = done
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "groups.parquet",
        "held_out_groups.parquet",
        "run.json",
        "settings.json",
        "weights.safetensors",
    ]
    assert json.loads((folder / "run.json").read_text()) == record
    assert not folder.with_name("one.partial").exists()


def test_what_run_json_says(done):
    _, record = done
    for key in ("task", "method", "seed", "selection", "settings", "options", "scores"):
        assert key in record
    assert record["settings"]["epochs"] == 2
    assert record["settings"]["p_corr"] == 0.95  # a data set's own choices are settings
    assert record["options"]["k_max"] == 5
    for split in ("val", "test"):
        for when in ("selected", "last", "early"):
            scores = record["scores"][split][when]
            names = {"worst_group", "worst_group_interval", "average", "adjusted_average", "groups"}
            assert names <= set(scores)
            assert len(scores["groups"]) == 4
    assert set(record["discovery"]) == {"0-4", "5-9"}
    for seen in record["discovery"].values():
        assert {"k", "silhouette", "power", "sizes", "recall", "precision"} <= set(seen)
        assert sum(seen["sizes"]) > 400
    assert {"early", "outputs", "inference", "train", "total"} <= set(record["seconds"])
    assert record["examples_seen"] == (1 + 2) * 900
    assert record["peak_memory_mb"] > 100
    assert record["versions"]["torch"]
    assert record["command"] == "spare train digits --method spare --seed 0 --set epochs=2"


def test_the_group_table_is_one_row_an_example(done):
    folder, record = done
    table = pq.read_table(folder / "groups.parquet")
    assert table.column_names == [
        *("id", "label", "cluster", "probability"),
        *("predicted", "confidence", "x", "y"),
    ]
    assert table.num_rows == 900
    assert sum(table["probability"].to_pylist()) == pytest.approx(1)
    sizes = sorted(n for seen in record["discovery"].values() for n in seen["sizes"])
    counts = table["cluster"].value_counts().to_pylist()
    assert sorted(c["counts"] for c in counts) == sizes


def test_weights_of_the_selected_and_the_last_epoch_and_of_the_early_model_are_there(done):
    folder, record = done
    states = read_weights(folder)
    assert set(states) == {"selected", "last", "early"}
    # Each is what its scores are of.
    plan = make_plan(locate("digits"), method_named("spare"), {"epochs": "2"})
    task = plan.load_task(0, SILENT)
    labels = task.test.labels
    for when, state in states.items():
        network = network_with(state, plan, task, SILENT).eval()
        with torch.inference_mode():
            said = network(task.test.inputs.take(np.arange(len(labels)))).argmax(1).numpy()
        assert (said == labels).mean() == pytest.approx(record["scores"]["test"][when]["average"])


def test_a_head_is_no_early_model_of_the_network(tmp_path):
    """It has no weights for the other layers, so it is neither kept nor scored."""
    plan = make_plan(locate("digits"), method_named("spare"), {})
    network = with_model(plan.load_task(0, SILENT), plan, SILENT).build_model()
    write_tensors(tmp_path / "trained.safetensors", network.state_dict(), {})
    heads = {"early_layers": "head", "early_lrs": "", "separate_at": "1", "epochs": "1"}
    weights = {"weights": str(tmp_path / "trained.safetensors")}
    record = quick(tmp_path / "x", "spare", overrides=heads | weights)
    assert set(record["scores"]["test"]) == {"selected", "last"}
    assert set(read_weights(tmp_path / "x")) == {"selected", "last"}


def test_a_complete_run_is_not_run_again(done, monkeypatch):
    folder, record = done
    monkeypatch.setattr("spare.runs.run._walk", lambda *_: pytest.fail("it was run again"))
    assert quick(folder) == record


@pytest.mark.parametrize("label", ["y.npy", "{folder}/y.npy"], ids=["beside", "path"])
def test_a_changed_file_that_a_setting_names_is_another_run(label, tmp_path):
    """The same name with other labels in it: neither finished nor to be continued."""
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    np.save(tmp_path / "x.npy", rng.normal(size=(120, 3)) + labels[:, None])
    np.save(tmp_path / "y.npy", labels)
    given = {"label": label.format(folder=tmp_path), "epochs": "1"}

    def once_more(**more):
        return run(str(tmp_path / "x.npy"), "erm", 0, tmp_path / "run", overrides=given, **more)

    first = once_more()
    assert once_more() == first
    np.save(tmp_path / "y.npy", 1 - labels)
    with pytest.raises(RunError, match="before the data, or a file that a setting names, changed"):
        once_more()
    shutil.rmtree(tmp_path / "run")
    # One that changes while it is used is recorded as it was in the beginning.
    once_more(progress=Progress(report=lambda *_: np.save(tmp_path / "y.npy", labels)))
    asked = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert json.loads((tmp_path / "run" / "run.json").read_text())["data"] == asked["data"]


@pytest.mark.parametrize("label", ["~no-such-user", "y" * 300])
def test_a_label_need_not_be_the_name_of_a_file(label):
    points = np.random.default_rng(0).normal(size=(20, 3))
    source = locate((points, np.arange(20) % 2))
    plan = make_plan(source, method_named("erm"), {"label": label})
    assert plan.fingerprint == source.fingerprint


def test_weights_to_start_from_are_part_of_a_run_and_not_of_its_data(done, tmp_path):
    """With other weights it is another run; its report does without them, if it has its own."""
    file, folder = tmp_path / "start.safetensors", tmp_path / "run"
    shutil.copy(done[0] / "weights.safetensors", file)
    given = {"weights": str(file), "epochs": "1"}
    record = quick(folder, "erm", overrides=given)
    assert quick(folder, "erm", overrides=given) == record
    file.write_bytes(b"others")
    with pytest.raises(RunError, match="before the data, or a file that a setting names, changed"):
        quick(folder, "erm", overrides=given)
    file.unlink()
    plan = plan_of(folder, record)
    check_unchanged(plan, record)
    frozen = dataclasses.replace(plan, model=dataclasses.replace(plan.model, frozen=True))
    with pytest.raises(SpareError, match="has changed since, or is gone"):
        check_unchanged(frozen, record)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"overrides": {"epochs": "3"}}, "epochs is 2 there, 3 was asked for"),
        ({"seed": 1}, "seed is 0 there, 1 was asked for"),
        ({"method": "erm"}, "method is 'spare' there, 'erm' was asked for"),
        ({"overrides": {"epochs": "2", "k_max": "4"}}, "k_max is 5 there, 4 was asked for"),
    ],
)
def test_a_folder_of_another_setting_is_refused_and_kept(done, change, says):
    folder, record = done
    with pytest.raises(RunError, match=says):
        quick(folder, **change)
    assert json.loads((folder / "run.json").read_text()) == record


def test_a_folder_that_is_no_run_folder_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(RunError, match=r"not a folder of this kind \(no run.json\)"):
        quick(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_of_a_newer_version_is_refused(done, tmp_path):
    _, record = done
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(RunError, match="newer version"):
        quick(folder)


def test_two_processes_do_not_share_a_folder(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr("spare.files.building.LOCK_SECONDS", 0.2)
    partial = tmp_path / "x.partial"
    partial.mkdir()
    with (partial / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is working on"):
            quick(tmp_path / "x")


def test_a_partial_folder_of_someone_elses_is_refused_and_kept(tmp_path):
    partial = tmp_path / "x.partial"
    partial.mkdir()
    (partial / "thesis.txt").write_text("do not touch")
    with pytest.raises(InputError, match=r"x\.partial is in the way"):
        quick(tmp_path / "x")
    assert [path.name for path in partial.iterdir()] == ["thesis.txt"]


def test_what_fails_before_it_trains_leaves_no_trace(tmp_path):
    with pytest.raises(InputError):
        quick(tmp_path / "x", "erm", overrides={"selection": "val_inferred_groups"})
    assert not list(tmp_path.iterdir())


def test_the_folder_one_stands_in_is_refused_and_an_empty_one_is_not(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RunError, match="the folder you are in"):
        quick(".", "erm", overrides={"epochs": "1"})
    (tmp_path / "empty").mkdir()
    quick("../empty", "erm", overrides={"epochs": "1"})
    assert (tmp_path / "empty" / "run.json").exists()


def test_a_run_that_ended_just_before_its_new_name_is_completed(done, tmp_path):
    folder, record = done
    shutil.copytree(folder, tmp_path / "x.partial")
    (tmp_path / "x.partial" / "train.checkpoint").write_bytes(b"left over")
    with pytest.raises(RunError, match="seed is 0 there, 1"):
        quick(tmp_path / "x", seed=1)
    assert quick(tmp_path / "x") == record
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == sorted(
        p.name for p in folder.iterdir()
    )


def test_selection_rules_need_what_they_need(tmp_path):
    rule = {"epochs": "2", "selection": "val_inferred_groups"}
    for method in ("erm", "gb"):
        with pytest.raises(InputError, match="needs a method that infers groups"):
            quick(tmp_path / "a", method, overrides=rule)
    record = quick(tmp_path / "b", overrides=rule)
    assert record["selection"] == "val_inferred_groups"
    assert record["sees"] == "none"
    last = quick(tmp_path / "c", "erm", overrides={"epochs": "2", "selection": "last"})
    assert last["selected_epoch"] == 2


def test_a_rule_of_ones_own_selects_the_epoch(tmp_path, monkeypatch, capsys):
    """One file, named on the command line; it sees losses, confidences and inferred groups."""
    (tmp_path / "mine.py").write_text(
        "from spare.training.selection import Rule\n"
        "def score(epoch):\n"
        "    assert epoch.losses.shape == epoch.confidences.shape == epoch.labels.shape\n"
        "    assert epoch.inferred_groups is not None and epoch.groups is None\n"
        "    return -abs(epoch.number - 2)\n"
        "SECOND = Rule('second', 'the second epoch', 'inferred groups', score)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["train", "digits", "--set", "epochs=3", "--set", "selection=mine:SECOND", "--json"]
    with pytest.raises(SystemExit):
        main([*words, "--out", "x"])
    record = json.loads(capsys.readouterr().out)
    assert (record["selection"], record["selected_epoch"]) == ("mine:SECOND", 2)


def test_a_rule_of_ones_own_that_gives_no_number_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "mine_nan.py").write_text(
        "from spare.training.selection import Rule\n"
        "NAN = Rule('nan', 'no number', 'val labels', lambda epoch: float('nan'))\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="gave nan instead of a number"):
        quick(tmp_path / "x", "erm", overrides={"selection": "mine_nan:NAN"})
    assert not list(tmp_path.glob("x*"))


def own_features(folder, labels, **columns):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(labels), 3)).astype(np.float32)
    np.savez(folder / "mine.npz", features=features, label=np.asarray(labels), **columns)
    return str(folder / "mine.npz")


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("gdro", "gdro needs group labels of the training split, .* needs none .*erm.*jtt.*spare"),
        ("ssa", "ssa needs group labels of the validation split, .* needs none .*erm.*jtt.*spare"),
    ],
)
def test_group_labels_that_the_data_lacks_are_named_with_who_needs_none(tmp_path, method, says):
    data = own_features(tmp_path, np.arange(90) % 2)
    with pytest.raises(InputError, match=says):
        run(data, method, 0, tmp_path / "x", overrides={"selection": "last"})


def test_a_discovery_that_needs_group_labels_says_which_are_missing(tmp_path):
    data = own_features(tmp_path, np.arange(90) % 2)
    with pytest.raises(InputError, match="needs group labels of the training split"):
        discover(data, 0, tmp_path / "x", inference="truth")


def test_a_picture_that_is_gone_after_training_costs_no_training(tmp_path, monkeypatch):
    def gone(*_):
        raise DataError("this picture is not there any more.")

    monkeypatch.setattr("spare.runs.run.associations_of", gone)
    lines = []
    record = quick(tmp_path / "x", progress=Progress(say=lines.append))
    assert record["associations"] == []
    warning = "what clusters go with is not known: this picture is not there any more."
    assert record["notes"]["warnings"] == [warning]
    assert lines == [f"warning: {warning}"]


def test_one_class_only_is_said(tmp_path):
    data = own_features(tmp_path, np.zeros(40, dtype=int))
    with pytest.raises(DataError, match="only one class"):
        run(data, "erm", 0, tmp_path / "x")


def test_a_group_without_training_examples_is_said(tmp_path):
    labels, place = np.arange(120) % 2, np.arange(120) // 2 % 2
    split = np.where(np.arange(120) < 80, "train", "val")
    split[(labels == 1) & (place == 0)] = "val"
    data = own_features(tmp_path, labels, place=place, split=split)
    said = []
    overrides = {"attributes": "place", "epochs": "1"}
    run(data, "gb", 0, tmp_path / "x", overrides=overrides, progress=Progress(say=said.append))
    assert any("group 1/0 is in validation but has no training example" in line for line in said)


def test_a_method_with_a_rule_of_its_own_has_both_stored(tmp_path):
    record = quick(tmp_path / "x", "erm", overrides={"epochs": "3"})
    assert record["paper_rule"] == "val_average"
    for split in ("val", "test"):
        assert set(record["scores"][split]) == {"selected", "paper_rule", "last"}
    averages = [epoch["average"] for epoch in record["history"]]
    assert record["paper_rule_epoch"] == 1 + averages.index(max(averages))
    assert record["scores"]["val"]["paper_rule"]["average"] == pytest.approx(max(averages))


def test_a_recipe_cannot_learn_what_validation_groups_say(tmp_path, monkeypatch):
    """Nothing that it is handed has the selected epoch, or how an epoch fared by groups."""
    seen = {}
    original = METHODS["erm"].fit

    def curious(task, stages, options):
        fitted = original(task, stages, options)
        seen.update(trained=fitted.trained, task=task)
        return fitted

    monkeypatch.setitem(METHODS, "erm", dataclasses.replace(METHODS["erm"], fit=curious))
    record = quick(tmp_path / "x", "erm")
    assert record["history"][0]["worst_group"] >= 0
    assert [set(epoch) for epoch in seen["trained"].history] == [{"epoch", "loss"}] * 2
    assert seen["trained"].kept == {}
    assert seen["task"].val.attributes is None


def test_a_disk_that_refuses_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    """The third checkpoint cannot be written: one sentence, and the same command continues."""
    whole = quick(tmp_path / "whole", "erm", overrides={"epochs": "4"})
    real, count = os.replace, 0

    def full(source, target):
        nonlocal count
        count += str(target).endswith(".checkpoint")
        if count == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match=r"cannot write .*checkpoint: the disk is full"):
        quick(tmp_path / "x", "erm", overrides={"epochs": "4"})
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.tmp"))
    epochs = []
    again = quick(
        tmp_path / "x",
        "erm",
        overrides={"epochs": "4"},
        progress=Progress(report=lambda w, done, _: epochs.append(done) if w == "train" else None),
    )
    assert min(epochs) > 29  # the first epochs were not trained again (29 steps each)
    assert again["scores"] == whole["scores"]


def test_a_write_past_the_file_size_limit_is_one_sentence(tmp_path):
    """A real refusal by the operating system, in a process of its own."""
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "from spare.cli import main\n"
        f"main(['train', 'digits', '--method', 'erm', '--out', {str(tmp_path / 'x')!r}])\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.startswith("spare: error: cannot write")
    assert process.stderr.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*: .*choose another --out"):
        quick(tmp_path / "file" / "x")


def test_a_damaged_checkpoint_is_named(tmp_path):
    def stop_after(steps):
        count = 0

        def stop():
            nonlocal count
            count += 1
            return count > steps

        return stop

    with pytest.raises(Interrupted):
        quick(tmp_path / "x", "erm", progress=Progress(should_stop=stop_after(10)))
    checkpoint = tmp_path / "x.partial" / "train.checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(RunError, match=r"train\.checkpoint cannot be read .*delete it"):
        quick(tmp_path / "x", "erm")


def test_an_unfinished_folder_of_the_first_version_is_refused_in_one_sentence(tmp_path):
    plan = make_plan(locate("digits"), method_named("erm"), QUICK)
    partial = tmp_path / "x.partial"
    partial.mkdir()
    request = plan.request(0)
    new = ("optimizer", "device", "precision")
    settings = {key: value for key, value in request["settings"].items() if key not in new}
    write_json(partial / "settings.json", request | {"format": 1, "settings": settings})
    write_tensors(partial / "train.checkpoint", {"x": torch.zeros(1)}, {"progress": "{}"})
    with pytest.raises(RunError, match="was written by another version of spare-ml: delete"):
        quick(tmp_path / "x", "erm")


def command_line(folder, epochs=6):
    words = ["train", "digits", "--method", "spare", "--out", str(folder), "--json"]
    return [sys.executable, "-m", "spare", *words, "--set", f"epochs={epochs}"]


def start(folder):
    return subprocess.Popen(command_line(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None or condition(), process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_finishes_the_checkpoint_and_says_how_to_continue(tmp_path):
    partial = tmp_path / "x.partial"
    process = start(tmp_path / "x")
    wait_for(lambda: list(partial.glob("*.checkpoint")), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode() == (
        "spare: stopped; the checkpoint is written, and the same command continues from it.\n"
    )
    assert list(partial.glob("*.checkpoint"))
    assert not list(partial.glob("*.tmp"))


def test_stopping_puts_the_handlers_back():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signal() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
    assert signal.getsignal(signal.SIGINT) is before


def test_many_signals_at_once_stop_it_just_as_one_does():
    """A parent that is told to stop tells its workers again and again."""
    code = """
import time
from spare.runs.signals import stop_on_signal
with stop_on_signal() as should_stop:
    should_stop()  # someone asks, so a signal is no KeyboardInterrupt
    print("ready", flush=True)
    while not should_stop():
        pass
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        pass
    print("stopped", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        until = time.monotonic() + 1
        while time.monotonic() < until:
            process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == "stopped\n"
    finally:
        process.kill()
        process.wait()
