"""Outputs in files: every engine finds the same groups, and bad files are refused in a sentence."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import adjusted_rand_score

import spare
from spare.cli import main
from spare.engines import streaming
from spare.errors import DataError, InputError, RunError
from spare.groups import kmeans
from tests.engines.test_processes import two_classes


def write(path, outputs, labels, *, lists=False):
    columns = {"y": pa.array([f"c{label}" for label in labels])}
    if lists:
        flat = pa.array(outputs.ravel())
        columns["outputs"] = pa.FixedSizeListArray.from_arrays(flat, outputs.shape[1])
    else:
        columns |= {f"p{i}": pa.array(column) for i, column in enumerate(outputs.T)}
    pq.write_table(pa.table(columns), path)


@pytest.fixture(scope="module")
def small():
    return two_classes(900)


def check_against_memory(found, outputs, labels):
    here = spare.infer_groups(outputs, [f"c{label}" for label in labels])
    table = pq.read_table(found.groups)
    assert table["id"].to_pylist() == list(range(len(labels)))
    assert table["label"].to_pylist() == here.labels.tolist()
    assert (table["cluster"].to_numpy() == here.ids).all()
    weights = spare.importance_weights(here, here.labels)
    assert table["probability"].to_numpy() == pytest.approx(weights)
    assert found.evidence == here.evidence


@pytest.mark.parametrize("engine", ["auto", "local", "streaming"])
@pytest.mark.parametrize("lists", [False, True])
def test_a_parquet_file_gives_the_groups_of_memory(engine, lists, small, tmp_path):
    write(tmp_path / "outputs.parquet", *small, lists=lists)
    found = spare.cluster_outputs(tmp_path / "outputs.parquet", engine=engine, out=tmp_path / "out")
    check_against_memory(found, *small)
    assert found.engine == ("local" if engine == "auto" else engine)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "clusters.json",
        "groups.parquet",
    ]


def test_shards_and_arrays_give_the_same(small, tmp_path):
    outputs, labels = small
    shards = tmp_path / "shards"
    shards.mkdir()
    for i in range(3):
        part = slice(i * 400, (i + 1) * 400)
        write(shards / f"{i}.parquet", outputs[part], labels[part])
    found = spare.cluster_outputs(shards, engine="streaming", out=tmp_path / "out")
    check_against_memory(found, *small)
    np.save(tmp_path / "outputs.npy", outputs)
    np.save(tmp_path / "labels.npy", np.array([f"c{label}" for label in labels]))
    found = spare.cluster_outputs(
        tmp_path / "outputs.npy", label="labels.npy", engine="streaming", out=tmp_path / "other"
    )
    check_against_memory(found, *small)


def test_a_large_class_streams_with_the_groups_of_memory(tmp_path):
    outputs, labels = two_classes(kmeans.MANY + 100)
    outputs[:12], labels[:12] = [0, 0, 0, 1], 3
    write(tmp_path / "outputs.parquet", outputs, labels)
    found = spare.cluster_outputs(
        tmp_path / "outputs.parquet", engine="streaming", out=tmp_path / "out", k_max=3
    )
    here = spare.infer_groups(outputs, labels, k_max=3)
    clusters = pq.read_table(found.groups)["cluster"].to_numpy()
    assert adjusted_rand_score(clusters, here.ids) > 0.9999
    assert found.evidence["c3"].scores.keys() == here.evidence[3].scores.keys()
    with pytest.raises(InputError, match="only kmeans, kmedoids, kmedoids_sieve make clusters"):
        spare.cluster_outputs(
            tmp_path / "outputs.parquet", engine="streaming", clusterer="gmm", out=tmp_path / "no"
        )
    assert not (tmp_path / "no").exists()


def test_the_command_line_clusters_a_file_from_disk(small, tmp_path, capsys):
    write(tmp_path / "outputs.parquet", *small)
    words = ["discover", str(tmp_path / "outputs.parquet"), "--engine", "streaming"]
    words += ["--out", str(tmp_path / "out"), "--label", "y", "--set", "k=2"]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    assert "1,200 examples, engine streaming" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["classes"]["c3"]["first_id"] == 0
    with pytest.raises(SystemExit) as end:
        main([*words, "--set", "epochs=3"])
    assert end.value.code == 1
    assert "epochs is not for outputs that are only clustered" in capsys.readouterr().err


def test_a_result_of_spark_is_replaced_and_a_bad_power_is_refused_at_once(
    small, tmp_path, monkeypatch
):
    """Spark leaves a folder where the others leave a file."""
    write(tmp_path / "outputs.parquet", *small)
    (tmp_path / "out" / "groups.parquet").mkdir(parents=True)
    (tmp_path / "out" / "groups.parquet" / "part-0.parquet").write_bytes(b"older")
    found = spare.cluster_outputs(tmp_path / "outputs.parquet", out=tmp_path / "out")
    check_against_memory(found, *small)
    monkeypatch.setattr(streaming, "divide", lambda *_: pytest.fail("it read the file"))
    with pytest.raises(InputError, match="sampling power"):
        spare.cluster_outputs(tmp_path / "outputs.parquet", out=tmp_path / "out", power="high")


def test_a_place_that_cannot_be_replaced_is_named(small, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    write(tmp_path / "outputs.parquet", *small)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RunError, match=r"cannot write .*out/groups\.parquet: permission is denied"):
        spare.cluster_outputs(tmp_path / "outputs.parquet", out=tmp_path / "out")


def test_rows_are_counted_from_the_start_of_a_file(tmp_path):
    outputs = np.zeros((70_000, 2), dtype=np.float32)
    outputs[69_990] = np.inf
    write(tmp_path / "outputs.parquet", outputs, np.zeros(70_000, dtype=int))
    with pytest.raises(DataError, match=r"\(rows 69990\)"):
        spare.cluster_outputs(
            tmp_path / "outputs.parquet", engine="streaming", out=tmp_path / "out"
        )


def test_a_folder_of_shards_needs_no_engine_and_other_options_are_refused(small, tmp_path, capsys):
    shards = tmp_path / "shards"
    shards.mkdir()
    for i in range(2):
        write(shards / f"{i}.parquet", *small)
    words = ["discover", str(shards), "--out", str(tmp_path / "out"), "--set", "k=2"]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    assert "2,400 examples, engine local" in capsys.readouterr().out
    for more, says in (
        (["--master", "local[2]"], "--master is for --engine spark"),
        (["--inference", "eiil"], "inference is not for outputs that are only clustered"),
    ):
        with pytest.raises(SystemExit) as end:
            main([*words, *more])
        assert end.value.code == 1
        assert says in capsys.readouterr().err


def damaged(path: Path, how: str) -> None:
    table = pq.read_table(path)
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif how == "columns":
        pq.write_table(table.rename_columns(["y", "a", *table.column_names[2:]]), path)
    elif how == "nan":
        values = table["p1"].to_numpy().copy()
        values[3] = np.nan
        pq.write_table(table.set_column(2, "p1", pa.array(values)), path)
    elif how == "floats":
        for file in path.parent.iterdir():
            pq.write_table(table.set_column(0, "y", pa.array(np.zeros(len(table)))), file)
    else:
        pq.write_table(table.set_column(0, "y", pa.array([None] * len(table), pa.string())), path)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("truncated", "1.parquet cannot be read as a table"),
        ("columns", "1.parquet has other columns than 0.parquet"),
        ("nan", r"1.parquet cannot be clustered: 1 of .* rows of outputs are NaN .*\(rows 3\)"),
        ("floats", "labels in 'y' of shards are double: use whole numbers or text"),
        ("labels", "1.parquet has rows without a label"),
    ],
)
def test_a_bad_shard_is_one_sentence_and_nothing_is_left(how, says, small, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for i in range(2):
        write(shards / f"{i}.parquet", *small)
    damaged(shards / "1.parquet", how)
    with pytest.raises((DataError, InputError), match=says) as caught:
        spare.cluster_outputs(shards, engine="streaming", out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_while_streaming_leaves_nothing(small, tmp_path, monkeypatch):
    write(tmp_path / "outputs.parquet", *small)

    def full(path, rows):
        raise streaming.cannot_write(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(streaming, "_append", full)
    with pytest.raises(RunError, match="the disk is full"):
        spare.cluster_outputs(
            tmp_path / "outputs.parquet", engine="streaming", out=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_full_is_said_to_be(small):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full on this system")
    with pytest.raises(RunError, match="the disk is full"):
        streaming._append(Path("/dev/full"), np.zeros((70_000, 4)))
