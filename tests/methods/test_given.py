"""Groups from a file: discover's, someone's own, and files that will not do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from spare.errors import InputError, RunError
from spare.methods import method_named, with_given_groups
from spare.runs.discover import discover
from spare.runs.run import run
from tests.methods.test_methods import fit

FAST = {"epochs": "4", "lr": "0.05", "batch_size": "32", "cross_fit": "0", "separate_at": "2"}


@pytest.fixture
def embeddings(tmp_path):
    rng = np.random.default_rng(0)
    label = np.arange(500) % 2
    split = np.where(np.arange(500) < 300, 0, np.where(np.arange(500) < 400, 1, 2))
    place = np.where(rng.random(500) < np.where(split == 0, 0.9, 0.5), label, 1 - label)
    points = rng.normal(0, 0.5, (500, 4)) + np.stack([label * 1.5, place * 6, label, place], 1)
    path = tmp_path / "own.npz"
    np.savez(path, features=points, label=label, split=split)
    return path


def options(path, name="given+spare"):
    return method_named(name).options(groups=str(path))


def table_of(toy, **columns):
    n = len(toy.train.labels)
    own = {"id": np.arange(n), "cluster": np.asarray(toy.train.attributes["place"])}
    return pa.table(
        {name: values for name, values in (own | columns).items() if values is not None}
    )


def test_training_with_discovered_groups_is_what_spare_trains_by_itself(tmp_path, embeddings):
    discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)
    second = {key: FAST[key] for key in ("epochs", "lr", "batch_size")}
    groups = {"groups": str(tmp_path / "found" / "groups.parquet")}
    whole = run(str(embeddings), "spare", 0, tmp_path / "spare", overrides=FAST)
    given = run(
        str(embeddings), "given+spare", 0, tmp_path / "given",
        overrides=second | groups | {"weight_decay": "1.0", "class_mass": "natural"},
    )  # fmt: skip
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("spare", "given"))
    assert set(two) == {name for name in one if not name.startswith("early/")}
    assert all(value.equal(one[name]) for name, value in two.items())
    for split in ("val", "test"):
        scores = [record["scores"][split]["selected"]["inferred"] for record in (whole, given)]
        assert scores[0] == scores[1]


def test_a_changed_file_is_another_run(tmp_path, embeddings):
    discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)
    path = tmp_path / "found" / "groups.parquet"
    overrides = {"epochs": "1", "groups": str(path)}
    run(str(embeddings), "given+spare", 0, tmp_path / "run", overrides=overrides)
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "cluster", pa.array(np.arange(300) % 4 // 2)), path)
    with pytest.raises(RunError, match="groups_digest"):
        run(str(embeddings), "given+spare", 0, tmp_path / "run", overrides=overrides)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_anyones_own_table_in_any_order(toy, tmp_path, kind):
    path = tmp_path / f"mine.{kind}"
    order = np.random.default_rng(0).permutation(len(toy.train.labels))
    write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
    write(table_of(toy).take(order), path)
    method = method_named("given+spare")
    fitted, _ = fit(method, toy, options(path))
    labels, place = toy.train.labels, toy.train.attributes["place"]
    assert len(np.unique(fitted.groups.ids)) == 4  # a cluster in two classes is two groups
    assert (fitted.groups.in_majority() == (labels == place)).all()
    assert set(fitted.groups.powers().values()) == {1.0}


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
    refused(table_of(toy, id=np.arange(400) / 2), "are the numbers of the examples")
    others = np.array(toy.class_names)[1 - toy.train.labels]
    refused(table_of(toy, label=others), "400 of the 400 train examples have another class")
    refused(table_of(toy, cluster=np.repeat("red", 400)), "whole numbers, one a row")
    with pytest.raises(InputError, match="no file of groups at"):
        options(tmp_path / "nowhere.parquet")
    (tmp_path / "text.parquet").write_text("cluster\n1\n")
    with pytest.raises(InputError, match="is not a table of groups"):
        fit(method_named("given+spare"), toy, options(tmp_path / "text.parquet"))
    with pytest.raises(InputError, match="Name a file with --groups"):
        fit(method_named("given+spare"), toy)


def test_which_methods_take_groups():
    assert with_given_groups("spare") == "given+spare"
    assert with_given_groups("eiil") == "given+gdro"
    with pytest.raises(InputError, match="erm does not train with groups: --groups goes with"):
        with_given_groups("erm")
