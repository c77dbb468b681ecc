"""Tables of images: columns, splits, attributes, and everything that can be wrong with them."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spare.datasets import locate
from spare.datasets.manifest import ImageColumns, load
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, SpareWarning
from tests.pictures import COLORS, picture

SMALL = Preparation(resize=12, crop=12)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rows(tmp_path):
    """Thirty images with a label, a split, and a place that says nothing for one of them."""
    listed = []
    for i in range(30):
        label = ("cat", "dog")[i % 2]
        name = f"images/{i:02d}.png"
        picture(tmp_path / name, COLORS[label], seed=i)
        split = ("train", "train", "train", "val", "test")[i % 5]
        listed.append({"path": name, "label": label, "split": split, "place": str(i % 3)})
    listed[7]["place"] = ""
    return listed


def write(path, rows, encoding="utf-8"):
    heads = list(rows[0])
    lines = [",".join(heads), *(",".join(str(row[h]) for h in heads) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def read(table, preparation=SMALL, encoding="utf8", **columns):
    choices = {"preparation": preparation, "shares": Shares(), "columns": ImageColumns(**columns)}
    return load(table, 0, **choices, encoding=encoding)


def test_a_csv_with_splits_and_attributes(tmp_path, rows):
    task = read(write(tmp_path / "list.csv", rows), attributes=("place",))
    assert task.class_names == ("cat", "dog")
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 18, "val": 6, "test": 6}
    assert task.attribute_values == {"place": ("0", "1", "2", "(missing)")}
    assert sum((s.attributes["place"] == 3).sum() for s in task.splits().values()) == 1
    redder = task.train.inputs.take(np.arange(18)).mean(dim=(2, 3))
    assert ((redder[:, 0] > redder[:, 2]).numpy() == (task.train.labels == 0)).all()


def test_only_named_columns_are_attributes(tmp_path, rows):
    assert read(write(tmp_path / "list.csv", rows)).train.attributes is None


def test_a_parquet_with_columns_of_other_names_and_no_split(tmp_path, rows):
    table = pa.table({"where": [r["path"] for r in rows], "animal": [r["label"] for r in rows]})
    pq.write_table(table, tmp_path / "list.parquet")
    source = locate(str(tmp_path / "list.parquet"), settings={"path": "where"})
    assert source.kind == "manifest"
    task = read(tmp_path / "list.parquet", path="where", label="animal")
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 22, "val": 4, "test": 4}


def test_numbers_are_classes_in_the_order_of_their_size(tmp_path, rows):
    for row in rows:
        row["label"] = {"cat": 10, "dog": 9}[row["label"]]
    assert read(write(tmp_path / "list.csv", rows)).class_names == ("9", "10")


def test_a_column_that_does_not_exist_offers_the_nearest(tmp_path, rows):
    path = write(tmp_path / "list.csv", rows)
    with pytest.raises(InputError, match="'place'"):
        read(path, attributes=("plase",))
    with pytest.raises(InputError, match="'label'"):
        read(path, label="labell")
    write(path, [{"file": r["path"], "animal": r["label"]} for r in rows])
    with pytest.raises(InputError, match=r"no column called 'label': name the one with --label"):
        read(path)


def test_missing_labels_are_counted_with_their_rows(tmp_path, rows):
    rows[3]["label"] = rows[11]["label"] = ""
    with pytest.raises(DataError, match=r"'label' in 2 of 30 rows \(5, 13\)"):
        read(write(tmp_path / "list.csv", rows))


def test_missing_files_are_listed_once_with_their_rows(tmp_path, rows):
    for i in (2, 4):
        (tmp_path / rows[i]["path"]).unlink()
    path = write(tmp_path / "list.csv", rows)
    with pytest.raises(DataError, match=r"2 of 30 .*images/02.png \(row 4\), images/04.png"):
        read(path)
    with pytest.warns(SpareWarning, match="2 of 30 images are left out"):
        task = read(path, Preparation(resize=12, crop=12, skip_bad=True))
    assert sum(len(s) for s in task.splits().values()) == 28


def test_many_missing_files_are_listed_in_a_file(tmp_path, rows):
    more = [dict(row, path=f"gone/{i}.png") for i, row in enumerate(rows)]
    with pytest.raises(DataError, match="and 20 more") as caught:
        read(write(tmp_path / "list.csv", rows + more))
    listed = next((tmp_path / "cache" / "images").glob("missing-*.txt")).read_text()
    assert str(tmp_path / "cache") in str(caught.value)
    assert listed.count("gone/") == 30
    assert "gone/29.png (row 61)" in listed


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "images/../../secret.png"])
def test_a_path_out_of_the_root_is_refused(tmp_path, rows, name):
    (tmp_path / "in").mkdir()
    os.rename(tmp_path / "images", tmp_path / "in" / "images")
    picture(tmp_path / "secret.png", (1, 2, 3))
    rows[0]["path"] = name
    path = write(tmp_path / "in" / "list.csv", rows)
    with pytest.raises(DataError, match=r"row 2\) leads out of"):
        read(path)
    if "secret" in name:
        task = read(path, allow_outside=True)
        assert sum(len(s) for s in task.splits().values()) == 30


def test_duplicates_are_used_once_and_contradictions_refused(tmp_path, rows):
    path = write(tmp_path / "list.csv", [*rows, rows[0]])
    with pytest.warns(SpareWarning, match="1 paths more than once"):
        task = read(path)
    assert sum(len(s) for s in task.splits().values()) == 30
    with pytest.raises(DataError, match="another label"):
        read(write(path, [*rows, dict(rows[0], label="dog")]))
    with pytest.raises(DataError, match="another split"):
        read(write(path, [*rows, dict(rows[0], split="test")]))


def test_text_that_is_not_utf8(tmp_path, rows):
    rows[0]["label"] = rows[2]["label"] = "caf\xe9"
    path = write(tmp_path / "list.csv", rows, encoding="latin-1")
    with pytest.raises(DataError, match=r"not UTF-8 .* --set encoding=latin-1"):
        read(path)
    assert "caf\xe9" in read(path, encoding="latin-1").class_names


def test_an_unknown_split_is_refused(tmp_path, rows):
    rows[4]["split"] = "holdout"
    with pytest.raises(DataError, match=r"'holdout' for a split: use train, val and test"):
        read(write(tmp_path / "list.csv", rows))


def test_files_that_are_not_tables_are_refused(tmp_path):
    (tmp_path / "list.csv").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read as a table"):
        locate(str(tmp_path / "list.csv"))
    (tmp_path / "list.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="cannot be read as a table"):
        locate(str(tmp_path / "list.parquet"))
    (tmp_path / "list.csv").write_text("path,label\n")
    with pytest.raises(DataError, match="has no rows"):
        read(tmp_path / "list.csv")


def test_long_lists_are_checked_folder_by_folder_not_file_by_file(tmp_path, monkeypatch):
    names = [f"p/{i % 7}/{i}.jpg" for i in range(20_000)]
    pq.write_table(
        pa.table({"path": names, "label": np.arange(20_000) % 10}), tmp_path / "list.parquet"
    )
    looked_at = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: looked_at.append(place) or scan(place))
    with pytest.raises(DataError, match="20,000 of 20,000 image files are missing"):
        read(tmp_path / "list.parquet")
    assert len(looked_at) == 7
