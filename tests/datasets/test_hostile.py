"""What was found when the readers of tables, arrays and images were attacked."""

from __future__ import annotations

import base64
import itertools
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.datasets import locate
from spare.datasets.arrays import load
from spare.datasets.columns import FeatureColumns
from spare.datasets.folder import read_listing
from spare.datasets.image_task import image_task
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.datasets.values import as_array, as_column
from spare.datasets.words import _by_size, encode, encode_column
from spare.errors import DataError, InputError, SpareError, SpareWarning
from tests.pictures import picture_folder

N = 40
FEATURES = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
LABELS = np.arange(N) % 2


def read(path, **columns):
    return load(path, 0, shares=Shares(), columns=FeatureColumns(**columns))


def npz(path, **arrays):
    np.savez(path, **({"features": FEATURES, "label": LABELS} | arrays))
    return path


def classes(values) -> tuple[str, ...]:
    return encode_column(as_column(as_array(values), "y", "t"), "y", "t")[1]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.array([1000001.0, 1000002.0]), ("1000001", "1000002")),
        (np.array([0.1, 0.2], np.float32), ("0.1", "0.2")),
        (np.array([0.1, 0.2], np.float16), ("0.1", "0.2")),
        (np.array([0.0, -0.0, 1.0]), ("0", "1")),
        (np.array([2**63, 2**63 + 1], np.uint64), (str(2**63), str(2**63 + 1))),
        (np.array([b"a", b"b"]), ("a", "b")),
        ([True, False], ("false", "true")),
        (["a\0", "a"], ("a", "a\0")),
        (np.array([1, 2], ">i4"), ("1", "2")),
    ],
)
def test_values_do_not_merge(values, names):
    assert classes(values) == names


def test_values_of_a_csv_do_not_merge(tmp_path):
    rows = [f"{v},{i}" for i, v in enumerate(["01", "1", str(2**63), str(2**63 + 1)] * 8)]
    path = tmp_path / "d.csv"
    path.write_text("label,f\n" + "\n".join(rows))
    assert len(read(path).class_names) == 4


@pytest.mark.parametrize("values", [[1, "1"], [2**63, -1], [1, 2**70], [b"\xff", b"a"]])
def test_values_that_cannot_be_told_apart_are_refused(values):
    with pytest.raises(SpareError):
        classes(values)


def test_a_class_called_nan_has_its_place_in_the_order():
    words = ["b", "nan", "2", "inf", "10", "a"]
    expected = ("2", "10", "a", "b", "inf", "nan")
    for seed in range(20):
        assert encode(list(np.random.default_rng(seed).permutation(words)))[1] == expected


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"label": np.zeros((N, 3))}, "one-hot"),
        ({"label": np.array(1)}, "is a single value"),
        ({"label": LABELS.astype(complex)}, "complex numbers"),
        ({"label": np.zeros(N, "i4,f8")}, "records of several fields"),
        ({"features": FEATURES.astype(complex)}, "no columns of numbers"),
        ({"label": LABELS[:-1]}, "differ in length"),
        ({"split": np.array(["train"] * 3)}, "differ in length"),
        ({"features": np.zeros((N, 0))}, "no columns of numbers"),
        ({"label": np.arange(0), "features": np.zeros((0, 4))}, "has no rows"),
    ],
)
def test_arrays_that_ended_in_a_traceback(tmp_path, arrays, says):
    with pytest.raises(SpareError, match=says):
        read(npz(tmp_path / "d.npz", **arrays))


def test_big_endian_arrays_and_labels_in_one_column_work(tmp_path):
    arrays = {"features": FEATURES.astype(">f8"), "label": LABELS.astype(">i8")[:, None]}
    path = npz(tmp_path / "d.npz", **arrays)
    assert read(path).class_names == ("0", "1")


def test_members_that_are_not_needed_are_not_read(tmp_path, monkeypatch):
    path = npz(tmp_path / "d.npz", unused=np.zeros(5_000_000))
    monkeypatch.setenv("SPARE_MAX_ARRAY", "1M")
    assert len(read(path).train) > 0
    with pytest.raises(DataError, match="SPARE_MAX_ARRAY"):
        read(path, features=("unused",), label="unused")


