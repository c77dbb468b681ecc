"""Every image decoded once, kept on disk at the size that is trained on.

An entry is `<key>.npy` (the pixels, mapped into memory when used) and `<key>.json` (what was found,
the bad images too), written last: without it there is no entry. A lock lets one process build while
others wait for it. Where there is no room for a cache, `DecodedInputs` decodes every time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import apply
from spare.data.transforms import RandomTransform, Transform
from spare.errors import DataError, RunError
from spare.files import write_atomic, write_text
from spare.images.decode import BadImage, Geometry, decode, fit

Read = Callable[[int], bytes]

#: Part of every key: a new number when the same files would give other pixels or another layout.
FORMAT = 1

_UNREADABLE = "cannot be read: "
_SHOWN = 3
#: What this module leaves in a folder, whole or half-written; nothing else is ever removed.
_OURS = re.compile(r"\.?[0-9a-f]{32}\.(npy|json|lock|bad\.txt)(\.\d+\.tmp)?")


@dataclass(frozen=True)
class Prepared:
    """pixels: uint8 (n, 3, size, size), zero where an image is bad. bad: reasons, by row. sizes:
    (n, 2), height and width of each image as it was, 0 where it is bad."""

    pixels: Tensor | None
    bad: dict[int, str]
    #: None in entries that were made before sizes were kept.
    sizes: np.ndarray | None


class Usage(NamedTuple):
    entries: int
    bytes: int


def cache_folder() -> Path:
    """SPARE_CACHE/images if that is set, otherwise spare/images in the user's cache folder."""
    if own := os.environ.get("SPARE_CACHE"):
        return Path(own).expanduser() / "images"
    general = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(general).expanduser() / "spare" / "images"


