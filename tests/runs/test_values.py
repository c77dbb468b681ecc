"""Settings that someone may type or pass: each is used, or refused in one sentence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import spare
from spare.datasets import DATASETS, Source, locate
from spare.datasets.source import OWN_DATA
from spare.errors import InputError, SpareError
from spare.limits import SEED, Count, Range
from spare.methods import METHODS
from spare.runs.plan import known_settings, make_plan
from spare.runs.values import convert

#: What is no number for anyone.
NO_NUMBER = [
    *("", "x", "nan", "NaN", "inf", "-inf", "1e999", "1_000", "0x10", "١", "²", "1e", "1 2", "1\0"),
    *("9" * 5000, True, None, [], {}, "1j", b"5", math.nan, math.inf, 10**400, object()),
]


@pytest.mark.parametrize("value", NO_NUMBER, ids=range(len(NO_NUMBER)))
def test_nan_inf_and_absurd_numbers_are_one_sentence(value):
    for kind in (Annotated[int, Range(1, 100)], Annotated[float, Range(0, 100)], int, float):
        with pytest.raises(InputError) as refused:
            print(kind, convert("epochs", value, kind))
        assert str(refused.value).startswith("epochs is ")
        assert len(str(refused.value)) < 130
        assert str(refused.value).isprintable()


def test_whole_numbers_are_written_in_digits():
    for value in ("20", " 20 ", "+20", "020", 20, 20.0, np.int64(20), np.float64(20)):
        assert convert("epochs", value, Count) == 20
        assert type(convert("epochs", value, Count)) is int
    for value in ("1e3", "20.0", 2.5, "2.5"):
        with pytest.raises(InputError, match="epochs is a whole number, not"):
            convert("epochs", value, Count)
    for value in ("1e3", "1E+3", "1000", ".1e4", np.float32(1000), 1000):
        assert convert("lr", value, float) == 1000.0


def test_several_numbers_are_separated_by_single_commas():
    kind = tuple[Annotated[int, SEED], ...]
    assert convert("seeds", "0, 1,2", kind) == convert("seeds", [0, 1, 2], kind) == (0, 1, 2)
    assert convert("seeds", "(3,)", kind) == convert("seeds", 3, kind) == (3,)
    assert convert("seeds", "", kind) == ()
    for text in ("1,,2", ",1", "٣", "1e3", "0-3", "-1", "4294967296", "1;2"):
        with pytest.raises(InputError, match="seeds"):
            convert("seeds", text, kind)


def test_text_that_no_record_can_hold_is_refused():
    assert convert("model", Path("a/b"), str) == "a/b"
    for value in ("a\0b", "\udcff", 10**5000, b"x", None, True, len):
        with pytest.raises(InputError, match="model is"):
            convert("model", value, str)


HOSTILE = ["nan", "inf", "-inf", "-1e300", "1e300", "9" * 400, "", "\0", "\udcff", "x" * 5000]


@pytest.mark.parametrize("task", [*DATASETS, *OWN_DATA])
def test_every_setting_of_every_task_and_method_is_checked_before_any_folder(task, tmp_path):
    source = Source("mine", task, tmp_path) if task in OWN_DATA else locate(task)
    methods = METHODS.values() if task == "digits" else [METHODS["erm"]]
    checked: set[str] = set()
    for method in methods:
        keys = {key for kinds in known_settings(source, method).values() for key in kinds}
        for key in keys - checked:
            checked.add(key)
            for value in HOSTILE:
                try:
                    plan = make_plan(source, method, {key: value})
                except SpareError:
                    continue
                now = (plan.flat_settings() | plan.flat_options())[key]
                assert isinstance(now, str | list), (key, value, now)  # never a number


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"epochs": math.nan}, "epochs is a whole number, not nan"),
        ({"epochs": []}, r"epochs is a whole number, not \[\]"),
        ({"lr": math.inf}, "lr is above 0 and at most 1,000,000,000, not inf"),
        ({"lr": 10**400}, "lr is a number, not a number of about 400 digits"),
        ({"seed": "x"}, "a seed is a whole number, not 'x'"),
        ({"seed": True}, "a seed is a whole number, not True"),
        ({"seed": 2**32}, "a seed is from 0 to 4,294,967,295"),
        ({"threads": 1.5}, "threads is a whole number, not 1.5"),
        ({"threads": 10**9}, "threads is from 0 to 1,024, not 1000000000"),
        ({"threads": -1}, "threads is from 0 to 1,024, not -1"),
        ({"p_corr": "2"}, "p_corr is from 0 to 1, not 2.0"),
        ({"selection": "best"}, "unknown selection rule 'best'"),
        ({"model": "resnet18x"}, "unknown model 'resnet18x'"),
        ({"weights": "gone.pt"}, "there is no weights file gone.pt"),
        ({"clusterer": "kmean"}, "did you mean 'kmeans'"),
        ({"groups": "gone.parquet"}, "there is no file of groups at gone.parquet"),
        ({"method": None}, "the method must be a name"),
        ({"out": "a" * 300}, "out is a path of which a part has 300 bytes"),
        ({"out": "a/" * 2500}, "out is a path that has 5,000 bytes"),
        ({"out": "a\0b"}, "out is not a path"),
        ({"out": ""}, "out is not a path"),
        ({"out": "~nosuchuser/x"}, "there is no such user"),
        ({"out": 5}, "out is a path, not 5"),
        ({"out": "."}, "is the folder you are in"),
        ({"out": "/"}, "choose another --out"),
        ({"out": "file"}, "choose another --out"),
        ({"out": "file/below/it"}, "cannot write"),
        ({"data": "~nosuchuser"}, "there is no such user"),
        ({"out": "deep/er/x", "model": "mlp"}, "mlp takes features"),
    ],
    ids=str,
)
def test_refused_settings_leave_no_folder_behind(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SpareError, match=says):
        spare.train("digits", **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"jobs": None}, "jobs is a whole number, not None"),
        ({"jobs": 10**9}, "jobs is from 0 to 1,024"),
        ({"seeds": "1,,2"}, "seeds has nothing between two commas: '1,,2'"),
        ({"seeds": None}, "seeds is a whole number, not None"),
        ({"seeds": [True]}, "seeds is a whole number, not True"),
        ({"seeds": [2**32]}, "seeds is from 0"),
        ({"seeds": []}, "at least one method and one seed"),
        ({"methods": 5}, "unknown method '5'"),
        ({"methods": None}, "methods is text"),
        ({"methods": "erm,nope"}, "unknown method 'nope'"),
        ({"epochs": "1e3"}, "epochs is a whole number"),
    ],
    ids=str,
)
def test_a_refused_bench_leaves_no_folder_behind(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpareError, match=says):
        spare.bench("digits", **arguments)
    assert not list(tmp_path.iterdir())
