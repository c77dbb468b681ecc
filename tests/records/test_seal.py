"""Finding 1: the files that a record names are followed only if the reader named them."""

from __future__ import annotations

import json
import shutil

import pytest

from spare import api
from spare.errors import InputError
from spare.files.reading import read_json
from spare.files.writing import write_json
from spare.progress import Progress
from spare.records.record import read_record
from spare.records.seal import KEY_FILE, is_own
from spare.report.write import write_report
from spare.runs.restore import plan_of
from tests.pictures import picture_folder
from tests.recorded import discovery_record

SMALL = {"model": "small_cnn", "resize": "16", "crop": "16", "epochs": "2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A user's cache, pictures, and a discovery of them."""
    base = tmp_path_factory.mktemp("sealed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARE_CACHE", str(base / "cache"))
        picture_folder(base / "pets", {"cat": 24, "dog": 24})
        api.discover(str(base / "pets"), out=base / "found", report=False, **SMALL)
    return base


@pytest.fixture
def base(made, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARE_CACHE", str(made / "cache"))
    shutil.copytree(made / "found", tmp_path / "found")
    return tmp_path


def report_of(folder, **more):
    """The page, and what is said about it."""
    lines = []
    page = write_report(folder, progress=Progress(say=lines.append), **more)
    return page.read_text(), lines


def no_key(monkeypatch, tmp_path):
    """As on someone else's machine."""
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "another"))


def test_a_folder_of_ones_own_needs_no_flag(base):
    page, lines = report_of(base / "found")
    assert "data:image" in page
    assert not lines


def test_pictures_of_a_foreign_record_are_shown_only_if_the_reader_names_them(
    made, base, monkeypatch, tmp_path
):
    no_key(monkeypatch, tmp_path)
    page, lines = report_of(base / "found")
    assert "data:image" not in page
    assert "this is not a folder that you made here: name the data with --data, or" in lines[0]
    for named in ({"data": made / "pets"}, {"data": made}, {"trust": True}):
        page, lines = report_of(base / "found", **named)
        assert "data:image" in page
        assert not lines
    page, lines = report_of(base / "found", data=base)
    assert "data:image" not in page
    assert "the report has no pictures" in lines[0]


def test_a_record_that_points_at_the_readers_pictures_gets_none(made, base):
    """Its author even knew their names and sizes, and kept a seal that was true of another."""
    record = read_json(base / "found" / "discovery.json")
    shutil.copytree(made / "pets", base / "holidays")
    write_json(base / "found" / "discovery.json", record | {"task": str(base / "holidays")})
    page, lines = report_of(base / "found")
    assert "data:image" not in page
    assert "you made here" in lines[0]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("classes", "classes.json"),
        ("weights", "/home/me/weights.pt"),
        ("weights", "weights.pt"),
        ("root", "../../pictures"),
        ("label", "labels.npy"),
        ("groups", "groups.csv"),
        ("attributes", ["~/table"]),
        ("allow_outside", True),
    ],
)
def test_no_other_file_that_a_foreign_record_names_is_read(tmp_path, setting, value):
    record = discovery_record(task="digits", settings={setting: value})
    with pytest.raises(InputError, match="not a folder that you made here: use --trust"):
        plan_of(tmp_path, record)
    with pytest.raises(InputError, match="not a folder that you made here: use --trust"):
        plan_of(tmp_path, record, data=tmp_path)


def test_nor_are_weights_fetched_for_one(tmp_path):
    settings = {"model": "resnet18", "frozen": True, "weights": "imagenet"}
    with pytest.raises(InputError, match="might be fetched"):
        plan_of(tmp_path, discovery_record(task="digits", settings=settings))


def test_a_seal_is_of_one_request_and_one_user(base, monkeypatch, tmp_path):
    folder = base / "found"
    record = read_record(folder)
    assert is_own(folder, record)
    assert not is_own(folder, record | {"task": "/home/me/Pictures"})
    assert not is_own(folder, record | {"settings": record["settings"] | {"root": "/"}})
    request = read_json(folder / "settings.json")
    write_json(folder / "settings.json", request | {"task": "/home/me", "seal": "é" * 3})
    assert not is_own(folder, record | {"task": "/home/me"})
    write_json(folder / "settings.json", request)
    no_key(monkeypatch, tmp_path)
    assert not is_own(folder, record)


def test_a_key_that_others_can_read_is_not_used(base, made):
    key = made / "cache" / KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    try:
        assert not is_own(base / "found", read_record(base / "found"))
    finally:
        key.chmod(0o600)


def test_without_a_place_for_the_key_a_run_is_done_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "file" / "below"))
    api.train("digits", method="erm", epochs=1, out=tmp_path / "x", report=False)
    assert "seal" not in json.loads((tmp_path / "x" / "settings.json").read_text())
