"""Every image decoded once, kept on disk at the size that is trained on.

An entry is `<key>.npy` (the pixels, mapped into memory when used) and `<key>.json` (what was found,
the bad images too), written last: without it there is no entry. A lock lets one process build while
others wait for it. Where there is no room for a cache, `DecodedInputs` decodes every time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.errors import DataError
from spare.files.writing import write_atomic, write_text
from spare.images.cache import cache_errors, check_room, locked, our_files
from spare.images.decode import Decoded, Geometry
from spare.images.decoded import UNREADABLE, Read, decode_all
from spare.progress import SILENT, Progress

#: Part of every key: raised when the same files would give other pixels or another layout.
FORMAT = 1

#: Bad images that an error names itself; a file that it points to lists them all.
_SHOWN = 3


@dataclass(frozen=True)
class Prepared:
    """All images of a data set at one size, and which of them are bad."""

    #: Bytes (n, 3, size, size), zero where an image is bad; None if they are not kept.
    pixels: Tensor | None
    #: Why an image is bad, by row.
    bad: dict[int, str]
    #: (n, 2), height and width of each image before it was resized, 0 where it is bad; None in
    #: entries that were made before sizes were kept.
    sizes: np.ndarray | None


def fingerprint_files(root: Path, names: Sequence[str]) -> str:
    """Identifies the content of these files: changes with any name, size or time of change."""
    digest = hashlib.sha256()
    for name in names:
        try:
            status = os.stat(os.path.join(root, name))
            about = f"{status.st_size} {status.st_mtime_ns}"
        except OSError:
            about = "missing"
        digest.update(os.fsencode(name) + b"\0" + about.encode() + b"\0")
    return digest.hexdigest()


def prepare(
    names: Sequence[str],
    read: Read,
    geometry: Geometry,
    fingerprint: str,
    *,
    folder: Path,
    keep: bool = True,
    skip_bad: bool = False,
    progress: Progress = SILENT,
) -> Prepared:
    """All images at one size, from the cache in `folder`, which is built if necessary.

    Parameters
    ----------
    names : sequence of str
        What people know the images by, one per row.
    read : callable
        Returns the bytes of image i; called from several threads at once.
    geometry : Geometry
        The steps from a decoded image to its pixels.
    fingerprint : str
        Identifies the content of all images; see `fingerprint_files`.
    folder : Path
        The cache.
    keep : bool
        False: only find the bad images and remember them, without keeping pixels.
    skip_bad : bool
        Leave bad images to the caller (in `Prepared.bad`) instead of raising.
    progress : Progress
        Told of "images", in the calling thread.
    """
    if not names:
        raise DataError("there are no images to prepare: check the folder and the list of files.")
    entry = _Entry(folder, _key(fingerprint, geometry, keep), len(names), geometry, keep)
    prepared = entry.load(read)
    if prepared is None:
        with cache_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with locked(entry.path("lock")):
                prepared = entry.load(read)  # another process may have built it meanwhile
                if prepared is None:
                    entry.build(read, progress)
                    prepared = entry.load()
    if prepared is None:
        raise DataError(
            f"the image cache {entry.path('npy')} changed while it was made: run the same command "
            f"again, or turn the cache off with --set cache=off."
        )
    if len(prepared.bad) == len(names) or (prepared.bad and not skip_bad):
        with cache_errors(folder):
            raise _bad_images(names, prepared.bad, entry.path("bad.txt"))
    return prepared


def _key(fingerprint: str, geometry: Geometry, keep: bool) -> str:
    parts = json.dumps([FORMAT, fingerprint, asdict(geometry), keep])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Entry:
    folder: Path
    key: str
    n: int
    geometry: Geometry
    keep: bool

    def path(self, kind: str) -> Path:
        return self.folder / f"{self.key}.{kind}"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the pixels on disk: channels last, from which a batch of floats is made far faster."""
        return (self.n, self.geometry.resize, self.geometry.resize, 3)

    def about(self) -> dict[str, object]:
        return {"format": FORMAT, "n": self.n, "geometry": asdict(self.geometry)}

    def load(self, read: Read | None = None) -> Prepared | None:
        """The entry if it is complete; with `read`, only if unreadable files still are."""
        try:
            about = json.loads(self.path("json").read_text(encoding="utf-8"))
            if {name: about[name] for name in self.about()} != self.about():
                return None
            bad = {int(row): str(reason) for row, reason in about["bad"].items()}
            pixels = self._mapped() if self.keep else None
            sizes = None
            if "sizes" in about:
                sizes = np.array(about["sizes"], dtype=np.int64).reshape(self.n, 2)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # missing or damaged: built again
        if read is not None and any(_readable(read, row) for row, why in bad.items() if _lost(why)):
            return None
        return Prepared(pixels, bad, sizes)

    def _mapped(self) -> Tensor:
        # Mode "c" (writes stay in memory) because torch warns about memory it may not write to.
        pixels = np.lib.format.open_memmap(self.path("npy"), mode="c")
        if pixels.shape != self.shape or pixels.dtype != np.uint8:
            raise ValueError("the pixels are not those that the entry describes")
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def build(self, read: Read, progress: Progress) -> None:
        """Make the entry. The lock is held, so any files of this key are leftovers."""
        self._remove()
        bad: dict[int, str] = {}
        sizes: list[int] = []
        try:
            if self.keep:
                check_room(self.folder, int(np.prod(self.shape)))
                write_atomic(
                    self.path("npy"), lambda path: self._write(path, read, progress, bad, sizes)
                )
            else:
                for row, result in enumerate(decode_all(read, self.n, None)):
                    _record(row, result, bad, sizes)
                    progress.report("images", row + 1, self.n)
            reasons = {str(row): why for row, why in bad.items()}
            about = {**self.about(), "bad": reasons, "sizes": sizes}
            text = json.dumps(about, separators=(",", ":"))
            write_text(self.path("json"), text)
        except BaseException:
            self._remove()
            raise

    def _write(
        self,
        path: Path,
        read: Read,
        progress: Progress,
        bad: dict[int, str],
        sizes: list[int],
    ) -> None:
        # Row by row and not through a memory map: on a full disk, writing to a map ends the process
        # with a signal, where this raises an error.
        header = {"descr": "|u1", "fortran_order": False, "shape": self.shape}
        blank = bytes(int(np.prod(self.shape[1:])))
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for row, result in enumerate(decode_all(read, self.n, self.geometry)):
                _record(row, result, bad, sizes)
                if isinstance(result, str):
                    file.write(blank)
                else:
                    file.write(result.pixels.permute(1, 2, 0).contiguous().numpy().data)
                progress.report("images", row + 1, self.n)

    def _remove(self) -> None:
        for path in our_files(self.folder, self.key):
            if path.suffix != ".lock":
                path.unlink()


