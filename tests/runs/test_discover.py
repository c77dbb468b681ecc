"""`spare discover` and `spare train` on someone's own data, without any group label."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import spare
from spare.errors import DataError, InputError, Interrupted, RunError
from spare.progress import Progress
from tests.pictures import picture
from tests.walks import discover, run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def embeddings(tmp_path):
    """Two classes told apart by column 0, and in training easier, but wrongly, by column 1."""
    rng = np.random.default_rng(0)
    n = 600
    label = np.arange(n) % 2
    split = np.where(np.arange(n) < 400, 0, np.where(np.arange(n) < 500, 1, 2))
    share = np.where(split == 0, 0.9, 0.5)
    place = np.where(rng.random(n) < share, label, 1 - label)
    points = rng.normal(0, 0.5, (n, 6))
    points[:, 0] += label * 1.5
    points[:, 1] += place * 6
    path = tmp_path / "own.npz"
    np.savez(path, features=points, label=label, split=split, place=place)
    return path


FAST = {"epochs": "6", "lr": "0.05", "batch_size": "32"}


def test_embeddings_are_explored_without_any_group_label(tmp_path, embeddings):
    folder = tmp_path / "found"
    record = discover(str(embeddings), 0, folder, overrides=FAST)
    assert set(record["discovery"]) == {"0", "1"}
    assert "recall" not in record["discovery"]["0"]
    rows = pq.read_table(folder / "groups.parquet").to_pydict()
    assert len(rows["id"]) == 400
    assert sum(rows["probability"]) == pytest.approx(1)
    others = pq.read_table(folder / "held_out_groups.parquet").to_pydict()
    assert [others["split"].count(s) for s in ("val", "test")] == [100, 100]
    assert set(others["cluster"]) <= set(rows["cluster"])
    assert json.loads((folder / "discovery.json").read_text()) == record
    assert not list(folder.glob("*.checkpoint"))
    again = discover(str(embeddings), 0, folder, overrides=FAST)
    assert again == record


def test_attributes_only_score(tmp_path, embeddings):
    blind = discover(str(embeddings), 0, tmp_path / "blind", overrides=FAST)
    named = discover(
        str(embeddings), 0, tmp_path / "named", overrides=FAST | {"attributes": "place"}
    )
    assert named["discovery"]["0"]["sizes"] == blind["discovery"]["0"]["sizes"]
    assert named["discovery"]["0"]["recall"] is not None
    assert blind["associations"] == []
    (place,) = named["associations"]
    assert place["attribute"] == "place"
    assert place["v"] > 0.5
    assert set(place["classes"]) == {"0", "1"}


def test_the_record_says_what_each_cluster_is_taken_for_and_the_table_agrees(tmp_path, embeddings):
    folder = tmp_path / "found"
    once_ = FAST | {"cross_fit": "0", "early_budget": "0"}
    record = discover(str(embeddings), 0, folder, overrides=once_)
    rows = pq.read_table(folder / "groups.parquet").to_pydict()
    ids, labels, predicted = (np.array(rows[name]) for name in ("cluster", "label", "predicted"))
    group = 0
    for name, seen in record["discovery"].items():
        assert [cluster["size"] for cluster in seen["clusters"]] == seen["sizes"]
        assert [one["epoch"] for one in seen["by_epoch"]] == [2, 4]  # of 13 steps each
        when = record["notes"]["separated_at_by_class"][name]
        chosen = next(look for look in seen["by_epoch"] if look["epoch"] == when)
        for place, cluster in enumerate(seen["clusters"]):
            own = ids == group
            assert set(labels[own]) == {name}
            assert cluster["accuracy"] == pytest.approx((predicted[own] == name).mean())
            assert cluster["confidence"] == pytest.approx(np.array(rows["confidence"])[own].mean())
            assert chosen["accuracy"][place] == cluster["accuracy"]
            group += 1
        spread = np.array([rows["x"], rows["y"]])[:, labels == name].std(1)
        assert spread[0] >= spread[1]
    large, small = record["discovery"]["0"]["clusters"][:2]
    assert small["accuracy"] < large["accuracy"] - 0.2
    assert small["mistaken_for"] == "1"


def test_training_without_known_groups_is_scored_on_inferred_ones_by_that_name(
    tmp_path, embeddings
):
    record = run(str(embeddings), "spare", 0, tmp_path / "run", overrides=FAST)
    assert record["groups_known"] is False
    assert record["selection"] == "last"
    score = record["scores"]["test"]["selected"]
    assert set(score["groups"]) == {"0", "1"}  # classes, not groups
    assert all("cluster" in name for name in score["inferred"]["groups"])
    assert score["inferred"]["worst_group"] <= score["worst_group"] + 1e-9
    plain = run(str(embeddings), "erm", 0, tmp_path / "erm", overrides=FAST)
    assert plain["selection"] == "last"
    assert "inferred" not in plain["scores"]["test"]["selected"]


def test_given_outputs_are_clustered_as_they_are_and_cannot_be_trained_on(tmp_path):
    rng = np.random.default_rng(0)
    label = np.arange(300) % 2
    sure = np.where(rng.random(300) < 0.9, 0.95, 0.1)
    outputs = np.stack([np.where(label == 0, sure, 1 - sure), np.where(label == 1, sure, 1 - sure)])
    np.savez(tmp_path / "o.npz", outputs=outputs.T, y=label)
    record = discover(str(tmp_path / "o.npz"), 0, tmp_path / "found")
    assert record["notes"]["separated_at"] is None
    sizes = record["discovery"]["0"]["sizes"]
    kept = np.isin(sure[label == 0], 0.95).sum()
    assert sizes[0] < kept  # some of them are held out
    assert len(sizes) == 2
    logits = np.log(outputs.T)
    np.savez(tmp_path / "l.npz", outputs=logits, y=label)
    same = discover(str(tmp_path / "l.npz"), 0, tmp_path / "logits")
    assert same["discovery"]["0"]["sizes"] == sizes
    with pytest.raises(InputError, match="a model's outputs"):
        run(str(tmp_path / "o.npz"), "spare", 0, tmp_path / "run")


def test_images_get_one_sheet_per_class_with_one_row_per_cluster(tmp_path):
    rng = np.random.default_rng(1)
    for i in range(80):
        kind = ("cat", "dog")[i % 2]
        own = rng.random() < 0.85
        red = (kind == "cat") == own
        picture(tmp_path / "pets" / kind / f"{i:02d}.png", (220, 30, 30) if red else (30, 30, 220),
                size=16 if red else 24, seed=i)  # fmt: skip
    small = {"model": "small_cnn", "resize": "16", "crop": "16", "epochs": "3", "lr": "0.02"}
    folder = tmp_path / "found"
    found = spare.discover(tmp_path / "pets", out=folder, **small)
    record = found.record
    assert set(found.sheets()) == {"cat", "dog"}
    strength = {one["attribute"]: one["v"] for one in record["associations"]}
    assert strength["image: red"] > 0.8
    assert strength["image: size"] > 0.8  # red ones are small
    assert "image: shape" not in strength  # all are square
    for name, sheet in found.sheets().items():
        with Image.open(sheet) as image:
            pixels = np.asarray(image)
        k = record["discovery"][name]["k"]
        assert pixels.shape[0] == k * 100
        # The sheet's first row shows mostly the class's own color, its last mostly the other.
        tops = [pixels[row * 100 : row * 100 + 96].reshape(-1, 3) for row in (0, k - 1)]
        reds = [(row[:, 0].astype(int) - row[:, 2] > 40).sum() for row in tops]
        blues = [(row[:, 2].astype(int) - row[:, 0] > 40).sum() for row in tops]
        if name == "cat":
            assert reds[0] > blues[0]
        else:
            assert blues[0] > reds[0]


def test_a_stopped_discovery_goes_on_and_changed_data_is_noticed(tmp_path, embeddings):
    steps = iter(range(100_000))
    with pytest.raises(Interrupted):
        discover(
            str(embeddings), 0, tmp_path / "found", overrides=FAST,
            progress=Progress(should_stop=lambda: next(steps) == 5),
        )  # fmt: skip
    assert (tmp_path / "found.partial").exists()
    record = discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)
    undisturbed = discover(str(embeddings), 0, tmp_path / "other", overrides=FAST)
    assert record["discovery"] == undisturbed["discovery"]
    with np.load(embeddings) as old:
        np.savez(embeddings, **{**old, "features": old["features"] + 1})
    with pytest.raises(RunError, match="before the data, or a file that a setting names, changed"):
        discover(str(embeddings), 0, tmp_path / "found", overrides=FAST)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(DataError, match="there is no file or folder"):
        discover(str(tmp_path / "gone.npz"), 0, tmp_path / "x")
    with pytest.raises(InputError, match="did you mean 'waterbirds'"):
        discover("waterbird", 0, tmp_path / "x")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="is not of a kind that can be read"):
        discover(str(tmp_path / "notes.txt"), 0, tmp_path / "x")