def fingerprint_files(root: Path, names: Sequence[str]) -> str:
    """Stands for the content of these files: changes with any name, size or time of change."""
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
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Prepared:
    """All images at one size, from the cache in `folder`, which is built if need be.

    names        what a person knows the images by, in the order of the rows.
    read         gives the bytes of image i; called from several threads at once.
    fingerprint  stands for the content of all images; see `fingerprint_files`.
    keep         False: only find the bad images and remember them, without keeping pixels.
    skip_bad     leave bad images to the caller (in `Prepared.bad`) instead of raising.
    report       told (images done, images in all), in the calling thread.
    """
    if not names:
        raise DataError("there are no images to prepare: check the folder and the list of files.")
    entry = _Entry(folder, _key(fingerprint, geometry, keep), len(names), geometry, keep)
    prepared = entry.load(read)
    if prepared is None:
        with _own_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(entry.path("lock")):
                prepared = entry.load(read)  # another process may have built it meanwhile
                if prepared is None:
                    entry.build(read, report)
                    prepared = entry.load()
    if prepared is None:
        raise DataError(
            f"the image cache {entry.path('npy')} changed while it was made: run the same command "
            f"again, or turn the cache off with --set cache=off."
        )
    if len(prepared.bad) == len(names) or (prepared.bad and not skip_bad):
        with _own_errors(folder):
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
        """Of the pixels on disk: channels last, which makes a batch of floats far sooner."""
        return (self.n, self.geometry.resize, self.geometry.resize, 3)

    def about(self) -> dict[str, object]:
        return {"format": FORMAT, "n": self.n, "geometry": asdict(self.geometry)}

    def load(self, read: Read | None = None) -> Prepared | None:
        """The entry if it is there and whole; with `read`, only if unreadable files still are."""
        try:
            found = json.loads(self.path("json").read_text(encoding="utf-8"))
            if {name: found[name] for name in self.about()} != self.about():
                return None
            bad = {int(row): str(reason) for row, reason in found["bad"].items()}
            pixels = self._map() if self.keep else None
            sizes = None
            if "sizes" in found:
                sizes = np.array(found["sizes"], dtype=np.int64).reshape(self.n, 2)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # not there, or damaged: built anew
        if read is not None and any(_readable(read, row) for row, why in bad.items() if _lost(why)):
            return None
        return Prepared(pixels, bad, sizes)

    def _map(self) -> Tensor:
        # Mode "c" (writes stay in memory) because torch warns about memory it may not write to.
        pixels = np.lib.format.open_memmap(self.path("npy"), mode="c")
        if pixels.shape != self.shape or pixels.dtype != np.uint8:
            raise ValueError("the pixels are not those that the entry describes")
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def build(self, read: Read, report: Callable[[int, int], None]) -> None:
        """Make the entry; the lock is held, so whatever of this key is lying about is left over."""
        self._remove()
        bad: dict[int, str] = {}
        sizes: list[int] = []
        try:
            if self.keep:
                _check_room(self.folder, int(np.prod(self.shape)))
                write_atomic(
                    self.path("npy"), lambda path: self._write(path, read, report, bad, sizes)
                )
            else:
                for row, result in enumerate(_in_threads(read, self.n, None)):
                    _note(row, result, bad, sizes)
                    report(row + 1, self.n)
            found = {**self.about(), "bad": {str(row): why for row, why in bad.items()}}
            text = json.dumps({**found, "sizes": sizes}, separators=(",", ":"))
            write_text(self.path("json"), text)
        except BaseException:
            self._remove()
            raise

    def _write(
        self,
        path: Path,
        read: Read,
        report: Callable[[int, int], None],
        bad: dict[int, str],
        sizes: list[int],
    ) -> None:
        # Written row after row and not through a memory map: on a full disk that would be a signal
        # that ends the process, where this is an error.
        header = {"descr": "|u1", "fortran_order": False, "shape": self.shape}
        blank = bytes(int(np.prod(self.shape[1:])))
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for row, result in enumerate(_in_threads(read, self.n, self.geometry)):
                _note(row, result, bad, sizes)
                if isinstance(result, str):
                    file.write(blank)
                else:
                    file.write(result.pixels.permute(1, 2, 0).contiguous().numpy().data)
                report(row + 1, self.n)

    def _remove(self) -> None:
        for path in _our_files(self.folder, self.key):
            if path.suffix != ".lock":
                path.unlink()


class _Decoded(NamedTuple):
    pixels: Tensor
    height: int
    width: int


def _note(row: int, result: _Decoded | str, bad: dict[int, str], sizes: list[int]) -> None:
    if isinstance(result, str):
        bad[row] = result
        sizes += [0, 0]
    else:
        sizes += [result.height, result.width]


def _in_threads(read: Read, n: int, geometry: Geometry | None) -> Iterator[_Decoded | str]:
    """For every image in order its pixels or, if it is bad, the reason; a few at a time.

    Decoding lets go of the interpreter's lock, so threads are enough. Without a geometry, good
    images give an empty tensor: they were decoded to see whether they can be.
    """

    def one(row: int) -> _Decoded | str:
        try:
            image = decode(read(row))
        except BadImage as error:
            return str(error)
        except OSError as error:
            return f"{_UNREADABLE}{error.strerror or error}"
        pixels = torch.empty(0) if geometry is None else fit(image, geometry)
        return _Decoded(pixels, image.shape[1], image.shape[2])

    threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[_Decoded | str]] = deque()
    try:
        for row in range(n):
            waiting.append(pool.submit(one, row))
            if len(waiting) >= 4 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _lost(reason: str) -> bool:
    return reason.startswith(_UNREADABLE)


def _readable(read: Read, row: int) -> bool:
    try:
        read(row)
    except OSError:
        return False
    return True


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"the image cache needs {_size(needed)} in {folder}, where {_size(free)} are free: "
            f"make room, set SPARE_CACHE to another folder, or use --set cache=off, which decodes "
            f"the images every time instead."
        )


