"""Records as they were written, now and by older versions."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spare.errors import DataError, InputError, RunError
from spare.files.building import build_folder
from spare.files.writing import write_json
from spare.records.bench_table import read_table, runs_by_method
from spare.records.folder import do_once, finished
from spare.records.groups_file import read_groups, read_recorded_groups
from spare.records.layout import run_name
from spare.records.record import (
    FORMAT,
    REQUESTED,
    check_record,
    read_record,
    read_record_file,
    read_run,
    upgraded,
)
from spare.records.weights_file import read_weights
from tests.recorded import discovery_record, run_record, score

RESULTS = Path(__file__).parents[2] / "results"

OLD = {
    "format": 1,
    "task": "digits",
    "data": "",
    "method": "erm",
    "seed": 0,
    "settings": {"epochs": 2, "normalise": "half"},
    "options": {"k_max": 5},
    "own_rule": "val_average",
    "own_epoch": 3,
    "scores": {"test": {"selected": score(0.5), "last": score(0.4), "own_rule": score(0.6)}},
    "notes": {"initial": 1},
} | {
    key: value
    for key, value in run_record().items()
    if key in ("selection", "selected_epoch", "history", "discovery", "seconds", "examples_seen",
               "peak_memory_mb", "threads", "versions", "command")
}  # fmt: skip


def test_a_record_of_the_first_format_is_upgraded_and_no_number_changes():
    before = copy.deepcopy(OLD)
    record = upgraded(OLD, "somewhere")
    assert before == OLD
    assert record["format"] == FORMAT
    assert record["settings"] == {
        "epochs": 2,
        "normalize": "half",
        "optimizer": "sgd",
        "device": "cpu",
        "precision": "float32",
        "compile": False,
        "val_like": "test",
    }
    assert record["options"] == {"k_max": 5, "clusterer": "kmeans"}
    assert (record["paper_rule"], record["paper_rule_epoch"]) == ("val_average", 3)
    assert record["scores"]["test"] == {
        "selected": score(0.5),
        "last": score(0.4),
        "paper_rule": score(0.6),
    }
    assert record["notes"] == {"weight_seed": 1}
    assert upgraded(record, "somewhere") == record


def test_a_choice_that_came_later_is_what_stood_in_its_place():
    """So a finished folder is found done, and an unfinished one continued."""
    before = {**run_record(), "task": "cmnist", "settings": {"p_corr": 0.9}}
    assert upgraded(before, "")["settings"] == {"p_corr": 0.9, "val_like": "test"}
    before["settings"]["val_like"] = "train"
    assert upgraded(before, "")["settings"]["val_like"] == "train"
    other = {**run_record(), "task": "photos", "settings": {}}
    assert upgraded(other, "")["settings"] == {}


def test_a_finished_folder_of_an_older_version_is_found_done(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(OLD))
    wanted = upgraded(OLD, tmp_path)
    assert finished(tmp_path, wanted) == wanted
    with pytest.raises(RunError, match="epochs is 2 there, 3 was asked for"):
        finished(tmp_path, {**wanted, "settings": wanted["settings"] | {"epochs": 3}})


def test_a_record_of_a_newer_version_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(OLD | {"format": FORMAT + 1}))
    with pytest.raises(RunError, match="newer version of spare-ml: upgrade to read it"):
        read_record(tmp_path)


def test_a_folder_without_a_record_and_a_discovery_where_a_run_is_needed(tmp_path):
    with pytest.raises(InputError, match="holds neither a run nor a discovery"):
        read_record(tmp_path)
    found = {key: value for key, value in OLD.items() if key != "scores"}
    (tmp_path / "discovery.json").write_text(json.dumps(found))
    assert read_record(tmp_path)["associations"] == []
    with pytest.raises(InputError, match="is a discovery, which has no scores"):
        read_run(tmp_path)


def test_a_benchs_runs_are_those_of_its_table_and_no_others(tmp_path):
    for name in ("erm-seed0", "erm-seed1", "erm-seed3.partial", "someone-elses"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(OLD | {"seed": int("1" in name)}))
    table = {"rows": [{"task": "digits", "method": "erm", "seeds": [1, 0, 3], "split": "test"}]}
    runs = runs_by_method(tmp_path, table)
    assert [run.folder.name for run in runs["erm"]] == ["erm-seed0", "erm-seed1"]
    assert run_name("mine:METHOD", 3) == "mine-METHOD-seed3"


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": "two"}', '{"format": 2, "task": "x"}'])
def test_a_file_that_is_no_record_is_one_sentence(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match="does not hold a record that spare-ml wrote"):
        read_record(tmp_path)


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"powers": 3}', b'{"weight_seed": "x"}'])
def test_damaged_metadata_of_groups_is_one_sentence(tmp_path, metadata):
    table = pa.table({"id": [0], "cluster": [0]}).replace_schema_metadata({"spare": metadata})
    pq.write_table(table, tmp_path / "groups.parquet")
    with pytest.raises(InputError, match=r"the metadata of .*groups.parquet is damaged"):
        read_groups(tmp_path / "groups.parquet")


def test_temporary_files_of_a_killed_process_go_when_the_folder_is_complete(tmp_path):
    def fill(partial):
        (partial / "mark").write_text("")
        (partial / ".run.json.123.tmp").write_text("half")
        (partial / "train.checkpoint").write_text("")
        return "done"

    assert build_folder(tmp_path / "x", "mark", "working on", lambda: None, fill) == "done"
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mark"]


def cat_and_dog(**changes):
    groups = {
        "k": 2, "silhouette": 0.5, "scores": {"2": 0.5}, "power": 1.0, "sizes": [3, 1],
        "shares": [0.5, 0.5], "note": "",
    }  # fmt: skip
    return {"cat": groups | changes, "dog": groups}


def scored(**changes):
    return {"test": {"selected": score() | changes, "last": score()}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": "0"}, "seed is text, a whole number is expected"),
        ({"seed": -1}, "seed is not a whole number >= 0"),
        ({"seed": 2**32}, "seed is not a whole number <= 4294967295"),
        ({"seconds": {}}, "its seconds have no total"),
        ({"seconds": {"total": 1, "findings": 1}}, "its findings took all of its seconds"),
        ({"notes": []}, "notes is a list, names with values is expected"),
        ({"notes": {"warnings": "all"}}, "warnings is text, a list is expected"),
        ({"settings": {"epochs": {}}}, "a value of settings is names with values, a plain value"),
        ({"history": [{"epoch": 1}]}, "an epoch without its number or loss"),
        ({"scores": scored(average=1.5)}, "average"),
        ({"scores": scored(worst_group_interval=[0.5])}, "worst_group_interval"),
        ({"scores": scored(worst_group_name="c")}, "the worst group on test .* is none of"),
        ({"scores": scored(gaps={"a": 0.1})}, "the gaps on test .* are incomplete"),
        ({"scores": {"test": {"selected": score()}}}, "not of the selected and the last epoch"),
        ({"scores": {"<b>": {}}}, "is no split with scores"),
        ({"discovery": cat_and_dog(shares=[1.0])}, "have several lengths"),
        ({"discovery": cat_and_dog(sizes=[0, 0], k=0)}, "class 'cat' has no examples"),
        ({"discovery": cat_and_dog(k=5)}, "the groups of class 'cat' are not 5"),
        ({"discovery": cat_and_dog(recall=1.0)}, "has recall without the rest"),
        ({"discovery": {"cat": None}}, "discovery is nothing, names with values is expected"),
        ({"verdict": {"overall": "", "strength": 1.0, "epoch": 1, "classes": {
            "cat": {"verdict": "", "strength": 1.0, "block": 9}}}}, "a class 'cat' without groups"),
        ({"associations": [
            {"attribute": "a", "v": 0.5, "interval": [0, 1], "classes": {name: 0.5}, "clusters": {}}
            for name in ("cat", "dog")]}, "of several sets of classes"),
    ],
)  # fmt: skip
def test_finding_6_a_record_of_other_types_is_one_sentence(tmp_path, change, why):
    (tmp_path / "run.json").write_text(json.dumps(run_record() | change))
    with pytest.raises(RunError, match=why) as refused:
        read_record(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}/run.json is damaged (")
    assert "run its command again in another folder, or delete this one." in str(refused.value)
    assert "\n" not in str(refused.value)


def test_finding_6_a_record_of_the_right_types_is_read_as_it_is(tmp_path):
    record = run_record(discovery=cat_and_dog())
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert read_record(tmp_path) == record
    for missing in REQUESTED:
        if missing != "data":
            part = {key: value for key, value in record.items() if key != missing}
            (tmp_path / "run.json").write_text(json.dumps(part))
            with pytest.raises(RunError, match="does not hold a record that spare-ml wrote"):
                read_record(tmp_path)


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RESULTS.glob("*/runs.jsonl")))
def test_every_published_record_is_one(study):
    for line in (RESULTS / study / "runs.jsonl").read_text().splitlines():
        check_record(upgraded(json.loads(line), study), Path(study, "run.json"))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": {}},
        {"rows": [{}]},
        {"rows": [None]},
        {"rows": [{"method": 3}]},
        {"command": 3},
    ],
)
def test_finding_6_a_table_of_other_types_is_one_sentence(digits_bench, tmp_path, change):
    table = json.loads((digits_bench / "table.json").read_text()) | change
    (tmp_path / "table.json").write_text(json.dumps(table))
    with pytest.raises(RunError, match=r"table.json is damaged .*: give the command of the bench"):
        read_table(tmp_path)


def test_finding_6_a_foreign_record_in_an_unfinished_folder_is_not_taken_for_our_own(tmp_path):
    """One of another request, one that is none, and one without its weights."""
    record = run_record()
    request = {part: record[part] for part in ("format", *REQUESTED)}
    partial = tmp_path / "x.partial"
    partial.mkdir()
    (partial / "settings.json").write_text(json.dumps(request))

    def work(folder):
        (folder / "weights.safetensors").write_text("made")
        return record

    options = record["options"] | {"mine": None}
    for foreign, why in (
        (record | {"seed": 7}, "seed is 7 there, 0 was asked for"),
        (record | {"options": options}, "mine is None there, nothing was asked for"),
        (record | {"scores": {}, "selection": None}, "run.json is damaged"),
    ):
        (partial / "run.json").write_text(json.dumps(foreign))
        with pytest.raises(RunError, match=why):
            do_once(tmp_path / "x", request, "run", pytest.fail, print)
    (partial / "run.json").write_text(json.dumps(record | {"command": "forged"}))
    assert do_once(tmp_path / "x", request, "run", work, print) == record
    assert read_record_file(tmp_path / "x" / "run.json") == record
    assert sorted(os.listdir(tmp_path / "x")) == [
        "run.json", "settings.json", "weights.safetensors"
    ]  # fmt: skip


def test_a_benchs_folders_are_within_it(tmp_path):
    """A table that names another place, or a folder that is a link to one, has no such run."""
    outside = tmp_path / "outside-seed0"
    outside.mkdir()
    (outside / "run.json").write_text(json.dumps(run_record(method="../outside")))
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "erm-seed0").symlink_to(outside)
    rows = [
        {"task": "mine", "method": method, "seeds": [0], "split": "test"}
        for method in ("../outside", str(outside)[: -len("-seed0")], "erm")
    ]
    assert not any(runs_by_method(bench, {"rows": rows}).values())
    (bench / "erm-seed0").unlink()
    (bench / "erm-seed0").mkdir()
    (bench / "erm-seed0" / "run.json").write_text(json.dumps(run_record(method="jtt")))
    with pytest.raises(RunError, match=r"it is not the run that table\.json names"):
        runs_by_method(bench, {"rows": rows})


def groups_file(folder, metadata=None, **columns):
    table = pa.table({"id": [0, 1], "cluster": [0, 1], "label": ["a", "b"]} | columns)
    pq.write_table(table.replace_schema_metadata(metadata), folder / "groups.parquet")
    return folder / "groups.parquet"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"cluster": [0, None]}, "the clusters in .* must be whole numbers"),
        ({"id": pa.array([0, 2**64 - 1], pa.uint64())}, r"whole numbers below 2\^63"),
        ({"id": [[0], [1]]}, "column 'id' .* must hold one value per row"),
        ({"label": ["a", None]}, "column 'label' of .* has empty cells"),
        ({"label": [b"a", b"\xff"]}, "column 'label' of .* must hold text or numbers"),
        ({"label": [{"a": 1}, {"a": 2}]}, "column 'label' .* must hold one value per row"),
    ],
)
def test_finding_6_groups_of_other_types_are_one_sentence(tmp_path, columns, why):
    with pytest.raises(InputError, match=why):
        read_groups(groups_file(tmp_path, **columns))


@pytest.mark.parametrize(
    "metadata",
    [b'{"powers": {"a": NaN}}', b'{"powers": {"a": -1}}', b'{"powers": {"a": 1e300}}',
     b'{"weight_seed": 4294967296}', b'{"weight_seed": true}', b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_finding_6_metadata_of_groups_out_of_range_is_one_sentence(tmp_path, metadata):
    with pytest.raises(InputError, match=r"the metadata of .*groups.parquet is damaged \("):
        read_groups(groups_file(tmp_path, {"spare": metadata}))


def test_whatever_a_library_says_of_damaged_bytes_is_one_line(tmp_path, monkeypatch):
    def damaged(*_, **__):
        raise OSError(
            "Couldn't deserialize thrift: invalid data\nDeserializing page header failed.\n"
        )

    path = groups_file(tmp_path)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", damaged)
    with pytest.raises(InputError, match="not a table of groups: Couldn't deserialize") as refused:
        read_groups(path)
    assert "\n" not in str(refused.value)


def test_too_many_groups_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_MAX_ROWS", "1")
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", pytest.fail)
    with pytest.raises(DataError, match="has 2 rows, and at most 1 rows are read"):
        read_groups(groups_file(tmp_path))


def test_links_and_pipes_in_a_folder_are_not_opened(tmp_path):
    real = groups_file(tmp_path)
    (tmp_path / "run").mkdir()
    described = {"a": {"sizes": [1]}, "b": {"sizes": [1]}}
    (tmp_path / "run" / "groups.parquet").symlink_to(real)
    with pytest.raises(InputError, match="it is a link: put the file itself there"):
        read_recorded_groups(tmp_path / "run", described)
    assert len(read_groups(tmp_path / "run" / "groups.parquet").ids) == 2  # a person named it
    os.mkfifo(tmp_path / "run" / "weights.safetensors")
    with pytest.raises(RunError, match="not a file"):
        read_weights(tmp_path / "run")


def test_names_of_files_that_are_no_text_are_read_and_checked(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "run.json", run_record(task=name, discovery=cat_and_dog()))
    assert read_record(tmp_path)["task"] == name
    write_json(tmp_path / "run.json", run_record(discovery=name))
    with pytest.raises(RunError, match="discovery is text, names with values or nothing is"):
        read_record(tmp_path)


def test_a_discovery_is_checked_as_a_discovery(tmp_path):
    (tmp_path / "discovery.json").write_text(json.dumps(discovery_record(splits={"train": -1})))
    with pytest.raises(RunError, match=r"splits is not a whole number >= 0"):
        read_record(tmp_path)
