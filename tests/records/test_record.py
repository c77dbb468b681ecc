"""Records as they were written, now and by older versions."""

from __future__ import annotations

import copy
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spare.errors import InputError, RunError
from spare.files import build_folder
from spare.records.bench_table import runs_by_method
from spare.records.folder import finished
from spare.records.groups_file import read_groups
from spare.records.layout import run_name
from spare.records.record import FORMAT, read_record, read_run, upgraded
from tests.recorded import run_record, score

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
