"""Images are decoded once, whatever happens: other builders, a kill, damage, a full disk."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spare.data.inputs import SubsetInputs, TensorInputs
from spare.data.transforms import random_flip, scale_bytes
from spare.errors import DataError
from spare.images.cache import cache_folder, clear, entries
from spare.images.decode import Geometry, decode, fit
from spare.images.decoded import DecodedInputs
from spare.images.prepare import fingerprint_files, prepare
from spare.progress import Progress

SQUARE = Geometry(16)
N = 6


@pytest.fixture
def pictures(tmp_path) -> Path:
    """A folder with 0.png .. 5.png."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(N):
        pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder


class Reader:
    """Reads i.png of a folder, counting."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.count = 0

    def __call__(self, i: int) -> bytes:
        self.count += 1
        return (self.folder / f"{i}.png").read_bytes()


def names(n: int = N) -> list[str]:
    return [f"{i}.png" for i in range(n)]


def prepared(pictures: Path, read=None, geometry: Geometry = SQUARE, **options):
    folder = pictures.parent / "cache"
    fingerprint = fingerprint_files(pictures, names())
    options.setdefault("folder", folder)
    return prepare(names(), read or Reader(pictures), geometry, fingerprint, **options)


def entry_file(pictures: Path, kind: str) -> Path:
    (path,) = (pictures.parent / "cache").glob(f"*.{kind}")
    return path


def expected(pictures: Path, geometry: Geometry = SQUARE) -> torch.Tensor:
    read = Reader(pictures)
    return torch.stack([fit(decode(read(i)), geometry) for i in range(N)])


def test_an_entry_is_built_once_and_then_mapped(pictures):
    read = Reader(pictures)
    told = []
    caller = threading.get_ident()

    def report(what: str, done: int, total: int) -> None:
        assert threading.get_ident() == caller
        told.append((what, done, total))

    first = prepared(pictures, read, progress=Progress(report))
    assert read.count == N
    assert told == [("images", i + 1, N) for i in range(N)]
    assert first.bad == {}
    assert first.pixels.shape == (N, 3, 16, 16)
    assert first.pixels.dtype == torch.uint8
    assert torch.equal(first.pixels, expected(pictures))
    again = prepared(pictures, read)
    assert read.count == N
    assert torch.equal(again.pixels, first.pixels)
    again.pixels[0] = 0  # stays in this process's memory
    assert torch.equal(prepared(pictures, read).pixels, expected(pictures))


def test_the_file_is_a_plain_array(pictures):
    prepared(pictures)
    array = np.load(entry_file(pictures, "npy"))
    assert array.shape == (N, 16, 16, 3)
    assert np.array_equal(array, expected(pictures).permute(0, 2, 3, 1).numpy())


def test_another_geometry_or_other_content_makes_another_entry(pictures):
    read = Reader(pictures)
    prepared(pictures, read)
    prepared(pictures, read, Geometry(16, keep_aspect=True))
    assert read.count == 2 * N
    shutil.copy(pictures / "1.png", pictures / "0.png")
    assert torch.equal(prepared(pictures, read).pixels, expected(pictures))
    assert read.count == 3 * N
    assert entries(pictures.parent / "cache").entries == 3


def test_images_are_only_checked_when_pixels_are_not_kept(pictures):
    (pictures / "2.png").write_bytes(b"")
    read = Reader(pictures)
    for _ in range(2):
        checked = prepared(pictures, read, keep=False, skip_bad=True)
        assert checked.pixels is None
        assert checked.bad == {2: "empty file"}
        assert read.count == N
    assert not list((pictures.parent / "cache").glob("*.npy"))


def test_bad_images_are_named(pictures):
    (pictures / "1.png").write_bytes(b"")
    (pictures / "3.png").write_bytes(b"hello")
    (pictures / "4.png").unlink()
    read = Reader(pictures)
    for _ in range(2):  # built, then cached
        with pytest.raises(DataError) as caught:
            prepared(pictures, read)
        sentence = str(caught.value)
        listing = entry_file(pictures, "bad.txt")
        assert sentence.startswith("3 of 6 images cannot be used: 1.png (empty file), 3.png (not")
        assert str(listing) in sentence
        assert "--skip-bad" in sentence
        lines = [line.split("\t") for line in listing.read_text().splitlines()]
        assert [name for name, _ in lines] == ["1.png", "3.png", "4.png"]
        assert lines[0][1] == "empty file"
        assert lines[2][1] == "cannot be read: No such file or directory"
    assert read.count == N + 1  # and the one that is missing is looked for again
    good = prepared(pictures, read, skip_bad=True)
    assert list(good.bad) == [1, 3, 4]
    assert not good.pixels[[1, 3, 4]].any()
    assert good.pixels[0].any()


def test_a_file_that_can_be_read_again_is_used(pictures):
    hidden = [True]

    def read(i: int) -> bytes:
        if i == 2 and hidden:
            raise PermissionError(errno.EACCES, "Permission denied")
        return Reader(pictures)(i)

    assert prepared(pictures, read, skip_bad=True).bad == {2: "cannot be read: Permission denied"}
    hidden.clear()
    again = prepared(pictures, read)
    assert again.bad == {}
    assert torch.equal(again.pixels, expected(pictures))


def test_only_bad_images_is_an_error_even_with_skip_bad(pictures):
    for i in range(N):
        (pictures / f"{i}.png").write_bytes(b"no")
    with pytest.raises(DataError, match=r"6 of 6 images .* none is left to train on"):
        prepared(pictures, skip_bad=True)


def test_no_images_at_all(tmp_path):
    with pytest.raises(DataError, match="no images"):
        prepare([], lambda i: b"", SQUARE, "", folder=tmp_path)


@pytest.mark.parametrize("keep", [True, False])
def test_the_original_sizes_of_images_are_kept(pictures, keep):
    Image.new("RGB", (7, 9)).save(pictures / "3.png")
    (pictures / "4.png").write_bytes(b"no")
    expected = [[20, 30]] * N
    expected[3], expected[4] = [9, 7], [0, 0]
    for _ in ("built", "loaded"):
        assert prepared(pictures, skip_bad=True, keep=keep).sizes.tolist() == expected
    info = entry_file(pictures, "json")
    known = json.loads(info.read_text())
    del known["sizes"]
    info.write_text(json.dumps(known))
    assert prepared(pictures, skip_bad=True, keep=keep).sizes is None  # an older entry will do


@pytest.mark.parametrize(
    "damage",
    [
        lambda npy, info: npy.write_bytes(npy.read_bytes()[:-100]),
        lambda npy, info: npy.write_bytes(b""),
        lambda npy, info: npy.write_bytes(b"garbage" * 100),
        lambda npy, info: npy.unlink(),
        lambda npy, info: np.save(npy, np.zeros((N, 16, 16, 3), np.float32)),
        lambda npy, info: info.write_bytes(info.read_bytes()[:20]),
        lambda npy, info: info.write_bytes(b"\xff\xfe"),
        lambda npy, info: info.write_text("[]"),
        lambda npy, info: info.write_text("{}"),
        lambda npy, info: info.write_text(info.read_text().replace('"bad":{}', '"bad":[1]')),
        lambda npy, info: info.write_text(info.read_text().replace('"sizes":[', '"sizes":[7,')),
        lambda npy, info: info.unlink(),
    ],
)
def test_a_damaged_entry_is_built_again(pictures, damage):
    prepared(pictures)
    damage(entry_file(pictures, "npy"), entry_file(pictures, "json"))
    read = Reader(pictures)
    assert torch.equal(prepared(pictures, read).pixels, expected(pictures))
    assert read.count == N
    prepared(pictures, read)
    assert read.count == N


#: Builds an entry slowly: one line on standard output for each image that is read.
BUILDER = """
import sys, time
from pathlib import Path
from spare.images.prepare import fingerprint_files, prepare
from spare.images.decode import Geometry
pictures, folder = Path(sys.argv[1]), Path(sys.argv[2])
names = [f"{i}.png" for i in range(6)]
def read(i):
    sys.stdout.write(f"read {i}\\n")  # in one piece: several threads read
    sys.stdout.flush()
    time.sleep(float(sys.argv[3]))
    return (pictures / names[i]).read_bytes()
