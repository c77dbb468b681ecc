"""Archives from the network: unpacked completely or not at all, and never outside their folder."""

from __future__ import annotations

import http.client
import os
import shutil
import tarfile
import urllib.request
from pathlib import Path

from spare.errors import DataError
from spare.files import scratch_folder


def fetch_archive(url: str, folder: Path, inside: str) -> None:
    """Fetch a tar archive and unpack its folder `inside` as `folder`."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, because a system's temporary folder is often too small.
        with scratch_folder(folder.parent, ".fetching-") as temporary:
            archive = temporary / "archive"
            with urllib.request.urlopen(url, timeout=60) as source, archive.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            unpacked = temporary / "unpacked"
            with tarfile.open(archive) as tar:
                _unpack(tar, unpacked)
            if not (unpacked / inside).is_dir():
                raise DataError(
                    f"{url} does not hold a folder {inside}: it is not the right archive."
                )
            os.replace(unpacked / inside, folder)
    except (OSError, EOFError, ValueError, http.client.HTTPException, tarfile.TarError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{url} could not be fetched and unpacked into {folder} ({reason}): fetch it by hand "
            f"and unpack it there."
        ) from error


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack plain folders and files: no links, no devices, nothing that leads out of the folder.

    (tarfile's own filter is not in the first releases of Python 3.11.)
    """
    for member in tar:
        path = folder / member.name
        if ".." in Path(member.name).parts or not path.is_relative_to(folder):
            raise ValueError(f"{member.name!r} leads out of the archive")
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        content = tar.extractfile(member) if member.isfile() else None
        if content is None:
            raise ValueError(f"{member.name!r} is neither a file nor a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
