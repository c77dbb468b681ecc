"""Hugging Face data sets saved on disk: the same task as from image files."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from spare.datasets import locate
from spare.datasets.huggingface import load
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, SpareWarning

datasets = pytest.importorskip("datasets")
SMALL = Preparation(resize=8, crop=8)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


def image(red: bool, seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 60, (8, 8, 3))
    noise[..., 0 if red else 2] += 150
    held = io.BytesIO()
    Image.fromarray(noise.astype(np.uint8)).save(held, format="PNG")
    return held.getvalue()


def part(n: int, offset: int = 0):
    kinds = datasets.Features(
        {
            "image": datasets.Image(),
            "animal": datasets.ClassLabel(names=["cat", "dog"]),
            "place": datasets.Value("string"),
        }
    )
    rows = range(offset, offset + n)
    return datasets.Dataset.from_dict(
        {
            "image": [{"bytes": image(i % 2 == 0, i), "path": None} for i in rows],
            "animal": [i % 2 for i in rows],
            "place": [("land", "sea", None)[i % 3] for i in rows],
        },
        features=kinds,
    )


def read(saved, **more):
    return load(saved, 0, preparation=SMALL, shares=Shares(), **more)


def test_a_saved_set_with_splits(tmp_path):
    splits = datasets.DatasetDict(
        {"train": part(20), "validation": part(6, 20), "test": part(4, 26)}
    )
    splits.save_to_disk(tmp_path / "saved")
    source = locate(str(tmp_path / "saved"))
    assert source.kind == "huggingface"
    task = read(source.path, attributes=("place",))
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 20, "val": 6, "test": 4}
    assert task.class_names == ("cat", "dog")
    assert task.attribute_values == {"place": ("(missing)", "land", "sea")}
    colors = task.val.inputs.take(np.arange(6)).mean(dim=(2, 3))
    assert ((colors[:, 0] > colors[:, 2]).numpy() == (task.val.labels == 0)).all()


def test_one_split_is_divided_and_columns_can_be_named(tmp_path):
    part(40).save_to_disk(tmp_path / "saved")
    task = read(tmp_path / "saved", path="image", label="animal")
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 28, "val": 6, "test": 6}
    with pytest.raises(InputError, match="'place'"):
        read(tmp_path / "saved", attributes=("places",))


def test_unknown_splits_and_data_sets_that_cannot_be_loaded_are_refused(tmp_path):
    datasets.DatasetDict({"train": part(4), "extra": part(4)}).save_to_disk(tmp_path / "saved")
    with pytest.raises(DataError, match="'extra'"):
        read(tmp_path / "saved")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "dataset_info.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be loaded"):
        read(tmp_path / "broken")


def test_a_bad_image_is_named_by_its_split_and_row(tmp_path):
    rows = part(20).cast_column("image", datasets.Image(decode=False)).to_dict()
    rows["image"][3] = {"bytes": b"nothing", "path": None}
    broken = datasets.Dataset.from_dict(rows, features=part(1).features)
    datasets.DatasetDict({"train": broken, "test": part(4)}).save_to_disk(tmp_path / "saved")
    with pytest.warns(SpareWarning), pytest.raises(DataError, match=r"train\[3\] \(not an image"):
        read(tmp_path / "saved")
