"""Drawn data sets: official layouts, reproducible bytes, complete folders."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spare.datasets import locate
from spare.errors import InputError, RunError
from spare.images.imagenet import RANGES
from spare.progress import Progress
from spare.synthetic.counts import group_counts
from spare.synthetic.layouts import (
    ATTRIBUTES,
    DRAWN,
    SPLITS,
    draw_celeba,
    draw_restricted_imagenet,
    draw_urbancars,
    draw_waterbirds,
    numbered,
)

TINY = {
    "urbancars": {"size": 32, "per_class": 20, "held_out": 2},
    "waterbirds": {"size": 32, "majority": 3, "per_group": 2},
    "celeba": {"majority": 2, "per_group": 1},
    "restricted_imagenet": {"size": 16, "train": 1, "val": 1},
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "JPEG"
        return np.asarray(image.convert("RGB"), dtype=float)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_training_counts_are_the_official_ones():
    assert group_counts(4000, 0.95, 0.95) == [3610, 190, 190, 10, 10, 190, 190, 3610]


@pytest.mark.parametrize("shares", [(0.95, 0.9), (0.995, 0.995), (0.7, 0.99), (0.5, 0.5), (1, 0.8)])
@pytest.mark.parametrize("per_class", [4, 37, 200])
def test_training_counts_sum_up_and_leave_no_group_empty(per_class, shares):
    background, co_object = shares
    counts = group_counts(per_class, background, co_object)
    assert sum(counts[:4]) == sum(counts[4:]) == per_class
    assert counts[:4] == counts[:3:-1]  # the classes mirror each other
    ideal = np.outer([background, 1 - background], [co_object, 1 - co_object]).ravel() * per_class
    assert [n > 0 for n in counts[:4]] == [share > 0 for share in ideal]
    assert np.all(np.abs(counts[:4] - ideal) <= 3)


def test_too_few_images_for_the_groups():
    with pytest.raises(InputError, match="per_class=3 is too few"):
        draw_urbancars(Path("never made"), per_class=3)


@pytest.fixture(scope="module")
def cars(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "cars"
    return draw_urbancars(folder, per_class=80, held_out=24, background=0.9, co_object=0.75)


def test_urbancars_layout(cars):
    sizes = {"train": (54, 18, 6, 2), "val": (24,) * 4, "test": (24,) * 4}
    expected = {}
    for split, counts in sizes.items():
        top = "bg-0.9_co_occur_obj-0.75" if split == "train" else "bg-0.5_co_occur_obj-0.5"
        for obj in ("urban", "country"):
            other = {"urban": "country", "country": "urban"}[obj]
            for n, (bg, co) in zip(
                counts, [(obj, obj), (obj, other), (other, obj), (other, other)], strict=True
            ):
                expected[f"{top}/{split}/obj-{obj}_bg-{bg}_co_occur_obj-{co}"] = n
    files_in = {
        str(path.relative_to(cars)): sorted(file.name for file in path.iterdir())
        for path in cars.glob("*/*/*")
    }
    assert {name: len(files) for name, files in files_in.items()} == expected
    assert all(files == [f"{i:03d}.jpg" for i in range(len(files))] for files in files_in.values())
    assert not list(cars.parent.glob("*.partial"))


def test_numbers_sort_in_drawing_order():
    assert [numbered(0, 10), numbered(9, 10), numbered(999, 1000)] == [
        "000.jpg",
        "009.jpg",
        "999.jpg",
    ]
    names = [numbered(i, 3610) for i in range(3610)]
    assert names == sorted(names)


def region(images: list[np.ndarray], rows: slice, columns: slice) -> np.ndarray:
    """Mean color of a part of each image."""
    return np.stack([image[rows, columns].mean((0, 1)) for image in images])


def test_background_colors_tell_the_background_and_nothing_else(cars):
    images, about = [], []
    for path in sorted((cars / "bg-0.5_co_occur_obj-0.5").glob("*/*/*.jpg")):
        image = pixels(path)
        assert image.shape == (64, 64, 3)
        images.append(image)
        about.append([part.endswith("urban") for part in _parts(path.parent.name)])
    car, background, thing = np.array(about).T
    ground = region(images, slice(44, 64), slice(0, 64))
    greenness = ground.max(1) - ground.min(1)  # a road is gray, a field is not

    def accuracy(truth: np.ndarray) -> float:
        cuts = np.sort(greenness)
        return max(
            max(np.mean((greenness < c) == truth), 1 - np.mean((greenness < c) == truth))
            for c in cuts
        )

    assert accuracy(background) > 0.85
    assert accuracy(car) < 0.65
    assert accuracy(thing) < 0.65


def _parts(name: str) -> tuple[str, str, str]:
    rest, thing = name.rsplit("_co_occur_", 1)
    car, background = rest.rsplit("_bg-", 1)
    return car, background, thing


def test_car_in_the_middle_and_object_at_the_right_edge(cars):
    """Where the mean pictures of two groups differ says where the group's feature is."""

    def mean(obj: str, bg: str, co: str) -> np.ndarray:
        name = f"obj-{obj}_bg-{bg}_co_occur_obj-{co}"
        files = sorted((cars / "bg-0.5_co_occur_obj-0.5").glob(f"*/{name}/*.jpg"))
        return np.mean([pixels(path) for path in files], axis=0)

    names = ("urban", "country")
    thing = sum(mean(obj, bg, "urban") - mean(obj, bg, "country") for obj in names for bg in names)
    size = np.abs(thing).mean(2)
    assert size[22:42, 48:].mean() > 1.5 * size[:, :44].mean()
    shape = sum(mean("urban", bg, co) - mean("country", bg, co) for bg in names for co in names)
    size = np.abs(shape).mean(2)
    assert size[22:40, 16:48].mean() > 1.5 * np.delete(size, np.s_[16:48], axis=1).mean()


