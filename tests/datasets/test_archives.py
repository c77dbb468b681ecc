"""Downloads that are complete or not there, from a real server on this machine."""

from __future__ import annotations

import functools
import http.server
import io
import tarfile
import threading

import pytest

from spare.datasets import archives, waterbirds
from spare.datasets.archives import fetch_archive
from spare.errors import DataError, SpareWarning
from spare.synthetic.layouts import draw_waterbirds


@pytest.fixture
def server(tmp_path):
    """Serves tmp_path/web; gives its address."""
    (tmp_path / "web").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *given):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_waterbirds_is_fetched_unpacked_and_counted(server, tmp_path, monkeypatch):
    drawn = draw_waterbirds(tmp_path / "drawn", size=16, majority=2, per_group=1)
    (drawn / "drawn.json").unlink()
    with tarfile.open(tmp_path / "web" / "birds.tar.gz", "w:gz") as tar:
        tar.add(drawn, waterbirds.OFFICIAL_FOLDER)
    monkeypatch.setattr(waterbirds, "ARCHIVE", f"{server}/birds.tar.gz")
    data = tmp_path / "data"
    with pytest.raises(DataError, match="not the official data"):
        waterbirds.get(data, print)
    assert not waterbirds.present(data)
    content = waterbirds.content_of(waterbirds.listing_of(drawn))
    monkeypatch.setattr(waterbirds, "CONTENT", content)
    with pytest.warns(SpareWarning, match="train landbird/land has 2 instead of 3,498"):
        folder = waterbirds.get(data, print)
    assert (folder / "metadata.csv").is_file()
    assert waterbirds.present(data)
    assert [p.name for p in (data / "waterbirds").iterdir()] == [waterbirds.OFFICIAL_FOLDER]


@pytest.mark.parametrize(
    "what",
    [
        "missing",
        "cut off",
        "other",
        "leads out",
        "leads to the root",
        "link",
        "hard link",
        "device",
        "too large",
        "too many",
        "twice",
    ],
)
def test_a_wrong_archive_leaves_nothing_behind(server, tmp_path, what, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 150_000)
    monkeypatch.setattr(archives, "MOST_FILES", 3)
    path = tmp_path / "web" / "a.tar.gz"
    names = {
        "other": "elsewhere/x",
        "leads out": "inside/../../../secret",
        "leads to the root": str(tmp_path / "secret"),
    }
    kinds = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "device": tarfile.FIFOTYPE}
    if what != "missing":
        with tarfile.open(path, "w:gz") as tar:
            member = tarfile.TarInfo(names.get(what, "inside/x"))
            member.type = kinds.get(what, tarfile.REGTYPE)
            member.linkname = "/etc/passwd" if "link" in what else ""
            member.size = 0 if what in kinds else 100_000
            tar.addfile(member, io.BytesIO(bytes(member.size)))
            for number in range({"too large": 1, "too many": 4, "twice": 1}.get(what, 0)):
                another = tarfile.TarInfo(f"inside/{'x' if what == 'twice' else number}")
                another.size = 100_000 if what == "too large" else 10
                tar.addfile(another, io.BytesIO(bytes(another.size)))
    if what == "cut off":
        path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError):
        fetch_archive(f"{server}/a.tar.gz", tmp_path / "data" / "x", "inside")
    assert list((tmp_path / "data").iterdir()) == []
    assert not (tmp_path / "secret").exists()
    assert not (tmp_path / "data" / "secret").exists()


def test_a_download_without_end_is_cut_off(server, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    (tmp_path / "web" / "a.tar.gz").write_bytes(bytes(3_000_000))
    with pytest.raises(DataError, match="it has more than"):
        fetch_archive(f"{server}/a.tar.gz", tmp_path / "data" / "x", "inside")
    assert list((tmp_path / "data").iterdir()) == []
