"""One folder per class, mapping files, and what people do to folders of images."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from spare.datasets.folder import load
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, SpareWarning
from tests.pictures import picture, picture_folder

SMALL = Preparation(resize=16, crop=16)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


def read(path, classes="", preparation=SMALL, **more):
    return load(path, 0, preparation=preparation, shares=Shares(), classes=classes, **more)


def test_one_folder_per_class_with_stratified_splits(tmp_path):
    task = read(picture_folder(tmp_path / "pets", {"cat": 20, "dog": 40}))
    assert task.class_names == ("cat", "dog")
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 42, "val": 9, "test": 9}
    assert np.bincount(task.val.labels).tolist() == [3, 6]
    assert task.names["train"][0].startswith("cat/")
    assert task.train.attributes is None
    # The pixels are those of the named file: cats are red.
    pixels = task.train.inputs.take(np.arange(len(task.train)))
    redder = (pixels[:, 0] > pixels[:, 2]).float().mean(dim=(1, 2)) > 0.5
    assert (redder.numpy() == (task.train.labels == 0)).all()


def test_only_the_split_seed_changes_the_division(tmp_path):
    root = picture_folder(tmp_path / "pets", {"cat": 20, "dog": 20})
    first = read(root).names
    assert load(root, 5, preparation=SMALL, shares=Shares()).names == first
    assert load(root, 0, preparation=SMALL, shares=Shares(split_seed=1)).names != first


def test_train_val_and_test_folders_are_the_splits(tmp_path):
    root = picture_folder(tmp_path / "p", {"train/cat": 5, "train/dog": 4, "valid/cat": 2,
                                           "valid/dog": 2, "test/dog": 3})  # fmt: skip
    task = read(root)
    assert {n: len(s) for n, s in task.splits().items()} == {"train": 9, "val": 4, "test": 3}


def test_a_missing_val_split_is_taken_from_training_and_a_missing_test_split_warned_of(tmp_path):
    root = picture_folder(tmp_path / "p", {"train/cat": 20, "train/dog": 20})
    with pytest.warns(SpareWarning) as caught:
        task = read(root)
    warned = " ".join(str(w.message) for w in caught)
    assert "no val split" in warned
    assert "no test split" in warned
    assert task.test is None
    assert len(task.val) == 6


@pytest.mark.parametrize("kind", ["json", "toml", "csv"])
def test_a_mapping_merges_folders_and_warns_of_those_it_leaves_out(tmp_path, kind):
    root = picture_folder(tmp_path / "p", {"cat": 8, "dog": 8, "fox": 8})
    picture_folder(root, {"cat": 8})
    (root / "cow").mkdir()
    for i in range(3):
        picture(root / "cow" / f"{i}.png", (9, 9, 9), seed=i)
    text = {
        "json": json.dumps({"wild": ["fox"], "pet": ["cat", "dog"]}),
        "toml": 'wild = ["fox"]\npet = ["cat", "dog"]\n',
        "csv": "folder,class\nfox,wild\ncat,pet\ndog,pet\n",
    }[kind]
    file = tmp_path / f"classes.{kind}"
    file.write_text(text)
    with pytest.warns(SpareWarning, match=r"1 of 4 folders .* cow"):
        task = read(root, str(file))
    assert task.class_names == ("wild", "pet")
    together = sum(np.bincount(s.labels, minlength=2) for s in task.splits().values())
    assert together.tolist() == [8, 16]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"pet": ["cat", "dgo"]}', "'dog'"),
        ('{"pet": ["cat"], "wild": ["cat"]}', "two classes"),
        ('{"pet": "cat"}', "should say"),
        ("{", "cannot be read"),
    ],
)
def test_mistakes_in_a_mapping_are_refused(tmp_path, text, says):
    root = picture_folder(tmp_path / "p", {"cat": 3, "dog": 3})
    file = tmp_path / "classes.json"
    file.write_text(text)
    with pytest.raises((DataError, InputError), match=says):
        read(root, str(file))


def test_an_empty_folder_one_class_and_a_class_in_test_only(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in folders of classes"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="only one class"):
        read(picture_folder(tmp_path / "one", {"cat": 9}))
    root = picture_folder(tmp_path / "t", {"train/cat": 4, "train/dog": 4, "val/cat": 2,
                                           "val/dog": 1, "test/fox": 2})  # fmt: skip
    with pytest.raises(DataError, match=r"'fox' has no training example \(val has 0, test 2\)"):
        read(root)


def test_a_bad_image_stops_before_training_and_is_left_out_only_when_asked(tmp_path):
    root = picture_folder(tmp_path / "p", {"cat": 20, "dog": 20})
    (root / "cat" / "003.png").write_bytes(b"")
    (root / "dog" / "004.png").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"2 of 40 images .*cat/003.png \(empty file\)"):
        read(root)
    with pytest.warns(SpareWarning, match="2 of 40 images are left out"):
        task = read(root, preparation=Preparation(resize=16, crop=16, skip_bad=True))
    assert sum(len(s) for s in task.splits().values()) == 38
    assert all("cat/003.png" not in names for names in task.names.values())


def test_a_link_out_of_the_folder_is_refused_unless_allowed(tmp_path):
    root = picture_folder(tmp_path / "p", {"cat": 10, "dog": 10})
    outside = picture(tmp_path / "secret.png", (1, 2, 3))
    os.symlink(outside, root / "cat" / "zzz.png")
    with pytest.raises(DataError, match=r"cat/zzz.png leads out of .* --allow-outside"):
        read(root)
    assert sum(len(s) for s in read(root, allow_outside=True).splits().values()) == 21


def test_without_a_cache_the_same_pixels_are_decoded_every_time(tmp_path):
    root = picture_folder(tmp_path / "p", {"cat": 10, "dog": 10})
    kept, decoded = (
        read(root, preparation=Preparation(resize=16, crop=12, cache=cache))
        for cache in ("on", "off")
    )
    rows = np.arange(len(kept.train))
    assert not decoded.train.inputs.in_memory
    assert (kept.train.inputs.take(rows) == decoded.train.inputs.take(rows)).all()


def test_a_changed_image_is_decoded_again(tmp_path):
    root = picture_folder(tmp_path / "p", {"cat": 10, "dog": 10})
    before = read(root)
    name = before.names["train"][0]
    picture(root / name, (0, 255, 0), seed=99)
    after = read(root)
    assert after.names == before.names
    assert (after.train.inputs.take(np.arange(1)) != before.train.inputs.take(np.arange(1))).any()
    assert after.content != before.content