@pytest.mark.parametrize("name", DRAWN)
def test_the_same_options_give_the_same_bytes_and_another_seed_gives_others(name, tmp_path):
    first = contents(DRAWN[name](tmp_path / "a", **TINY[name]))
    assert contents(DRAWN[name](tmp_path / "b", **TINY[name])) == first
    other = contents(DRAWN[name](tmp_path / "c", **TINY[name], seed=1))
    assert other.keys() == first.keys()
    images = [key for key in first if key.lower().endswith(("jpg", "jpeg"))]
    assert len({first[key] for key in images}) == len(images)
    assert not {first[key] for key in images} & {other[key] for key in images}


def test_a_picture_does_not_depend_on_how_many_there_are(tmp_path):
    few = contents(draw_urbancars(tmp_path / "few", size=32, per_class=20, held_out=1))
    many = contents(draw_urbancars(tmp_path / "many", size=32, per_class=60, held_out=3))
    shared = [key for key in few if key.endswith(".jpg")]
    assert len(shared) == 40 + 16
    assert all(many[key] == few[key] for key in shared)


def in_split(folder: Path, name: str, split: str) -> list[bytes]:
    """The pictures of a split, in the order of their names."""
    if name == "urbancars":
        files = sorted(folder.glob(f"*/{split}/*/*.jpg"))
    elif name == "celeba":
        rows = table(folder / "list_eval_partition.csv")
        files = [
            folder / "img_align_celeba" / row["image_id"]
            for row in rows
            if SPLITS[int(row["partition"])] == split
        ]
    else:
        rows = table(folder / "metadata.csv")
        files = [folder / row["img_filename"] for row in rows if SPLITS[int(row["split"])] == split]
    return [path.read_bytes() for path in files]


@pytest.mark.parametrize("name", ["urbancars", "waterbirds", "celeba"])
def test_validation_like_training_changes_neither_training_nor_test(name, tmp_path):
    usual, biased = (tmp_path / like / name for like in ("test", "train"))
    DRAWN[name](usual, **TINY[name])
    DRAWN[name](biased, **TINY[name], val_like="train")
    for split in ("train", "test"):
        assert in_split(biased, name, split) == in_split(usual, name, split) != []
    assert in_split(biased, name, "val") != in_split(usual, name, "val")
    assert "val_like" not in json.loads((usual / "drawn.json").read_text())["options"]
    assert json.loads((biased / "drawn.json").read_text())["options"]["val_like"] == "train"
    # A run on the one is not taken for a run on the other.
    assert locate(name, usual.parent).fingerprint == ""
    assert locate(name, biased.parent).fingerprint != ""
    with pytest.raises(InputError, match="val_like"):
        DRAWN[name](tmp_path / "other", **TINY[name], val_like="trainn")


