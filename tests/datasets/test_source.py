"""Where a task comes from: names, files, someone's own code, and objects in memory."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset

from spare.data.inputs import ConcatInputs, SubsetInputs, TensorInputs
from spare.data.task import Split, Task
from spare.datasets import DATASETS, Dataset, Source, data_root, locate, names_code
from spare.datasets.preparation import Preparation
from spare.datasets.splits import Shares
from spare.errors import DataError, InputError, SpareWarning
from spare.progress import Progress
from tests.pictures import COLORS, picture

N, D = 60, 5


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    label = np.arange(N) % 2
    return {
        "features": (rng.normal(3, 2, (N, D)) + label[:, None]).astype(np.float32),
        "label": label,
        "place": rng.integers(0, 3, N),
    }


def load(data, progress=None, **choices):
    """The task of some data, loaded as a run loads it."""
    source = locate(data)
    types = typing.get_type_hints(source.load)
    if "shares" in types:
        choices.setdefault("shares", Shares())
    if "columns" in types:
        named = {field.name for field in dataclasses.fields(types["columns"])} & choices.keys()
        choices["columns"] = types["columns"](**{name: choices.pop(name) for name in named})
    return source.load(source.path, 0, progress or Progress(), **choices)


def inputs_of(task: Task, split: str) -> np.ndarray:
    part = task.splits()[split]
    return part.inputs.take(np.arange(len(part))).numpy()


def same_tasks(one: Task, two: Task) -> bool:
    return one.splits().keys() == two.splits().keys() and all(
        np.array_equal(inputs_of(one, name), inputs_of(two, name))
        and np.array_equal(split.labels, two.splits()[name].labels)
        for name, split in one.splits().items()
    )


def test_a_named_task_is_read_from_the_folder_of_data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_DATA", str(tmp_path))
    source = locate("digits")
    assert (source.kind, source.path, source.preset) == ("digits", tmp_path, "digits")
    assert (source.label, source.fingerprint, source.imported) == ("digits", "", False)
    assert source.own_preset == {}
    assert data_root("elsewhere") == Path("elsewhere")
    assert not any(names_code(name) for name in (*DATASETS, "hf:beans", "a/b", "x.npz"))


def test_a_source_can_be_sent_to_another_process(tmp_path, arrays):
    np.savez(tmp_path / "my data.npz", **arrays)
    source = locate(tmp_path / "my data.npz")
    assert (source.kind, source.label, source.preset) == ("arrays", "my-data", "arrays")
    assert Source.from_json(source.to_json()) == source


def test_names_that_lead_nowhere(tmp_path):
    with pytest.raises(InputError, match="did you mean 'cmnist'"):
        locate("cmnis", tmp_path)
    with pytest.raises(DataError, match=r"no file or folder some/where\.csv"):
        locate("some/where.csv", tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="not of a kind that can be read"):
        locate(tmp_path / "notes.txt")
    with pytest.raises(DataError, match="give the object again"):
        locate("arrays in memory")


# Someone's own data sets


MINE = """
import numpy as np
import torch
from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.datasets import Dataset
from spare.progress import SILENT


def load(data_root, seed, progress=SILENT, *, noise: float = 0.1) -> Task:
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % 2
    points = torch.tensor(labels[:, None] + noise * rng.normal(size=(40, 3)), dtype=torch.float32)
    split = Split(TensorInputs(points), labels)
    return Task("mine", split, split, split, ("no", "yes"), {})