done = prepare(names, read, Geometry(16), fingerprint_files(pictures, names), folder=folder)
print("sum", int(done.pixels.sum()), flush=True)
"""


def start_builder(pictures: Path, pause: float) -> subprocess.Popen:
    folder = pictures.parent / "cache"
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(pictures), str(folder), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_two_processes_at_once_build_one_entry(pictures):
    builders = [start_builder(pictures, 0.1) for _ in range(2)]
    outputs = [builder.communicate(timeout=60)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    sums = {line for output in outputs for line in output.splitlines() if line.startswith("sum")}
    assert sums == {f"sum {int(expected(pictures).sum())}"}
    reads = [output.count("read") for output in outputs]
    assert sorted(reads) == [0, N]


def test_a_killed_builder_leaves_nothing_that_is_used(pictures):
    builder = start_builder(pictures, 0.3)
    try:
        for _ in range(3):
            assert builder.stdout.readline().startswith("read")
    finally:
        os.kill(builder.pid, signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
    folder = pictures.parent / "cache"
    left = [path.name for path in folder.iterdir()]
    assert any(name.endswith(".tmp") for name in left)
    assert not any(name.endswith((".json", ".npy")) for name in left)
    read = Reader(pictures)
    assert torch.equal(prepared(pictures, read).pixels, expected(pictures))
    assert read.count == N
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".lock", ".npy"]


def test_an_error_while_building_leaves_nothing(pictures):
    def stop(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared(pictures, progress=Progress(stop))
    assert [path.suffix for path in (pictures.parent / "cache").iterdir()] == [".lock"]


def test_few_images_are_held_at_a_time(pictures, monkeypatch):
    """Reading may only run a little ahead of writing, however slow the disk."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    read = Reader(pictures)
    ahead = []

    def report(what: str, done: int, total: int) -> None:
        time.sleep(0.001)
        ahead.append(read.count - done)

    many = 200
    prepare(
        names(many),
        lambda i: read(i % N),
        SQUARE,
        "many",
        folder=pictures.parent / "cache",
        progress=Progress(report),
    )
    assert max(ahead) <= 4


