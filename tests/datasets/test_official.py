"""The paper's four image benchmarks from drawn sets in their official layouts."""

from __future__ import annotations

import gzip
import shutil
from functools import partial

import numpy as np
import pytest

from spare.datasets import (
    DATASETS,
    SOURCES,
    celeba,
    locate,
    restricted_imagenet,
    source_named,
    urbancars,
    waterbirds,
)
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, Interrupted, SpareWarning
from spare.images.imagenet import RANGES
from spare.progress import Progress
from spare.synthetic.layouts import (
    draw_celeba,
    draw_restricted_imagenet,
    draw_urbancars,
    draw_waterbirds,
)
from spare.training.metrics import true_minority

SMALL = Preparation(resize=32, crop=0, keep_aspect=False)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A data folder with a small drawn set in each of the four layouts."""
    data = tmp_path_factory.mktemp("data")
    draw_waterbirds(data / "waterbirds", size=24, majority=10, per_group=3)
    draw_celeba(data / "celeba", majority=4, per_group=2)
    draw_urbancars(data / "urbancars", size=24, per_class=20, held_out=2)
    draw_restricted_imagenet(data / "restricted_imagenet", size=24, train=1, val=2)
    return data


def sizes(task):
    return {name: len(split) for name, split in task.splits().items()}


def test_waterbirds(drawn):
    task = waterbirds.load(drawn, 0, preparation=SMALL)
    assert sizes(task) == {"train": 26, "val": 12, "test": 12}
    assert task.group_names == (
        "landbird/land", "landbird/water", "waterbird/land", "waterbird/water"
    )  # fmt: skip
    counts = np.bincount(task.groups(task.train))
    assert counts.tolist() == [10, 3, 3, 10]
    assert task.train.inputs.take(np.arange(2)).shape == (2, 3, 32, 32)


def test_waterbirds_real(real_data):
    """The real files: the official counts of training and validation, and no test split."""
    if waterbirds.find(real_data) is None:
        pytest.skip("the real Waterbirds is not on this machine")
    listing = waterbirds.listing_of(waterbirds.find(real_data))
    groups = 2 * listing.labels + listing.attributes["place"]
    assert np.bincount(groups[listing.splits == 0]).tolist() == [3498, 184, 56, 1057]
    assert np.bincount(groups[listing.splits == 1]).tolist() == [467, 466, 133, 133]


def test_counts_that_differ_and_missing_splits_are_warned_of(drawn, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(drawn / "waterbirds", data / "waterbirds")
    (data / "waterbirds" / "drawn.json").unlink()
    table = data / "waterbirds" / "metadata.csv"
    lines = table.read_text().splitlines()
    at = lines[0].split(",").index("split")
    table.write_text("\n".join([lines[0], *(x for x in lines[1:] if x.split(",")[at] != "2")]))
    with pytest.warns(SpareWarning) as caught:
        task = waterbirds.load(data, 0, preparation=SMALL)
    assert task.test is None
    warning = str(caught[0].message)
    assert "there is no test split" in warning
    assert "train waterbird/land has 3 instead of 56" in warning
    assert "test waterbird" not in warning


def test_celeba(drawn):
    task = celeba.load(
        drawn, 0, preparation=SMALL, shares=Shares(), target="Blond_Hair", attribute="Male"
    )
    assert task.class_names == ("not Blond_Hair", "Blond_Hair")
    assert np.bincount(task.groups(task.train)).tolist() == [4, 4, 4, 2]
    other = celeba.load(
        drawn, 0, preparation=SMALL, shares=Shares(), target="Male", attribute="Smiling"
    )
    assert other.class_names == ("not Male", "Male")
    with pytest.raises(InputError, match="'Smiling'"):
        celeba.load(
            drawn, 0, preparation=SMALL, shares=Shares(), target="Smilling", attribute="Male"
        )


def test_celebas_minority_is_what_contradicts_the_shortcut(drawn):
    task = celeba.load(drawn, 0, preparation=SMALL, shares=Shares())
    blond, male = task.train.labels, task.train.attributes["Male"]
    assert (true_minority(task, task.train) == (blond == male)).all()
    assert "Smiling" in task.facts
    assert "Male" not in task.facts
    assert len(task.facts["Smiling"]) == len(task.train)
    other = celeba.load(drawn, 0, preparation=SMALL, shares=Shares(), attribute="Smiling")
    assert other.shortcuts == {}


def test_some_of_celebas_images_are_divided_anew(drawn, tmp_path):
    root = tmp_path / "data" / "celeba"
    shutil.copytree(drawn / "celeba", root)
    official = celeba.listing_of(root, "Blond_Hair", "Male")
    for name in official.names[::3]:
        (root / "img_align_celeba" / name).unlink()
    load = partial(celeba.load, tmp_path / "data", 0, preparation=SMALL, split="own")
    task, again, other = (load(shares=Shares(0.25, 0.25, seed)) for seed in (0, 0, 1))
    names = [*task.names["train"], *task.names["val"], *task.names["test"]]
    assert sorted(names) == sorted(set(official.names) - set(official.names[::3]))
    assert task.names == again.names != other.names
    sizes = np.array([np.bincount(task.groups(s), minlength=4) for s in task.splits().values()])
    assert abs(sizes[1] - sizes[2]).max() <= 1  # every group by the same shares
    assert (sizes[0] >= sizes[1]).all()
    shutil.rmtree(root / "img_align_celeba")
    with pytest.raises(DataError, match="none of the images of list_attr_celeba is in"):
        load(shares=Shares())
    with pytest.raises(InputError, match="unknown split 'mine'"):
        celeba.load(drawn, 0, preparation=SMALL, shares=Shares(), split="mine")


def test_celebas_tables_with_spaces_and_gzipped(drawn, tmp_path):
    root = tmp_path / "data" / "celeba"
    shutil.copytree(drawn / "celeba", root)
    for name in celeba.TABLES:
        text = (root / f"{name}.csv").read_text()
        (root / f"{name}.csv").unlink()
        with gzip.open(root / f"{name}.csv.gz", "wt") as file:
            file.write(text.replace(",", " ") if "partition" in name else text)
    assert celeba.present(tmp_path / "data")
    listing = celeba.listing_of(root, "Blond_Hair", "Male")
    assert len(listing.names) == len(celeba.listing_of(drawn / "celeba", "Male", "Young").names)


def test_celebas_real_tables(real_data):
    if celeba._find(real_data / "celeba", "list_attr_celeba") is None:
        pytest.skip("CelebA's tables are not on this machine")
    listing = celeba.listing_of(real_data / "celeba", "Blond_Hair", "Male")
    groups = 2 * listing.labels + listing.attributes["Male"]
    assert np.bincount(groups[listing.splits == 0]).tolist() == [71629, 66874, 22880, 1387]
    assert np.bincount(groups[listing.splits == 2]).tolist() == [9767, 7535, 2480, 180]
    from spare.datasets.listing import group_counts

    assert group_counts(listing) == celeba.COUNTS


def test_urbancars(drawn):
    task = urbancars.load(drawn, 0, preparation=SMALL)
    assert sizes(task) == {"train": 40, "val": 16, "test": 16}
    assert task.shortcuts == {"bg": (0, 1), "co_occur_obj": (0, 1)}
    assert len(task.group_names) == 8
    assert np.bincount(task.groups(task.test)).tolist() == [2] * 8
    # Group index 4 obj + 2 bg + co, as the official code numbers them.
    first = task.names["train"][0]
    assert "obj-country_bg-country_co_occur_obj-country" in first
    assert task.groups(task.train)[0] == 7


def test_urbancars_ignores_masks_and_refuses_strange_folders(drawn, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(drawn / "urbancars", data / "urbancars")
    train = next((data / "urbancars").glob("*/train"))
    group = next(train.iterdir())
    (group / "000_mask.png").write_bytes(b"mask")
    assert sizes(urbancars.load(data, 0, preparation=SMALL))["train"] == 40
    (train / "cars").mkdir()
    with pytest.raises(DataError, match="not a folder of UrbanCars"):
        urbancars.load(data, 0, preparation=SMALL)


def test_restricted_imagenet(drawn, tmp_path):
    task = restricted_imagenet.load(drawn, 0, preparation=SMALL)
    assert task.class_names[:3] == ("dog", "cat", "frog")
    classes = [last - first + 1 for first, last in RANGES.values()]
    assert np.bincount(task.train.labels).tolist() == classes
    assert len(task.val) == len(task.test) == sum(classes)
    assert task.train.attributes is None
    named = tmp_path / "backgrounds.csv"
    named.write_text(f"path,group\n{task.names['train'][0]},green\n{task.names['test'][1]},sand\n")
    known = restricted_imagenet.load(drawn, 0, preparation=SMALL, backgrounds=str(named))
    assert known.attribute_values == {"background": ("(missing)", "green", "sand")}
    assert known.train.attributes["background"][0] == 1
    named.write_text("path,group\nn123/x.JPEG,green\n")
    with pytest.raises(DataError, match=r"1 paths of .* are not images of this data set"):
        restricted_imagenet.load(drawn, 0, preparation=SMALL, backgrounds=str(named))


def test_restricted_imagenet_needs_all_of_imagenets_folders(drawn, tmp_path):
    root = tmp_path / "restricted_imagenet"
    shutil.copytree(drawn / "restricted_imagenet", root)
    shutil.rmtree(sorted((root / "train").iterdir())[3])
    with pytest.raises(DataError, match="999 folders instead of ImageNet's 1000"):
        restricted_imagenet.load(tmp_path, 0, preparation=SMALL)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "mnist"])
def test_missing_data_says_where_to_get_it_and_where_to_put_it(name, tmp_path):
    assert name in DATASETS
    assert not source_named(name).present(tmp_path)
    with pytest.raises(DataError) as caught:
        locate(name, tmp_path).load(tmp_path, 0, preparation=SMALL)
    assert str(tmp_path / name) in str(caught.value)


TINY = {"epochs": "1", "batch_size": "8", "weights": "none", "eval_batch_size": "32"}
SMALLER = TINY | {"resize": "40", "crop": "32"}


def resumed_equals_uninterrupted(task, data, overrides, folder, stop_after, method="erm"):
    from tests.walks import run

    steps = iter(range(10_000))
    with pytest.raises(Interrupted):
        run(
            task, method, 0, folder / "a", data=data, overrides=overrides,
            progress=Progress(should_stop=lambda: next(steps) == stop_after),
        )  # fmt: skip
    assert list((folder / "a.partial").glob("*.checkpoint"))
    resumed = run(task, method, 0, folder / "a", data=data, overrides=overrides)
    uninterrupted = run(task, method, 0, folder / "b", data=data, overrides=overrides)
    assert resumed["settings"]["model"] == "resnet50"
    assert resumed["scores"] == uninterrupted["scores"]
    assert resumed["history"] == uninterrupted["history"]
    return resumed


@pytest.mark.parametrize("task", ["waterbirds", pytest.param("urbancars", marks=pytest.mark.long)])
def test_the_resnet50_preset_steps_checkpoints_and_resumes(task, drawn, tmp_path):
    more = {"crop": "0"} if task == "urbancars" else {}
    record = resumed_equals_uninterrupted(task, drawn, SMALLER | more, tmp_path, 1)
    if task == "urbancars":
        score = record["scores"]["test"]["selected"]
        assert set(score["gaps"]) == {"bg", "co_occur_obj", "bg+co_occur_obj"}
        assert "worst_pattern" in score
    else:
        assert "adjusted_average" in record["scores"]["test"]["selected"]


@pytest.mark.long
@pytest.mark.parametrize("task", ["waterbirds", "celeba", "urbancars", "restricted_imagenet"])
def test_each_preset_at_its_own_size(task, drawn, tmp_path):
    """The network and the image size of the paper; from scratch, because weights are a download."""
    resumed_equals_uninterrupted(task, drawn, TINY, tmp_path, 0)
