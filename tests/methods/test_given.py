"""Groups from a file: anyone's own, one that `discover` wrote, and files that are refused."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from spare.errors import InputError
from spare.methods import method_named, with_given_groups
from spare.records.groups_file import read_held_out
from tests.methods.test_methods import fit


def options(path, name="given+spare"):
    return method_named(name).options(groups=str(path))


def table_of(toy, **columns):
    n = len(toy.train.labels)
    usual = {"id": np.arange(n), "cluster": np.asarray(toy.train.attributes["place"])}
    return pa.table(
        {name: values for name, values in (usual | columns).items() if values is not None}
    )


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_anyones_own_table_in_any_order(toy, tmp_path, kind):
    path = tmp_path / f"mine.{kind}"
    order = np.random.default_rng(0).permutation(len(toy.train.labels))
    write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
    write(table_of(toy).take(order), path)
    method = method_named("given+spare")
    fitted, _ = fit(method, toy, options(path))
    labels, place = toy.train.labels, toy.train.attributes["place"]
    groups = fitted.inferred.groups
    assert len(np.unique(groups.ids)) == 4  # a cluster in two classes is two groups
    assert (groups.in_majority() == (labels == place)).all()
    assert set(groups.powers().values()) == {1.0}


def test_what_is_wrong_with_a_file_is_one_sentence(toy, tmp_path):
    def refused(table, says):
        path = tmp_path / "mine.parquet"
        pq.write_table(table, path)
        with pytest.raises(InputError, match=says):
            fit(method_named("given+spare"), toy, options(path))

    refused(table_of(toy, cluster=None), "no column 'cluster'; it has id")
    refused(table_of(toy, id=None), "add a column 'id'")
    refused(table_of(toy).slice(1), "has 399 rows and names 399 of the 400 train examples")
    refused(table_of(toy, id=np.zeros(400, int)), "names 1 of the 400 train examples")
    refused(table_of(toy, id=np.arange(400) / 2), "must be whole numbers, one per row")
    others = np.array(toy.class_names)[1 - toy.train.labels]
    refused(table_of(toy, label=others), "400 of the 400 train examples have another class")
    refused(table_of(toy, cluster=np.repeat("red", 400)), "whole numbers, one per row")
    with pytest.raises(InputError, match="no file of groups at"):
        options(tmp_path / "nowhere.parquet")
    (tmp_path / "text.parquet").write_text("cluster\n1\n")
    with pytest.raises(InputError, match="is not a table of groups"):
        fit(method_named("given+spare"), toy, options(tmp_path / "text.parquet"))
    with pytest.raises(InputError, match="name a file with --groups"):
        fit(method_named("given+spare"), toy)


@pytest.mark.parametrize("key", ["weight_seed", "initial"])
def test_a_file_of_discover_brings_powers_initial_weights_and_held_out_groups(toy, tmp_path, key):
    path = tmp_path / "groups.parquet"
    metadata = {"powers": {"left": 2.0, "right": 1.5}, key: 3}
    table = table_of(toy).replace_schema_metadata({"spare": json.dumps(metadata)})
    pq.write_table(table, path)
    held_out = [
        {"split": name, "id": number, "cluster": int(place)}
        for name in ("val", "test")
        for number, place in enumerate(toy.splits()[name].attributes["place"])
    ]
    pq.write_table(pa.Table.from_pylist(held_out), tmp_path / "held_out_groups.parquet")
    inferred = fit(method_named("given+spare"), toy, options(path))[0].inferred
    assert inferred.groups.powers() == {0: 2.0, 1: 1.5}
    assert inferred.weight_seed == 3
    for name, ids in inferred.held_out.items():
        split = toy.splits()[name]
        assert (
            inferred.groups.in_majority(ids) == (split.labels == split.attributes["place"])
        ).all()
    assert set(inferred.held_out) == {"val", "test"}


def test_held_out_groups_lie_beside_a_file_of_discover(toy, tmp_path):
    path, beside = tmp_path / "groups.parquet", tmp_path / "held_out_groups.parquet"
    pq.write_table(table_of(toy), path)
    assert read_held_out(path) is None
    pq.write_table(table_of(toy), beside)
    with pytest.raises(InputError, match=r"held_out_groups\.parquet has no column 'split': run"):
        read_held_out(path)
    # Beside a file of someone's own it may be about other groups.
    assert fit(method_named("given+spare"), toy, options(path))[0].inferred.held_out == {}
    splits = pa.array(["val", "test"] * 200)
    pq.write_table(table_of(toy, split=splits), beside)
    assert read_held_out(path).of_split("val").ids.tolist() == list(range(0, 400, 2))


def test_a_changed_file_has_another_digest(toy, tmp_path):
    path = tmp_path / "mine.parquet"
    pq.write_table(table_of(toy), path)
    before = options(path).groups_digest
    assert options(path).groups_digest == before
    pq.write_table(table_of(toy, cluster=np.arange(400) % 3), path)
    assert options(path).groups_digest != before


def test_which_methods_take_groups():
    assert with_given_groups("spare") == "given+spare"
    assert with_given_groups("eiil") == "given+gdro"
    with pytest.raises(InputError, match="erm does not train with groups: use --groups with"):
        with_given_groups("erm")