def _record(row: int, result: Decoded | str, bad: dict[int, str], sizes: list[int]) -> None:
    if isinstance(result, str):
        bad[row] = result
        sizes += [0, 0]
    else:
        sizes += [result.height, result.width]


def _lost(reason: str) -> bool:
    return reason.startswith(UNREADABLE)


def _readable(read: Read, row: int) -> bool:
    try:
        read(row)
    except OSError:
        return False
    return True


def _bad_images(names: Sequence[str], bad: dict[int, str], listing: Path) -> DataError:
    lines = [f"{_one_line(names[row])}\t{_one_line(reason)}\n" for row, reason in bad.items()]
    text = "".join(lines).encode("utf-8", "surrogateescape")
    if not (listing.is_file() and listing.read_bytes() == text):
        write_atomic(listing, lambda path: _write(path, text))
    first = [f"{_one_line(names[row])} ({reason})" for row, reason in list(bad.items())[:_SHOWN]]
    more = ", ..." if len(bad) > _SHOWN else ""
    advice = (
        "none is left to train on, so check where the images are"
        if len(bad) == len(names)
        else "repair them, or leave them out with --skip-bad"
    )
    return DataError(
        f"{len(bad):,} of {len(names):,} images cannot be used: {', '.join(first)}{more}; the "
        f"complete list is {listing}; {advice}."
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _one_line(text: str) -> str:
    return " ".join(text.split())