def test_a_lack_of_room_is_noticed_before_building(pictures, monkeypatch):
    usage = shutil.disk_usage(pictures)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    read = Reader(pictures)
    with pytest.raises(DataError, match=r"needs 0\.0 MB in .*cache.* --set cache=off"):
        prepared(pictures, read)
    assert read.count == 0
    assert prepared(pictures, read, keep=False).bad == {}


def test_a_disk_that_fills_up_is_reported_in_one_sentence(pictures, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(DataError, match=r"cache \(no space left on device\): .* --set cache=off"):
        prepared(pictures)
    assert [path.suffix for path in (pictures.parent / "cache").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_made(pictures):
    (pictures.parent / "taken").write_text("a file")
    with pytest.raises(DataError, match=r"cannot be written in .*taken.*--set cache=off"):
        prepared(pictures, folder=pictures.parent / "taken" / "cache")


def test_a_fingerprint_follows_names_sizes_and_times(pictures):
    known = {fingerprint_files(pictures, names())}
    assert fingerprint_files(pictures, names()) in known
    changed = [
        fingerprint_files(pictures, names()[::-1]),
        fingerprint_files(pictures, names()[1:]),
    ]
    os.utime(pictures / "0.png", ns=(0, 12345))
    changed.append(fingerprint_files(pictures, names()))
    with (pictures / "0.png").open("ab") as file:
        file.write(b"x")
    os.utime(pictures / "0.png", ns=(0, 12345))
    changed.append(fingerprint_files(pictures, names()))
    (pictures / "0.png").unlink()
    changed.append(fingerprint_files(pictures, names()))
    assert len({*known, *changed}) == 6


def test_clearing_removes_only_our_files(pictures, tmp_path):
    folder = tmp_path / "cache"
    assert clear(folder) == entries(folder) == (0, 0)
    prepared(pictures)
    prepared(pictures, geometry=Geometry(8))
    key = "0" * 32
    outside = tmp_path / "outside.npy"
    outside.write_bytes(b"precious")
    (folder / f"{key}.npy").symlink_to(outside)
    (folder / "notes.json").write_text("mine")
    (folder / f"{'1' * 32}.json").mkdir()
    count, size = entries(folder)
    assert count == 2
    assert size > 3 * N * (16 * 16 + 8 * 8)
    assert clear(folder) == (count, size)
    assert outside.read_bytes() == b"precious"
    left = {f"{key}.npy", "notes.json", f"{'1' * 32}.json"}
    assert {path.name for path in folder.iterdir()} == left
    assert torch.equal(prepared(pictures).pixels, expected(pictures))


def test_clearing_leaves_what_is_being_built(pictures):
    folder = pictures.parent / "cache"
    cleared = []

    def report(what: str, done: int, total: int) -> None:
        if done == 3:
            cleared.append(clear(folder))

    assert torch.equal(prepared(pictures, progress=Progress(report)).pixels, expected(pictures))
    assert cleared == [(0, 0)]
    assert entries(folder).entries == 1


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPARE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / "home/.cache/spare/images"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/spare/images"
    monkeypatch.setenv("SPARE_CACHE", "~/own")
    assert cache_folder() == tmp_path / "home/own/images"


def test_decoding_every_time_gives_the_same_batches_as_the_cache(pictures):
    how = {"augment": random_flip(), "finish": scale_bytes((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))}
    rows = np.array([5, 0, 3])
    cached = SubsetInputs(TensorInputs(prepared(pictures).pixels, **how), rows)
    decoded = SubsetInputs(DecodedInputs(Reader(pictures), N, SQUARE, **how), rows)
    assert len(cached) == len(decoded) == 3
    assert not decoded.in_memory
    indices = np.array([2, 0, 2, 1])
    for seed in (None, 0, 1):
        from_cache, from_files = (
            inputs.take(indices, None if seed is None else np.random.default_rng(seed))
            for inputs in (cached, decoded)
        )
        assert torch.equal(from_cache, from_files)
        assert from_cache.is_contiguous(memory_format=torch.channels_last)


def test_decoding_works_in_loader_processes(pictures):
    inputs = DecodedInputs(Reader(pictures), N, SQUARE, finish=scale_bytes())

    class Batches(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, number: int) -> torch.Tensor:
            return inputs.take(np.arange(3) + 3 * number)

    loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=1)
    assert torch.equal(torch.cat(list(loader)), inputs.take(np.arange(N)))


def test_an_image_that_has_gone_bad_is_named_by_its_row(pictures):
    inputs = SubsetInputs(DecodedInputs(Reader(pictures), N, SQUARE), np.array([4, 2]))
    (pictures / "2.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"image 2 .*empty file"):
        inputs.take(np.array([0, 1]))
    (pictures / "2.png").unlink()
    with pytest.raises(DataError, match=r"image 2 .*No such file"):
        inputs.take(np.array([0, 1]))


def test_an_entry_describes_itself(pictures):
    prepared(pictures)
    about = json.loads(entry_file(pictures, "json").read_text())
    assert about["n"] == N
    assert about["geometry"] == {"resize": 16, "center": 0, "keep_aspect": False}
    assert about["bad"] == {}


def test_a_large_image_is_refused_without_being_decoded(pictures):
    buffer = io.BytesIO()
    Image.new("1", (12000, 9000)).save(buffer, "PNG")
    (pictures / "0.png").write_bytes(buffer.getvalue())
    assert prepared(pictures, skip_bad=True).bad == {0: "too large: 12000 x 9000 pixels"}
