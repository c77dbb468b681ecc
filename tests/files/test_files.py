"""Files and folders that are whole or not there, whatever ends a process or lies in the way."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import shutil

import numpy as np
import pytest
import torch

from spare.errors import DataError, InputError, RunError
from spare.files.building import build_folder
from spare.files.reading import parse_json, read_json, read_tensors
from spare.files.writing import scratch_folder, write_json, write_tensors, write_text
from spare.records.record import read_record
from tests.walks import run


class Killed(BaseException):
    """The end of a process: from then on it does nothing more, not even tidy up."""


OPERATIONS = [(os, name) for name in ("open", "replace", "unlink", "mkdir", "rmdir", "fsync")]


def _after(first, function):
    def both(*arguments, **more):
        first()
        return function(*arguments, **more)

    return both


def kill_at(monkeypatch, number):
    """End the process at this operation on files, in the midst of it if it writes; counts them."""
    done = [0]

    def count():
        done[0] += 1
        if number is not None and done[0] > number:
            raise Killed

    for home, name in OPERATIONS:
        monkeypatch.setattr(home, name, _after(count, getattr(home, name)))
    write_bytes = pathlib.Path.write_bytes

    def half_written(path, content):
        try:
            count()
        except Killed:
            write_bytes(path, content[: len(content) // 2])
            raise
        return write_bytes(path, content)

    monkeypatch.setattr(pathlib.Path, "write_bytes", half_written)
    return done


@pytest.fixture
def small_run(tmp_path):
    labels = np.arange(60) % 2
    features = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", features=features + labels[:, None], label=labels)
    data = str(tmp_path / "mine.npz")
    settings = {"epochs": "2", "selection": "last"}
    return lambda folder: run(data, "erm", 0, folder, overrides=settings)


def test_finding_2_a_kill_at_any_write_blocks_nothing_and_leaves_nothing(
    small_run, tmp_path, monkeypatch
):
    """The same call succeeds, with the same numbers, and only what belongs there is there."""
    monkeypatch.setenv("SPARE_CACHE", str(tmp_path / "cache"))
    whole = small_run(tmp_path / "whole")
    names = sorted(os.listdir(tmp_path / "whole"))
    weights = read_tensors(tmp_path / "whole" / "weights.safetensors")[0]
    with monkeypatch.context() as patched:
        done = kill_at(patched, None)
        small_run(tmp_path / "counted")
        operations = done[0]
    assert operations > 30
    folder = tmp_path / "x"
    ends = [*range(20), *range(20, operations - 20, 4), *range(operations - 20, operations)]
    for number in ends:
        with monkeypatch.context() as patched:
            kill_at(patched, number)
            with pytest.raises(Killed):
                small_run(folder)
        record = small_run(folder)
        assert record["scores"] == whole["scores"], number
        assert record["history"] == whole["history"], number
        again = read_tensors(folder / "weights.safetensors")[0]
        assert all(torch.equal(again[name], weights[name]) for name in weights)
        assert sorted(os.listdir(folder)) == names, number
        assert not folder.with_name("x.partial").exists()
        shutil.rmtree(folder)


def test_finding_2_leftovers_are_ours_and_anything_else_is_not(tmp_path):
    def fill(partial):
        (partial / "mark").write_text("")
        return "done"

    partial = tmp_path / "x.partial"
    partial.mkdir()
    (partial / ".lock").write_text("")
    (partial / ".settings.json.4711.tmp").write_text("{")
    (partial / ".notes.tmp").write_text("someone's own")
    with pytest.raises(InputError, match="is in the way and was not made here"):
        build_folder(tmp_path / "x", "mark", "working on", lambda: None, fill)
    assert len(list(partial.iterdir())) == 3
    (partial / ".notes.tmp").unlink()
    assert build_folder(tmp_path / "x", "mark", "working on", lambda: None, fill) == "done"
    assert os.listdir(tmp_path / "x") == ["mark"]


def test_an_unfinished_folder_that_is_a_link_is_not_filled(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "mark").write_text("")
    (tmp_path / "x.partial").symlink_to(tmp_path / "thesis")
    with pytest.raises(InputError, match="is in the way"):
        build_folder(tmp_path / "x", "mark", "working on", lambda: None, pytest.fail)
    assert os.listdir(tmp_path / "thesis") == ["mark"]


def test_a_lock_that_is_a_link_empties_nothing(tmp_path):
    (tmp_path / "thesis").write_text("all of it")
    partial = tmp_path / "x.partial"
    partial.mkdir()
    (partial / "mark").write_text("")
    (partial / ".lock").symlink_to(tmp_path / "thesis")
    with pytest.raises(RunError, match="cannot write"):
        build_folder(tmp_path / "x", "mark", "working on", lambda: None, pytest.fail)
    assert (tmp_path / "thesis").read_text() == "all of it"


def test_finding_7_the_next_write_removes_what_a_killed_one_left(tmp_path):
    left = tmp_path / ".report.html.4711.tmp"
    busy = tmp_path / ".report.html.4712.tmp"
    other = tmp_path / ".table.json.4711.tmp"
    for path in (left, busy, other):
        path.write_text("half a p")
    with busy.open() as being_written:
        fcntl.flock(being_written, fcntl.LOCK_EX)
        write_text(tmp_path / "report.html", "a page")
    assert sorted(os.listdir(tmp_path)) == sorted([busy.name, other.name, "report.html"])


def test_what_is_written_replaces_a_link_and_follows_none(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "report.html").symlink_to(tmp_path / "mine")
    (tmp_path / f".report.html.{os.getpid()}.tmp").symlink_to(tmp_path / "mine")
    write_text(tmp_path / "report.html", "a page")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "report.html").read_text() == "a page"
    assert not (tmp_path / "report.html").is_symlink()


def test_folders_of_killed_downloads_go_and_those_of_others_stay(tmp_path):
    (tmp_path / ".fetching-old").mkdir()
    (tmp_path / ".fetching-old" / "archive").write_text("half")
    with scratch_folder(tmp_path, ".fetching-") as first:
        assert not (tmp_path / ".fetching-old").exists()
        with scratch_folder(tmp_path, ".fetching-") as second:
            assert first.is_dir()
            assert second.is_dir()
            assert first != second
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1e999}', "1e999 is too large a number"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "is too large a number"),
        (b'{"a": 1, "a": 2}', "'a' is in it twice"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'"\xff"', "it is not UTF-8"),
        (b"", "Expecting value"),
    ],
)
def test_finding_6_json_that_is_none_is_one_sentence(tmp_path, content, why):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=why) as refused:
        read_json(tmp_path / "run.json")
    assert str(refused.value).startswith(f"{tmp_path}/run.json cannot be read as JSON")
    assert "\n" not in str(refused.value)


def test_finding_6_what_is_no_file_is_not_opened_and_what_is_huge_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(RunError, match="not a file"):
        read_record(tmp_path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").symlink_to("/dev/zero")
    with pytest.raises(RunError, match="it is a link: put the file itself there"):
        read_record(tmp_path)
    monkeypatch.setenv("SPARE_MAX_JSON", "1000")
    (tmp_path / "other.json").write_text(" " * 1001)
    with pytest.raises(DataError, match="set SPARE_MAX_JSON=1001 to allow it"):
        read_json(tmp_path / "other.json")


def test_names_that_are_no_text_come_back_from_json(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "a.json", {name: [name]})
    assert read_json(tmp_path / "a.json") == {name: [name]}
    assert parse_json(b'{"a": -9223372036854775807}') == {"a": -(2**63) + 1}


def test_a_byte_that_has_changed_in_a_file_of_tensors_is_noticed(tmp_path):
    path = tmp_path / "train.checkpoint"
    write_tensors(path, {"a": torch.arange(8.0), "b": torch.tensor(True)}, {"about": "it"})
    tensors, about = read_tensors(path)
    assert about == {"about": "it"}
    assert tensors["a"].tolist() == list(range(8))
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(RunError, match="its bytes have changed since they were written"):
        read_tensors(path)


def test_a_disk_that_is_full_leaves_no_temporary_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match="the disk is full"):
        write_text(tmp_path / "a", "text")
    assert not list(tmp_path.iterdir())