DATASET = Dataset(load, "points", {"model": "mlp", "methods": {"jtt": {"lr": 0.5}}})
OTHER = 3
"""


@pytest.fixture
def my_module(tmp_path, monkeypatch):
    (tmp_path / "my_points.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    yield "my_points"
    sys.modules.pop("my_points", None)


def test_a_data_set_from_outside_the_package_by_import_path(my_module, tmp_path):
    assert names_code("my_points:DATASET")
    source = locate("my_points:DATASET", tmp_path)
    assert source.imported
    assert my_module not in sys.modules  # found, but nothing of it has run
    assert (source.kind, source.path, source.label) == ("imported", tmp_path, "my_points-DATASET")
    assert source.preset == ""
    assert source.own_preset == {"model": "mlp", "methods": {"jtt": {"lr": 0.5}}}
    assert typing.get_type_hints(source.load)["noise"] is float
    exact = source.load(source.path, 0, noise=0.0)
    assert exact.train.inputs.take(np.array([0, 1])).tolist() == [[0.0] * 3, [1.0] * 3]
    assert Source.from_json(source.to_json()).load is source.load


def test_import_paths_that_name_no_data_set(my_module):
    with pytest.raises(InputError, match=r"unknown data set of my_points 'OTHER': .*DATASET"):
        _ = locate("my_points:OTHER").load
    with pytest.raises(InputError, match="'not_there' cannot be imported"):
        _ = locate("not_there:DATASET").load


def test_a_file_whose_name_has_a_colon_is_a_file(tmp_path, monkeypatch, arrays):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my:data").mkdir()
    picture(tmp_path / "my:data" / "cat" / "0.png", COLORS["cat"])
    source = locate("my:data")
    assert (source.kind, source.imported) == ("folder", False)


def test_a_data_set_as_an_object(my_module, tmp_path):
    dataset = locate("my_points:DATASET").dataset
    source = locate(dataset, tmp_path)
    assert source.in_memory
    assert source.load is dataset.load
    assert source.own_preset["model"] == "mlp"
    assert source.label == "points-in-memory"


def test_data_sets_as_objects_differ_in_their_code_and_their_settings():
    def load_with(noise):
        def load(data_root, seed, progress=None):
            raise NotImplementedError(noise)

        return load

    def fingerprint(noise, **settings):
        return locate(Dataset(load_with(noise), settings=settings)).fingerprint

    first = fingerprint(0.1, lr=1, model="mlp")
    assert first == fingerprint(0.1, model="mlp", lr=1) != ""
    others = {fingerprint(0.2, lr=1, model="mlp"), fingerprint(0.1, lr=2, model="mlp")}
    assert len(others | {first}) == 3


# Arrays, tables, tasks


@pytest.mark.parametrize("kind", ["npz", "pair", "tensors", "lists", "dict", "pyarrow", "pandas"])
def test_arrays_and_tables_in_memory_give_the_same_task_as_a_file(kind, arrays, tmp_path):
    np.savez(tmp_path / "data.npz", features=arrays["features"], label=arrays["label"])
    features, label = arrays["features"], arrays["label"]
    columns = {f"f{i}": features[:, i] for i in range(D)} | {"label": label}
    data = {
        "npz": tmp_path / "data.npz",
        "pair": (features, label),
        "tensors": [torch.tensor(features), torch.tensor(label)],
        "lists": (features.tolist(), label.tolist()),
        "dict": {"x": torch.tensor(features), "y": label},
        "pyarrow": pa.table(columns),
        "pandas": pd.DataFrame(columns),
    }[kind]
    source = locate(data)
    assert source.preset == "arrays"
    if kind != "npz":
        assert source.kind == "arrays"
        assert source.in_memory
        assert source.label.endswith("-in-memory")
        assert "encoding" not in inspect.signature(source.load).parameters
    assert same_tasks(load(data), load(tmp_path / "data.npz"))
    assert source.fingerprint == locate(data).fingerprint != ""


def test_choices_name_arrays_as_they_do_in_a_file(arrays):
    task = load(arrays, attributes=("place",), standardize=False)
    assert task.attribute_values == {"place": ("0", "1", "2")}
    rows = [int(name.removeprefix("row ")) for name in task.names["train"]]
    assert np.array_equal(inputs_of(task, "train"), arrays["features"][rows])
    assert task.train.attributes["place"].tolist() == arrays["place"][rows].tolist()
    names = {"animal": np.array(["cat", "dog"])[arrays["label"]], "vectors": arrays["features"]}
    assert load(names, label="animal").class_names == ("cat", "dog")
    with pytest.raises(InputError, match="nothing called 'label': name the labels"):
        load(names)


def test_other_values_have_another_fingerprint(arrays):
    features, label = arrays["features"], arrays["label"]
    changed = features.copy()
    changed[-1, -1] += 1
    prints = {
        locate((x, y)).fingerprint
        for x, y in ((features, label), (changed, label), (features, label[::-1]))
    }
    assert len(prints) == 3


def test_images_in_arrays_are_left_as_they_are(arrays):
    pixels = np.random.default_rng(0).integers(0, 256, (N, 3, 8, 8), dtype=np.uint8)
    source = locate((pixels, arrays["label"]))
    assert source.preset == "tensors"
    task = load((pixels, arrays["label"]))
    rows = [int(name.removeprefix("row ")) for name in task.names["test"]]
    expected = pixels[rows].astype(np.float32) / 127.5 - 1
    assert np.allclose(inputs_of(task, "test"), expected, atol=1e-5)
    assert not task.holds_outputs


def test_a_table_of_image_paths_is_a_table_of_images(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = {"path": [], "animal": [], "split": []}
    for i in range(12):
        animal = ("cat", "dog")[i % 2]
        picture(tmp_path / "images" / f"{i}.png", COLORS[animal], seed=i)
        rows["path"].append(f"images/{i}.png")
        rows["animal"].append(animal)
        rows["split"].append(("train", "train", "val", "test")[i // 2 % 4])
    small = Preparation(resize=12, crop=12)
    source = locate(pd.DataFrame(rows))
    assert source.preset == "images"
    task = load(pd.DataFrame(rows), preparation=small, label="animal")
    assert task.class_names == ("cat", "dog")
    assert {name: len(split) for name, split in task.splits().items()} == {
        "train": 8, "val": 2, "test": 2
    }  # fmt: skip
    table = pa.table(rows).rename_columns(["where", "animal", "split"])
    assert locate(table, settings={"path": "where"}).preset == "images"
    rows["path"][3] = "images/gone.png"
    with pytest.raises(DataError, match=r"images/gone\.png \(row 3\)"):
        load(pd.DataFrame(rows), preparation=small, label="animal")


def test_a_task_is_taken_as_it_is(arrays):
    split = Split(TensorInputs(torch.tensor(arrays["features"])), arrays["label"])
    task = Task("points", split, split, None, ("a", "b"), {})
    source = locate(task)
    assert source.load(source.path, 7) is task
    assert (source.name, source.label) == ("points in memory", "points-in-memory")
    assert source.preset == "arrays"
    assert source.fingerprint


def test_a_task_is_identified_by_all_of_its_content(arrays):
    base, labels = torch.tensor(arrays["features"]), arrays["label"]

    def fingerprint(inputs, labels=labels):
        split = Split(inputs, labels)
        return locate(Task("points", split, split, None, ("a", "b"), {})).fingerprint

    changed = base.clone()
    changed[N // 2 + 1, 3] += 1
    half, other_half = np.arange(0, 30), np.arange(30, N)
    prints = [
        fingerprint(TensorInputs(base)),
        fingerprint(TensorInputs(changed)),
        fingerprint(TensorInputs(base, finish=lambda batch: 2 * batch)),
        fingerprint(TensorInputs(base), labels[::-1]),
        fingerprint(SubsetInputs(TensorInputs(base), half), labels[half]),
        fingerprint(SubsetInputs(TensorInputs(base), other_half), labels[half]),
        fingerprint(ConcatInputs(TensorInputs(base[:7]), TensorInputs(base[7:]))),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(TensorInputs(base.clone())) == prints[0]


@pytest.mark.parametrize("form", ["pairs", "dicts", "pandas", "pyarrow"])
def test_arrays_and_tables_by_split(form, arrays):
    features, label = arrays["features"], arrays["label"]
    rows = {"train": slice(0, 40), "valid": slice(40, 50), "Test": slice(50, N)}

    def part(chosen):
        columns = {f"f{i}": features[chosen, i] for i in range(D)} | {"label": label[chosen]}
        return {
            "pairs": (features[chosen].tolist(), torch.tensor(label[chosen])),
            "dicts": {"x": features[chosen], "y": label[chosen]},
            "pandas": pd.DataFrame(columns | {"split": "unknown"}),
            "pyarrow": pa.table(columns),
        }[form]

    parts = {name: part(chosen) for name, chosen in rows.items()}
    source = locate(parts)
    assert (source.kind, source.preset, source.in_memory) == ("arrays", "arrays", True)
    task = load(parts)
    in_one = features, label, np.repeat(["train", "val", "test"], [40, 10, 10])
    assert same_tasks(task, load(dict(zip(("x", "label", "split"), in_one, strict=True))))
    if form in ("pairs", "dicts"):
        assert task.names["val"][:2] == ["valid[0]", "valid[1]"]
    swapped = {"train": parts["train"], "valid": parts["Test"], "Test": parts["valid"]}
    assert locate(parts).fingerprint == source.fingerprint != locate(swapped).fingerprint


def test_tables_of_images_by_split(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tables = {}
    for split in ("train", "val", "test"):
        names = [f"{split}{i}.png" for i in range(4)]
        for i, name in enumerate(names):
            picture(tmp_path / name, COLORS[("cat", "dog")[i % 2]], seed=i)
        tables[split] = pd.DataFrame({"path": names, "label": ["cat", "dog"] * 2})
    assert locate(tables).preset == "images"
    task = load(tables, preparation=Preparation(resize=12, crop=12))
    assert task.names["test"] == [f"test{i}.png" for i in range(4)]


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
LETTERS = pa.table({"label": Y, "f": list("abcd")})


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"train": (X, Y), "val": pd.DataFrame({"label": Y})}, "given as DataFrame and tuple"),
        ({"train": (X, Y), "val": TensorDataset(torch.zeros(2, 2))}, "TensorDataset and tuple"),
        ({"train": (X, Y[:3]), "val": (X, Y)}, "arrays of train differ in length: features 4, lab"),
        ({"train": (X, Y), "val": (X[:, :1], Y)}, r"do not fit together \(.*\): give all of them"),
        (
            {"train": {"x": X, "y": Y}, "val": {"x": X}},
            "train and val do not have the same columns",
        ),
        ({"train": pa.table({"label": Y, "f": Y}), "val": LETTERS}, "do not fit together"),
        ({"train": (X, Y), "val": (X, 3)}, "'label' is a int and not an array"),
    ],
)
def test_splits_that_do_not_fit_together(parts, says):
    with pytest.raises((InputError, DataError), match=says):
        locate(parts)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (np.zeros((3, 2)), r"no labels: give \(features, labels\)"),
        (3, "data of the type int cannot be used: give a path"),
        ({"features": 3.0}, "'features' is a float and not an array"),
        (([[1, 2], [3]], [0, 1]), "rows differ in length"),
        ((np.zeros((4, 2)), np.zeros(3)), "differ in length"),
        ((np.zeros((4, 2)), np.zeros((4, 3))), r"has the shape \(4, 3\): one value per example"),
        (pa.table({"label": pa.array([], pa.int64())}), "has no rows"),
    ],
)
def test_objects_that_cannot_be_used(data, says):
    with pytest.raises((InputError, DataError), match=says):
        load(data)


# Torch data sets


class Pairs(torch.utils.data.Dataset):
    """Items that only reading gives a label."""

    def __init__(self, features, labels):
        self.features, self.numbers = features, labels

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return torch.tensor(self.features[i]), int(self.numbers[i])


class Pictures(Pairs):
    classes = ("cat", "dog", "fox")

    def __init__(self, n=30):
        super().__init__(np.random.default_rng(0).random((n, 3, 8, 8), dtype=np.float32), [])
        self.targets = (np.arange(n) % 3).tolist()

    def __getitem__(self, i):
        return self.features[i], self.targets[i]


def test_a_torch_data_set_is_divided_by_shares(arrays):
    features, label = arrays["features"], arrays["label"]
    in_memory = TensorDataset(torch.tensor(features), torch.tensor(label))
    lines = []
    one = load(in_memory, Progress(say=lines.append))
    assert not lines
    two = load(Pairs(features, label), Progress(say=lines.append))
    assert lines == ["Pairs has no targets or labels: its 60 items are read once for them"]
    assert same_tasks(one, two)
    assert one.train.inputs.in_memory
    assert not two.train.inputs.in_memory
    assert {name: len(split) for name, split in one.splits().items()} == {
        "train": 44, "val": 8, "test": 8
    }  # fmt: skip
    assert locate(in_memory).preset == "arrays"
    assert one.class_names == ("0", "1")


def test_torch_data_sets_by_split_with_class_names():
    pictures = Pictures()
    parts = {"train": Subset(pictures, range(12)), "valid": Subset(pictures, range(12, 21)),
             "test": Subset(pictures, range(21, 30))}  # fmt: skip
    source = locate(parts)
    assert source.preset == "tensors"
    task = load(parts)
    assert task.class_names == ("cat", "dog", "fox")
    assert task.val.labels.tolist() == [0, 1, 2] * 3
    assert np.array_equal(inputs_of(task, "test"), pictures.features[21:])
    assert task.names["val"][:2] == ["valid[0]", "valid[1]"]
    with pytest.warns(SpareWarning, match="no val split"):
        task = load({"train": parts["train"], "test": parts["test"]}, shares=Shares(0.25))
    assert len(task.val) == 3


def test_random_transforms_do_not_change_the_fingerprint():
    class Noisy(Pictures):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] + np.random.default_rng().random(), self.targets[i]

    assert locate(Noisy()).fingerprint == locate(Noisy()).fingerprint
    assert locate(Noisy()).fingerprint != locate(Noisy(27)).fingerprint

    class Flipped(Pictures):  # some of its items are the same twice in a row
        def __getitem__(self, i):
            picture = super().__getitem__(i)[0]
            return picture[..., :: np.random.default_rng().choice([1, -1])].copy(), 0

    assert len({locate(Flipped()).fingerprint for _ in range(3)}) == 1


def test_torch_data_sets_are_identified_by_all_of_their_tensors_or_a_sample(arrays):
    features, label = torch.tensor(arrays["features"]), torch.tensor(arrays["label"])
    changed = features.clone()
    changed[N // 2 + 1, 3] += 1

    def prints(make):
        return {locate(make(features)).fingerprint, locate(make(changed)).fingerprint}

    for make in (
        lambda x: TensorDataset(x, label),
        lambda x: Subset(TensorDataset(x, label), range(0, N, 2)),
        lambda x: ConcatDataset(
            [TensorDataset(x[:20], label[:20]), TensorDataset(x[20:], label[20:])]
        ),
        lambda x: {"train": TensorDataset(x, label), "val": TensorDataset(features, label)},
        lambda x: Pairs(x.numpy(), label),  # every item is in the sample of so few
    ):
        assert len(prints(make)) == 2
        assert prints(make) == prints(make)


def test_what_a_tensor_data_set_of_ones_own_does_to_items_is_done(arrays):
    class Doubled(TensorDataset):
        def __getitem__(self, i):
            x, y = super().__getitem__(i)
            return 2 * x, y

    features, label = torch.tensor(arrays["features"]), torch.tensor(arrays["label"])
    doubled = inputs_of(load(Doubled(features, label)), "train")
    assert np.array_equal(doubled, inputs_of(load(TensorDataset(2 * features, label)), "train"))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int64, torch.float64, torch.float16, torch.bfloat16, torch.bool]
)
@pytest.mark.parametrize("shape", [(4,), (3, 4, 4)])
def test_items_of_every_type_become_floats(dtype, shape):
    x = (torch.rand(12, *shape) * 200).to(dtype)
    y = torch.arange(12) % 2
    items = [(x[i], int(y[i])) for i in range(12)]
    expected = x.float()
    if dtype == torch.uint8 and len(shape) == 3:
        expected = expected / 127.5 - 1
    for data in (TensorDataset(x, y), items):
        task = load({"train": data, "val": data, "test": data})
        taken = task.train.inputs.take(np.arange(12))
        assert taken.dtype == torch.float32
        assert torch.allclose(taken, expected, atol=1e-6)


def test_torch_data_sets_that_cannot_be_used(arrays):
    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.zeros(2), 0

    with pytest.raises(InputError, match="the Stream has no length or no items by number"):
        locate(Stream())
    with pytest.raises(InputError, match="is not a pair"):
        load(TensorDataset(torch.zeros(3, 2)))
    with pytest.raises(InputError, match=r"item 0 of the Pairs is a str: .* transform"):
        locate(type("Pairs", (), {"__len__": lambda s: 2, "__getitem__": lambda s, i: ("x", 0)})())
    broken = Pictures()
    broken.targets[3] = 7
    with pytest.raises(DataError, match="a label 7, but the data set names 3 classes"):
        load(broken)
    broken.targets = broken.targets[:-1]
    with pytest.raises(InputError, match="one per item"):
        load(broken)


def test_a_data_set_needs_only_a_load_function():
    dataset = Dataset(lambda data_root, seed: None)
    assert dataset.title == ""
    assert dataset.settings == {}
