"""Archives from the network: unpacked completely or not at all, and never outside their folder."""

from __future__ import annotations

import http.client
import lzma
import os
import tarfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from spare.errors import DataError
from spare.files.writing import scratch_folder

#: No archive that is fetched here is larger, packed or unpacked, or has more files.
MOST_BYTES = 4_000_000_000
MOST_FILES = 100_000


def fetch_archive(
    url: str, folder: Path, inside: str, check: Callable[[Path], None] = lambda unpacked: None
) -> None:
    """Fetch a tar archive and unpack its folder `inside` as `folder`.

    `check` raises if what was unpacked is not what was meant; then nothing is kept.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, because a system's temporary folder is often too small.
        with scratch_folder(folder.parent, ".fetching-") as temporary:
            archive = temporary / "archive"
            with urllib.request.urlopen(url, timeout=60) as source, archive.open("wb") as file:
                _copy(source, file, MOST_BYTES)
            unpacked = temporary / "unpacked"
            with tarfile.open(archive) as tar:
                _unpack(tar, unpacked)
            if not (unpacked / inside).is_dir():
                raise DataError(
                    f"{url} does not hold a folder {inside}: it is not the right archive."
                )
            check(unpacked / inside)
            os.replace(unpacked / inside, folder)
    except (
        OSError,
        EOFError,
        ValueError,
        zlib.error,
        lzma.LZMAError,
        http.client.HTTPException,
        tarfile.TarError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{url} could not be fetched and unpacked into {folder} ({reason}): fetch it by hand "
            f"and unpack it there."
        ) from error


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack plain folders and files: no links, no devices, nothing that leads out of the folder.

    What is written is counted, whatever sizes the archive claims. (tarfile's own filter is not in
    the first releases of Python 3.11.)
    """
    room = MOST_BYTES
    for number, member in enumerate(tar):
        if number >= MOST_FILES:
            raise ValueError(f"the archive has more than {MOST_FILES:,} files")
        path = folder / member.name
        if ".." in Path(member.name).parts or not path.is_relative_to(folder):
            raise ValueError(f"{member.name!r} leads out of the archive")
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        plain = member.isfile() and not member.issparse()
        content = tar.extractfile(member) if plain else None
        if content is None:
            raise ValueError(f"{member.name!r} is neither a plain file nor a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("xb") as file:
            room -= _copy(content, file, room)


def _copy(source: Any, file: BinaryIO, most: int) -> int:
    """Copy up to `most` bytes, and say how many there were; more are an error."""
    copied = 0
    while block := source.read(1 << 20):
        copied += len(block)
        if copied > most:
            raise ValueError(f"it has more than {MOST_BYTES / 1e9:.0f} GB")
        file.write(block)
    return copied
