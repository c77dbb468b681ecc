"""Someone's own embeddings and outputs, in every format, and what can be wrong with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from spare.datasets.arrays import load
from spare.datasets.columns import FeatureColumns
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, SpareWarning

N, D = 60, 5


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    label = np.arange(N) % 2
    return {
        "features": (rng.normal(3, 2, (N, D)) + label[:, None]).astype(np.float32),
        "label": label,
        "place": rng.integers(0, 3, N),
        "split": np.arange(N) % 3,
    }


def read(path, encoding="utf8", **columns):
    return load(path, 0, shares=Shares(), columns=FeatureColumns(**columns), encoding=encoding)


def write(folder, kind, parts):
    path = folder / f"data.{kind}"
    columns = {f"f{i}": parts["features"][:, i] for i in range(D)}
    columns |= {name: values for name, values in parts.items() if name != "features"}
    if kind == "npz":
        np.savez(path, **parts)
    elif kind == "safetensors":
        save_file(parts, path)
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "csv":
        lines = [",".join(columns)]
        lines += [",".join(repr(v[i].item()) for v in columns.values()) for i in range(N)]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("kind", ["npz", "safetensors", "parquet", "csv"])
def test_every_format_gives_the_same_task(tmp_path, parts, kind):
    task = read(write(tmp_path, kind, parts), attributes=("place",))
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 20, "val": 20, "test": 20}
    assert task.train.labels.tolist() == parts["label"][::3].tolist()
    assert task.train.attributes["place"].tolist() == parts["place"][::3].tolist()
    points = task.train.inputs.take(np.arange(20)).numpy()
    given = parts["features"][::3]
    expected = (given - given.mean(0)) / given.std(0)
    assert np.allclose(points, expected, atol=1e-5)
    assert not task.holds_outputs


def test_npy_with_a_second_file_of_labels(tmp_path, parts):
    np.save(tmp_path / "x.npy", parts["features"])
    np.save(tmp_path / "y.npy", np.array(["b", "a"])[parts["label"]])
    task = read(tmp_path / "x.npy", label="y.npy")
    assert task.class_names == ("a", "b")
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 44, "val": 8, "test": 8}
    with pytest.raises(InputError, match=r"--label labels.npy"):
        read(tmp_path / "x.npy")
    with pytest.raises(DataError, match=r"there is no file z.npy"):
        read(tmp_path / "x.npy", label="z.npy")


def test_vectors_in_one_column(tmp_path, parts):
    table = pa.table({"vector": parts["features"].tolist(), "y": parts["label"], "size": range(N)})
    pq.write_table(table, tmp_path / "data.parquet")
    task = read(tmp_path / "data.parquet")
    assert task.train.inputs.take(np.arange(2)).shape == (2, D)


def test_columns_of_text_and_ids_are_not_features(tmp_path, parts):
    table = pa.table(
        {"id": range(N), "a": parts["features"][:, 0], "b": parts["features"][:, 1],
         "c": parts["features"][:, 2], "word": ["x"] * N, "y": parts["label"]}
    )  # fmt: skip
    pq.write_table(table, tmp_path / "data.parquet")
    with pytest.warns(SpareWarning, match="not used as features: word"):
        task = read(tmp_path / "data.parquet")
    assert task.train.inputs.take(np.arange(2)).shape == (2, 3)
    chosen = read(tmp_path / "data.parquet", features=("b",), treat_as="embeddings")
    assert chosen.train.inputs.take(np.arange(2)).shape == (2, 1)
    with pytest.raises(InputError, match="'b'"):
        read(tmp_path / "data.parquet", features=("bb",))
    with pytest.raises(InputError, match=r"'word' of data.parquet holds no numbers"):
        read(tmp_path / "data.parquet", features=("word",))


def test_as_many_columns_as_classes_are_outputs_and_left_unchanged(tmp_path, parts):
    outputs = np.random.default_rng(0).dirichlet([1, 1], N).astype(np.float32)
    np.savez(tmp_path / "o.npz", outputs=outputs, y=parts["label"])
    task = read(tmp_path / "o.npz")
    assert task.holds_outputs
    assert np.isin(task.train.inputs.take(np.arange(5)).numpy(), outputs).all()
    assert not read(tmp_path / "o.npz", treat_as="embeddings").holds_outputs
    with pytest.raises(InputError, match="'outputs'"):
        read(tmp_path / "o.npz", treat_as="output")


def test_no_pickle_is_opened(tmp_path, parts):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "y.npy", parts["label"])
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "x.npy", label="y.npy")


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors"])
def test_files_of_another_format_are_refused(tmp_path, kind):
    path = tmp_path / f"data.{kind}"
    path.write_bytes(b"this is not it")
    with pytest.raises(DataError, match="cannot be read"):
        read(path, label="y")


def test_missing_numbers_different_lengths_and_labels_of_the_wrong_shape_are_refused(
    tmp_path, parts
):
    broken = parts["features"].copy()
    broken[7, 2] = np.nan
    path = write(tmp_path, "npz", parts | {"features": broken})
    with pytest.raises(DataError, match=r"1 rows with a missing or infinite number .* row 7"):
        read(path)
    with pytest.raises(DataError, match="differ in length"):
        read(write(tmp_path, "npz", parts | {"features": broken[:7]}))
    with pytest.raises(InputError, match="one value per example"):
        read(path, label="features")
    with pytest.raises(InputError, match="'label'"):
        read(path, label="lable")


def test_two_arrays_of_vectors_need_a_choice(tmp_path, parts):
    np.savez(tmp_path / "d.npz", first=parts["features"], second=parts["features"] * 2,
             label=parts["label"])  # fmt: skip
    with pytest.raises(InputError, match=r"--set features=first"):
        read(tmp_path / "d.npz")
    assert read(tmp_path / "d.npz", features=("second",)).class_names == ("0", "1")


def test_a_constant_column_becomes_zero_and_a_class_in_test_only_is_an_error(tmp_path, parts):
    parts["features"][:, 1] = 4.0
    task = read(write(tmp_path, "npz", parts))
    assert (task.train.inputs.take(np.arange(20))[:, 1] == 0).all()
    parts["label"] = np.where(np.arange(N) == 2, 9, parts["label"])
    with pytest.raises(DataError, match=r"'9' has no training example \(val has 0, test 1\)"):
        read(write(tmp_path, "npz", parts))