@pytest.mark.parametrize("shape", ["(1000000000000, 1000000000000)", "(-1, 4)"])
def test_an_absurd_header_is_refused(tmp_path, shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    evil = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    path = npz(tmp_path / "d.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("evil.npy", evil)
    with pytest.raises(DataError):
        read(path, features=("evil",))
    (tmp_path / "x.npy").write_bytes(evil)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "x.npy", label="y.npy")


#: Found by fuzzing: a footer that makes pyarrow abort the process when it is asked of a column.
ABORTS = (
    "UEFSMRUEFaACFaACTBUkFQASAAAAAAAAAAAAAJIkSZIkScI/kiRJkiRJ0j/btm3btm3bP5IkSZIkSeI/t23btm3b"
    "5j/btm3btm3rPwAAAAAAAPA/kiRJkiRJ8j8lSZIkSZL0P7dt27Zt2/Y/SZIkSZIk+T/btm3btm37P27btm3btv0/"
    "AAAAAAAAAEBJkiRJkiQBQJIkSZIkSQJA27Zt27ZtA0AVABUuFS4sFSQVEBUGFQYcGAjbtm3btm0DQBgIAAAAAAAA"
    "AIAWACgI27Zt27ZtA0AYCAAAAAAAAACAEREAAAACAAAAJAEFByCIA2RvZxgDY2F0EREAAAACAAAAJAEBB6qqAhUE"
    "GTw1ABgGc2NoZW1hFQQAFQolAhgBYQAVAiUCGAVsYWJlbCUATBwAAAAWJBkcGSwmABwVChk1AAYQGRgBYRUAFiQW"
    "7AMW7AMmyAImCBwYCNu2bdu2bQNAGAgAAAAAAAAAgBYAKAjbtm3btm0DQBgIAAAAAAAAAIAREQAZLBUEFQAVAgAV"
    "ABUQFQIAPCkGGSYAJAAAACYAHBUMGTUABhAZGAVsYWJlbBUAFiQWkAEWkAEmrAQm9AMcNgAoA2RvZxgDY2F0EREA"
    "GSwVBBUAFQIAFQAVEBUCADwWbBkGGSYAJAAAABb8BBYkJggW/AQAGRwYDEFSUk9XOnNjaGVtYRjgAS8vLy8vNkFB"
    "QUFBUUFBQUFBQUFLQUF3QUJnQUZBQWdBQ2dBQUFBQUJCQUFNQUFBQUNBQUlBQUFBQkFBSUFBQUFCQUFBQUFJQUFB"
    "QkVBQUFBQkFBQUFOVC8vLzhBQUFFRkVBQUFBQndBQUFBRUFBQUFBQUFBQUFVQUFBQnNZV0psYkFBQUFBUUFCQUFF"
    "QUFBQUVBQVVBQWdBQmdBSEFBd0FBQUFRQUJBQUFBQUFBQUVERUFBQUFCZ0FBQUFFQUFBQUFBQUFBQUVBQUFCaEFB"
    "WUFDQUFHQUFZQUFBQUFBQUlBABggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZLBwAABwAAAAOAgAA"
    "UEFSMQ=="
)


def test_a_parquet_whose_footer_is_damaged_ends_in_a_sentence(tmp_path):
    (tmp_path / "d.parquet").write_bytes(base64.b64decode(ABORTS))
    # In a process of its own: this one would be aborted too.
    words = [sys.executable, "-m", "spare", "discover", "d.parquet", "--out", "found"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("spare: error: d.parquet cannot be read as a table:")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.parquet"]


def test_a_parquet_of_too_many_rows_is_refused_from_its_metadata(tmp_path, monkeypatch):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"label": LABELS, "f": FEATURES[:, 0]}), path)
    monkeypatch.setenv("SPARE_MAX_ROWS", "39")
    with pytest.raises(DataError, match="has 40 rows, and at most 39 rows are read"):
        read(path)


@pytest.mark.parametrize("kind", ["list", "struct", "map"])
def test_nested_columns_are_no_labels(tmp_path, kind):
    values = {
        "list": pa.array([[1]] * N),
        "struct": pa.array([{"a": 1}] * N),
        "map": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table({"label": values[kind], "f": FEATURES[:, 0]}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match="one value per row is needed"):
        read(tmp_path / "d.parquet")


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("label,f,f\na,1,2\nb,3,4\n")
    with pytest.raises(DataError, match="more than one column called 'f'"):
        read(path)


def test_more_classes_than_the_limit_are_refused(tmp_path, monkeypatch):
    path = npz(tmp_path / "d.npz", label=np.arange(N) % 4)
    monkeypatch.setenv("SPARE_MAX_CLASSES", "3")
    with pytest.raises(DataError, match="has 4 classes, and at most 3"):
        read(path)
    monkeypatch.setenv("SPARE_MAX_CLASSES", "4")
    assert len(read(path).class_names) == 4


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet", "a.npy"])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="a pipe or a device"):
        locate(tmp_path / name)


def test_a_pipe_among_the_images_is_no_image(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    picture_folder(tmp_path / "d", {"cat": 3, "dog": 3})
    os.mkfifo(tmp_path / "d" / "cat" / "pipe.png")
    listing = read_listing(tmp_path / "d", "", Shares())
    with pytest.raises(DataError, match="1 of 7 image files are missing"):
        image_task("d", listing, Preparation(resize=8, crop=8))


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "x/" * 3000 + "a.csv"])
def test_names_that_no_file_can_have_are_refused(name):
    with pytest.raises(SpareError):
        locate(name)


def test_names_that_are_not_utf8_can_be_written():
    split = Split(TensorInputs(torch.zeros(2, 1)), np.array([0, 1]))
    names = {"train": ["a\udcff", "b"]}
    task = Task("t", split, None, None, ("c\udcff", "d"), {}, names=names)
    assert task.class_names == ("c\\xff", "d")
    assert task.names["train"] == ["a\\xff", "b"]


def test_a_data_set_whose_items_raise_names_the_item():
    class Lying:
        targets = [0, 1] * 5

        def __len__(self):
            return 10

        def __getitem__(self, index):
            raise KeyError("gone")

    with pytest.raises(InputError, match=r"item 0 of 10 of the Lying cannot be read: KeyError"):
        locate(Lying())


def test_the_order_of_classes_does_not_depend_on_the_hash_seed():
    """A set gives words in any order, which differs from process to process: all are tried."""
    words = ["nan", "b", "inf", "2", "NaN", "-1"]
    orders = {tuple(sorted(order, key=_by_size)) for order in itertools.permutations(words)}
    assert orders == {("-1", "2", "NaN", "b", "inf", "nan")}
    assert encode(words)[1] == ("-1", "2", "NaN", "b", "inf", "nan")


def test_several_columns_without_a_name_are_left_out(tmp_path):
    rows = "".join(f"1,{i},{i % 2},{i}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f",,label,x\n{rows}")
    with pytest.warns(SpareWarning, match=r"columns without a name, which are not used: 1, 2"):
        task = load(tmp_path / "t.csv", 0, shares=Shares(), columns=FeatureColumns())
    assert task.train.inputs.take(np.array([0])).shape == (1, 1)