def _size(n: float) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def _bad_images(names: Sequence[str], bad: dict[int, str], listing: Path) -> DataError:
    lines = [f"{_one_line(names[row])}\t{_one_line(reason)}\n" for row, reason in bad.items()]
    text = "".join(lines).encode("utf-8", "surrogateescape")
    if not (listing.is_file() and listing.read_bytes() == text):
        write_atomic(listing, lambda path: _write(path, text))
    first = [f"{_one_line(names[row])} ({reason})" for row, reason in list(bad.items())[:_SHOWN]]
    more = ", ..." if len(bad) > _SHOWN else ""
    everything = len(bad) == len(names)
    advice = (
        "none is left to train on, so check where the images are"
        if everything
        else "put them right, or leave them out with --skip-bad"
    )
    return DataError(
        f"{len(bad):,} of {len(names):,} images cannot be used: {', '.join(first)}{more}; the "
        f"complete list is {listing}; {advice}."
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _own_errors(folder: Path) -> Iterator[None]:
    """Trouble with the cache's own files, as a sentence that says what else can be done."""
    try:
        yield
    except (OSError, RunError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = (getattr(cause, "strerror", None) or str(cause)).lower()
        raise DataError(
            f"the image cache cannot be written in {folder} ({why}): make that possible, set "
            f"SPARE_CACHE to another folder, or use --set cache=off, which decodes the images "
            f"every time instead."
        ) from error


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock file; a process that dies lets go of it. Without `wait`: OSError if taken."""
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same_file(file.fileno(), path):
                continue  # `clear` removed it while we were waiting
            yield
            return


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _our_files(folder: Path, key: str = "") -> list[Path]:
    """The files in `folder` that this module makes: no folders, no links, nobody else's.

    With a key, only those of this entry.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return [
            Path(item.path)
            for item in found
            if _OURS.fullmatch(item.name)
            and item.name.lstrip(".").startswith(key)
            and item.is_file(follow_symlinks=False)
        ]


def entries(folder: Path) -> Usage:
    """How many complete entries `folder` holds, and the bytes of everything this module left."""
    return _usage(_our_files(folder))


def _usage(files: Sequence[Path]) -> Usage:
    return Usage(
        sum(path.suffix == ".json" for path in files),
        sum(path.lstat().st_size for path in files),
    )


def clear(folder: Path) -> Usage:
    """Remove every entry that no process is building at this moment; says what was removed."""
    count = size = 0
    with _own_errors(folder):
        for key in sorted({path.name.lstrip(".")[:32] for path in _our_files(folder)}):
            lock = folder / f"{key}.lock"
            try:
                with _locked(lock, wait=False):
                    files = _our_files(folder, key)
                    removed = _usage(files)
                    for path in files:
                        path.unlink()
            except BlockingIOError:
                continue
            count, size = count + removed.entries, size + removed.bytes
    return Usage(count, size)


class DecodedInputs:
    """Images decoded every time they are asked for: no disk used, the processor's time instead.

    `read` gives the bytes of an image by its row; `rows` are the rows of this split.
    """

    in_memory = False

    def __init__(
        self,
        read: Read,
        geometry: Geometry,
        *,
        rows: np.ndarray,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
    ):
        self.read = read
        self.geometry = geometry
        self.rows = rows
        self.view = view
        self.augment = augment
        self.finish = finish

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        images = [self._image(int(row)).permute(1, 2, 0) for row in self.rows[indices]]
        batch = torch.stack(images).permute(0, 3, 1, 2)  # channels last, as decoded: no reordering
        return apply(batch, rng, self.view, self.augment, self.finish)

    def _image(self, row: int) -> Tensor:
        try:
            return fit(decode(self.read(row)), self.geometry)
        except (BadImage, OSError) as error:
            raise DataError(
                f"image {row} (counted from 0 in the list of images) cannot be used: {error}; "
                f"was it changed after the run began?"
            ) from error
