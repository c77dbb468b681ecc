"""Files and folders that are whole or not there: made under another name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spare.errors import InputError, RunError
from spare.text import shown

if TYPE_CHECKING:
    from torch import Tensor

Content = TypeVar("Content")

#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0
LOCK = ".lock"
#: How a folder's name ends while it is filled.
PARTIAL = ".partial"
#: What Linux and macOS allow, in bytes; room is left for the names that are used while writing.
MAX_NAME, MAX_PATH = 255, 4000
#: How files end that are removed when the folder is complete.
CHECKPOINT = ".checkpoint"
TEMPORARY = ".tmp"


def path_given(what: str, given: Any) -> Path:
    """A path that a person gave, `~` for their home; refused if no file can have such a name.

    >>> path_given("--out", "runs/one")
    PosixPath('runs/one')
    >>> path_given("--out", "a" * 300)
    Traceback (most recent call last):
    spare.errors.InputError: --out is a path of which a part has 300 bytes, and 255 is the most.
    """
    if not isinstance(given, str | bytes | os.PathLike):
        raise InputError(f"{what} is a path, not {shown(given)}.")
    text = os.fsdecode(given)
    try:
        encoded = os.fsencode(text)
        if not text or "\0" in text:
            raise ValueError
        path = Path(text).expanduser()
    except ValueError:  # what stands for no bytes at all is a ValueError too
        raise InputError(f"{what} is not a path: {shown(text)}.") from None
    except RuntimeError:
        raise InputError(
            f"{what} is {shown(text)}, and there is no such user: write ./ before it if it is a "
            f"folder."
        ) from None
    longest = max(map(len, encoded.split(b"/")))
    if longest > MAX_NAME or len(encoded) > MAX_PATH:
        part, count, most = "of which a part has", longest, MAX_NAME
        if longest <= MAX_NAME:
            part, count, most = "that has", len(encoded), MAX_PATH
        raise InputError(f"{what} is a path {part} {count:,} bytes, and {most:,} is the most.")
    return path


@contextlib.contextmanager
def no_empty_folders(folder: Path) -> Iterator[None]:
    """When the work within it fails, folders above `folder` that it made and left empty go again.

    So a command that is refused leaves nothing behind.
    """
    missing = [parent for parent in Path(os.path.abspath(folder)).parents if not parent.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: something is kept there
            for parent in missing:
                parent.rmdir()
        raise


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
    write_bytes(path, text.encode())


def write_text(path: Path, text: str) -> None:
    # A name on disk may hold bytes that are no text.
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_bytes(path: Path, content: bytes) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_atomic(path, write)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read as JSON ({error}): delete its folder and run again."
        ) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    from safetensors.torch import save

    on_host = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    write_bytes(path, save(on_host, metadata=dict(about)))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path} cannot be read ({error}): delete it and run the same command again."
        ) from error


def build_folder(
    folder: Path,
    mark: str,
    doing: str,
    find: Callable[[], Content | None],
    fill: Callable[[Path], Content],
) -> Content:
    """What `find` finds in a folder; if nothing, `fill` fills it under another name first.

    folder  its absolute path
    mark    the file that `fill` writes first: without it, `<folder>.partial` is someone else's
    doing   what a process that wants the folder meanwhile is told
    """
    if folder == Path.cwd():  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    content = find()
    if content is not None:
        return content
    partial = folder.with_name(f"{folder.name}{PARTIAL}")
    with _locked(partial, doing):
        content = find()
        if content is not None:  # made by another process, a moment ago
            _unlock(partial)
            return content
        if not (partial / mark).is_file() and os.listdir(partial) != [LOCK]:
            _unlock(partial)
            raise InputError(
                f"{partial} is in the way and was not made here: move it or choose another folder."
            )
        content = fill(partial)
        _complete(partial, folder)
    return content


def start_over(partial: Path, mark: str) -> None:
    """Remove what an interrupted process left, for work that cannot be continued."""
    try:
        # The mark goes last: an interruption in here leaves a folder that may still be emptied.
        for path in sorted(partial.iterdir(), key=lambda path: path.name == mark):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    except OSError as error:
        raise cannot_write(partial, error) from error


def _complete(partial: Path, folder: Path) -> None:
    try:
        for suffix in (CHECKPOINT, TEMPORARY):  # temporary files stay behind after a kill
            for path in partial.glob(f"*{suffix}"):
                path.unlink()
        os.replace(partial, folder)
        (folder / LOCK).unlink(missing_ok=True)  # not before: another process would leave one
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def _locked(partial: Path, doing: str) -> Iterator[None]:
    """One process per folder: a second one says so instead of mixing its files in."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            partial.mkdir(parents=True, exist_ok=True)
            lock = (partial / LOCK).open("w")
        except OSError as error:
            raise cannot_write(partial, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"another process is {doing} {partial}: wait for it or choose another "
                        f"folder."
                    ) from None
            else:
                yield
                return
        time.sleep(0.1)


def _unlock(partial: Path) -> None:
    """Take the lock away from a folder that was only looked at; the folder too if it is empty."""
    with contextlib.suppress(OSError):
        (partial / LOCK).unlink()
        partial.rmdir()
