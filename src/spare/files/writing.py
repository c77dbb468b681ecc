"""Files that are whole or not there: written under another name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spare.errors import RunError
from spare.files.reading import CHECKSUM, open_file, tensors_checksum

if TYPE_CHECKING:
    from torch import Tensor

TEMPORARY = ".tmp"
#: What `write_atomic` calls a file while it is not whole: the file's name, and the process.
TEMPORARY_NAME = re.compile(rf"\.(.+)\.\d+{re.escape(TEMPORARY)}", re.DOTALL)


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    A link at `path` is replaced, and what it leads to is not touched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_temporary_files(path.parent, path.name)
        with _new_file(temporary):
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[None]:
    """A file that was not there before, locked for as long as this process is writing it."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # of a killed process with our number, or a link that someone put there
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_temporary_files(folder: Path, name: str = "") -> None:
    """Remove what killed processes left when they wrote the file `name`, or any file."""
    with contextlib.suppress(OSError):
        for left in os.listdir(folder):
            match = TEMPORARY_NAME.fullmatch(left)
            if match is None or (name and match[1] != name):
                continue
            with contextlib.suppress(OSError), open_file(folder / left) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its process is gone
                (folder / left).unlink()


def cannot_write(path: Path, error: OSError) -> RunError:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "permission is denied",
        errno.EPERM: "permission is denied",
    }
    why = reasons.get(error.errno or 0, error.strerror or str(error))
    return RunError(
        f"cannot write {path}: {why}; what was written before is kept, so make room or choose "
        f"another --out and run the same command again."
    )


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A name on disk may hold bytes that are no text; JSON has an escape for them.
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_text(path: Path, text: str) -> None:
    # A name on disk may hold bytes that are no text.
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_bytes(path: Path, content: bytes) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_atomic(path, write)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    from safetensors.torch import save

    on_host = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    metadata = dict(about) | {CHECKSUM: tensors_checksum(on_host)}
    write_bytes(path, save(on_host, metadata=metadata))


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A temporary folder beside what is made of it; those of killed processes are removed."""
    for left in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(descriptor)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as temporary:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(temporary)
        finally:
            os.close(descriptor)