def test_validation_like_training_has_its_shares(tmp_path):
    cars = draw_urbancars(tmp_path / "cars", size=16, per_class=40, held_out=10, val_like="train")
    counts = [len(list(folder.iterdir())) for folder in sorted(cars.glob("bg-0.95*/val/*"))]
    assert sorted(counts, reverse=True) == [36, 36, 2, 2, 1, 1, 1, 1]
    birds = draw_waterbirds(tmp_path / "birds", **TINY["waterbirds"], val_like="train")
    rows = [
        (row["y"], row["place"]) for row in table(birds / "metadata.csv") if row["split"] == "1"
    ]
    assert sorted(rows.count((y, place)) for y in "01" for place in "01") == [2, 2, 3, 3]


@pytest.mark.parametrize("name", ["urbancars", "celeba"])
def test_an_interruption_leaves_no_folder_and_the_next_call_completes_it(name, tmp_path):
    complete = contents(DRAWN[name](tmp_path / "complete", **TINY[name]))

    def interrupt(what: str, done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    folder = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        DRAWN[name](folder, **TINY[name], progress=Progress(interrupt))
    assert not folder.exists()
    partial = tmp_path / "data.partial"
    (partial / "left over.jpg").write_bytes(b"half")
    assert contents(DRAWN[name](folder, **TINY[name])) == complete
    assert not partial.exists()


def test_progress_ends_at_the_number_of_images(tmp_path):
    steps = []
    draw_urbancars(
        tmp_path / "cars",
        **TINY["urbancars"],
        progress=Progress(lambda what, done, total: steps.append((done, total))),
    )
    assert steps == [(0, 72), (50, 72), (72, 72)]
    assert len(list(tmp_path.rglob("*.jpg"))) == 72


def test_a_complete_folder_is_left_alone(tmp_path):
    folder = draw_waterbirds(tmp_path / "birds", **TINY["waterbirds"])
    image = next(folder.rglob("*.jpg"))
    image.write_bytes(b"touched")
    assert draw_waterbirds(folder, **TINY["waterbirds"]) == folder
    assert image.read_bytes() == b"touched"


def test_other_options_and_foreign_files_are_refused(tmp_path):
    folder = draw_waterbirds(tmp_path / "birds", **TINY["waterbirds"])
    before = contents(folder)
    with pytest.raises(InputError, match=r"other options \(seed is 0 there and 1 here.*delete it"):
        draw_waterbirds(folder, **TINY["waterbirds"], seed=1)
    with pytest.raises(InputError, match=r"drawn is 'waterbirds' there and 'celeba' here"):
        draw_celeba(folder)
    assert contents(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").write_bytes(b"holiday")
    with pytest.raises(InputError, match="not drawn here"):
        draw_celeba(tmp_path / "mine")
    (tmp_path / "mine").rename(tmp_path / "new.partial")
    with pytest.raises(InputError, match=r"new\.partial is in the way"):
        draw_celeba(tmp_path / "new")
    assert contents(tmp_path / "new.partial") == {"photo.jpg": b"holiday"}
    with pytest.raises(InputError, match="is a file"):
        draw_celeba(tmp_path / "new.partial" / "photo.jpg")


def test_a_second_process_does_not_mix_its_files_in(tmp_path, monkeypatch):
    monkeypatch.setattr("spare.files.building.LOCK_SECONDS", 0.2)

    def again(what: str, done: int, total: int) -> None:
        with pytest.raises(RunError, match="another process is drawing"):
            draw_celeba(tmp_path / "faces", **TINY["celeba"])

    draw_celeba(tmp_path / "faces", **TINY["celeba"], progress=Progress(again))
    assert [path.name for path in tmp_path.iterdir()] == ["faces"]
    assert not (tmp_path / "faces" / ".lock").exists()


def test_a_second_process_that_waited_finds_it_drawn(tmp_path):
    def not_again(what: str, done: int, total: int) -> None:
        raise AssertionError("drawn a second time")

    def draw_it(report: Callable[[str, int, int], None]) -> Path:
        return draw_celeba(tmp_path / "faces", **TINY["celeba"], progress=Progress(report))

    with ThreadPoolExecutor(1) as others:
        waiting = []

        def another_comes(what: str, done: int, total: int) -> None:
            if done == total:
                waiting.append(others.submit(draw_it, not_again))
                time.sleep(0.3)  # it meets the lock
                assert not waiting[0].done()

        draw_it(another_comes)
        assert waiting[0].result() == tmp_path / "faces"
    assert [path.name for path in tmp_path.iterdir()] == ["faces"]
    assert not (tmp_path / "faces" / ".lock").exists()


def test_the_current_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="the folder you are in"):
        draw_celeba(Path("."), **TINY["celeba"])


def test_an_empty_folder_is_filled(tmp_path):
    folder = tmp_path / "faces"
    folder.mkdir()
    draw_celeba(folder, **TINY["celeba"])
    about = json.loads((folder / "drawn.json").read_text())
    assert about["drawn"] == "celeba"
    assert about["options"] == {**TINY["celeba"], "seed": 0}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("urbancars", {"background": 1.2}, "background is from 0 to 1, not 1.2"),
        ("urbancars", {"size": 8}, "size is from 16"),
        ("urbancars", {"seed": -1}, "seed is from 0"),
        ("waterbirds", {"per_group": 0}, "per_group is from 1"),
        ("celeba", {"majority": 0}, "majority"),
        ("restricted_imagenet", {"val": 0}, "val"),
    ],
)
def test_options_are_checked_before_anything_is_written(name, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        DRAWN[name](tmp_path / "data", **options)
    assert not list(tmp_path.iterdir())


def test_waterbirds_layout_and_colors(tmp_path):
    folder = draw_waterbirds(tmp_path / "birds", size=40, majority=12, per_group=4)
    rows = table(folder / "metadata.csv")
    assert list(rows[0]) == ["img_id", "img_filename", "y", "split", "place", "place_filename"]
    assert [int(row["img_id"]) for row in rows] == list(range(1, len(rows) + 1))
    keys = [tuple(int(row[name]) for name in ("split", "y", "place")) for row in rows]
    for split in range(3):
        for y in range(2):
            for place in range(2):
                n = 12 if split == 0 and y == place else 4
                assert keys.count((split, y, place)) == n
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.jpg")}
    assert {row["img_filename"] for row in rows} == files
    images = [pixels(folder / row["img_filename"]) for row in rows]
    assert {image.shape for image in images} == {(40, 50, 3)}
    ground = region(images, slice(30, 40), slice(0, 50))
    wet = np.array([row["place"] == "1" for row in rows])
    assert np.mean((ground[:, 2] > ground[:, 0]) == wet) > 0.95  # water is bluer than red


def test_celeba_layout_and_colors(tmp_path):
    folder = draw_celeba(tmp_path / "faces", majority=3, per_group=2)
    rows = table(folder / "list_attr_celeba.csv")
    parts = table(folder / "list_eval_partition.csv")
    assert list(rows[0]) == ["image_id", *ATTRIBUTES]
    assert len(ATTRIBUTES) == len(set(ATTRIBUTES)) == 40
    assert {row[name] for row in rows for name in ATTRIBUTES} == {"-1", "1"}
    names = [f"{i + 1:06d}.jpg" for i in range(len(rows))]
    assert [row["image_id"] for row in rows] == [row["image_id"] for row in parts] == names
    assert sorted(path.name for path in (folder / "img_align_celeba").iterdir()) == names
    keys = [
        (int(part["partition"]), row["Blond_Hair"], row["Male"])
        for row, part in zip(rows, parts, strict=True)
    ]
    assert keys.count((0, "1", "1")) == 2
    assert keys.count((0, "-1", "1")) == keys.count((0, "1", "-1")) == 3
    assert keys.count((1, "1", "1")) == keys.count((2, "-1", "-1")) == 2
    images = [pixels(folder / "img_align_celeba" / name) for name in names]
    assert {image.shape for image in images} == {(218, 178, 3)}
    bright = region(images, slice(45, 58), slice(80, 98)).mean(1)  # the hair above the forehead
    blond = np.array([row["Blond_Hair"] == "1" for row in rows])
    assert bright[blond].min() > bright[~blond].max()


def test_restricted_imagenet_layout(tmp_path):
    folder = draw_restricted_imagenet(tmp_path / "animals", size=16, train=2, val=1)
    for split, n in (("train", 2), ("val", 1)):
        wnids = sorted(path.name for path in (folder / split).iterdir())
        assert len(wnids) == 1000
        assert {len(wnid) for wnid in wnids} == {9}
        assert wnids[0] == "n01440764"
        inside = {i for first, last in RANGES.values() for i in range(first, last + 1)}
        counts = [len(list((folder / split / wnid).glob("*.JPEG"))) for wnid in wnids]
        assert counts == [n if i in inside else 0 for i in range(1000)]
    images = list(folder.rglob("*.JPEG"))
    assert len({path.name for path in images}) == len(images)
    assert pixels(images[0]).shape == (16, 16, 3)
