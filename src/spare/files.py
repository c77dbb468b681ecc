"""Files and folders that are whole or not there: made under another name, then renamed.

What is read may have been put there by anyone: a file is opened only if it is one, and not a link,
a pipe or a device; and JSON is JSON, once, without NaN.

More than 300 lines, because what files and folders share (temporary names, locks, opening nothing
but files) is here and nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from spare.errors import InputError, RunError, SpareError, reason
from spare.limits import ARRAY, JSON

if TYPE_CHECKING:
    from torch import Tensor

Content = TypeVar("Content")

#: How long a second process waits for a folder: one that was just told to stop needs a moment.
LOCK_SECONDS = 5.0
LOCK = ".lock"
#: How a folder's name ends while it is filled.
PARTIAL = ".partial"
#: How files end that are removed when the folder is complete.
CHECKPOINT = ".checkpoint"
TEMPORARY = ".tmp"
#: What `write_atomic` calls a file while it is not whole: the file's name, and the process.
_TEMPORARY_NAME = re.compile(rf"\.(.+)\.\d+{re.escape(TEMPORARY)}", re.DOTALL)
#: Where a file of tensors says what its bytes add up to.
CHECKSUM = "crc32"
#: JSON holds larger numbers than anything here can count or compute with.
LARGEST_WHOLE_NUMBER = 2**63 - 1


def user_cache() -> Path:
    """SPARE_CACHE if that is set, otherwise spare in the user's cache folder."""
    if chosen := os.environ.get("SPARE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spare"


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    A link at `path` is replaced, and what it leads to is not touched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_temporary_files(path.parent, path.name)
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


def _remove_temporary_files(folder: Path, name: str = "") -> None:
    """Remove what killed processes left when they wrote the file `name`, or any file."""
    with contextlib.suppress(OSError):
        for left in os.listdir(folder):
            match = _TEMPORARY_NAME.fullmatch(left)
            if match is None or (name and match[1] != name):
                continue
            with contextlib.suppress(OSError), open_file(folder / left) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its process is gone
                (folder / left).unlink()


def tidy(folder: Path) -> None:
    """Remove what a process left that was killed just before or after a folder was complete."""
    _remove_temporary_files(folder)
    with contextlib.suppress(OSError):
        (folder / LOCK).unlink()


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


def open_file(path: Path) -> BinaryIO:
    """Open a file to read it; OSError if it is a link, or something that may never answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file")
    return os.fdopen(descriptor, "rb")


def file_size(path: Path) -> int:
    """The size of a file that `open_file` can open; OSError otherwise."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def why_not(error: BaseException) -> str:
    """What keeps a file from being read, in a few words."""
    if isinstance(error, OSError):
        if error.errno == errno.ELOOP:
            return "it is a link: put the file itself there"
        if error.strerror:
            return error.strerror.lower()
    return reason(error)  # pyarrow's are OSErrors of several lines


def read_json(path: Path) -> Any:
    """What a JSON file holds; an error if it is damaged, or holds what no file of ours does."""
    try:
        JSON.check(file_size(path), str(path))
        with open_file(path) as file:
            return parse_json(file.read())
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read as JSON ({why_not(error)}): delete its folder and run again."
        ) from error


def parse_json(content: bytes | str) -> Any:
    """JSON as its standard has it; ValueError for anything else.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: 'a' is in it twice
    """
    try:
        return json.loads(
            content.decode("utf-8") if isinstance(content, bytes) else content,
            object_pairs_hook=_without_repetition,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_countable,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is in it twice")
    return values


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _countable(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST_WHOLE_NUMBER:
        raise ValueError(f"{text[:40]} is too large a number")
    return int(text)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    from safetensors.torch import save

    on_host = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    metadata = dict(about) | {CHECKSUM: _checksum(on_host)}
    write_bytes(path, save(on_host, metadata=metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import safe_open

    try:
        ARRAY.check(file_size(path), str(path))  # a tensor is as large there as in memory
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
            about = dict(file.metadata() or {})
        if about.pop(CHECKSUM, None) not in (None, _checksum(tensors)):
            raise ValueError("its bytes have changed since they were written")
        return tensors, about
    except SpareError:
        raise
    except Exception as error:  # its own errors, and whatever torch makes of an odd type or shape
        raise RunError(
            f"{path} cannot be read ({why_not(error)}): delete it and run the same command again."
        ) from error


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """Changes when a byte of a tensor does, as it may on a disk that is failing."""
    import torch

    value = 0
    for name in sorted(tensors):
        data: Any = tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy()
        value = zlib.crc32(data, zlib.crc32(name.encode(), value))
    return f"{value:08x}"


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


def build_folder(
    folder: Path,
    mark: str,
    doing: str,
    find: Callable[[], Content | None],
    fill: Callable[[Path], Content],
) -> Content:
    """What `find` finds in a folder; if nothing, `fill` fills it under another name first.

    folder  its absolute path
    mark    the file that `fill` writes first: without it, `<folder>.partial` is someone else's,
            unless a process was killed before it could write anything
    doing   what a process that wants the folder meanwhile is told
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise RunError("the folder you are in is gone: go to another one.") from None
    if folder == here:  # it would be replaced under the feet of whoever stands in it
        raise RunError(f"{folder} is the folder you are in: name one within it with --out.")
    partial = folder.with_name(f"{folder.name}{PARTIAL}")
    content = find()
    if content is not None:
        if _holds_only_leftovers(partial):  # of a process that came too late, and was killed
            _abandon(partial)
        return content
    if os.path.lexists(partial) and not _is_ours(partial, mark):
        raise InputError(
            f"{partial} is in the way and was not made here: move it or choose another folder."
        )
    with _locked(partial, doing):
        content = find()
        if content is not None:  # made by another process, a moment ago
            _abandon(partial)
            return content
        content = fill(partial)
        _complete(partial, folder)
    return content


def is_plain_file(path: Path) -> bool:
    """Whether there is a file, and not a link to one or anything else."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


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


def discard(partial: Path, mark: str) -> None:
    """Remove an unfinished folder from which nothing can be continued."""
    with contextlib.suppress(RunError):
        start_over(partial, mark)
        _abandon(partial)


def _complete(partial: Path, folder: Path) -> None:
    try:
        for path in list(partial.iterdir()):  # temporary files stay behind after a kill
            if path.suffix == CHECKPOINT or _TEMPORARY_NAME.fullmatch(path.name):
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
            # No link is followed, nothing is emptied, and a pipe is not waited for.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = os.open(partial / LOCK, flags, 0o666)
        except OSError as error:
            raise cannot_write(partial, error) from error
        try:
            if _lock_taken(lock, partial / LOCK):
                yield
                return
        finally:
            os.close(lock)
        if time.monotonic() > deadline:
            raise RunError(
                f"another process is {doing} {partial}: wait for it or choose another folder."
            )
        time.sleep(0.1)


def _lock_taken(lock: int, path: Path) -> bool:
    """Whether this process has the lock now, and it is still the one of the folder."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.lstat(path), os.fstat(lock))
    except (BlockingIOError, FileNotFoundError):
        return False


def _is_ours(partial: Path, mark: str) -> bool:
    return not partial.is_symlink() and (
        is_plain_file(partial / mark) or _holds_only_leftovers(partial)
    )


def _holds_only_leftovers(partial: Path) -> bool:
    """Whether a folder has nothing but what a process leaves that was killed at its first write."""
    try:
        return not partial.is_symlink() and all(
            (name == LOCK or _TEMPORARY_NAME.fullmatch(name)) and is_plain_file(partial / name)
            for name in os.listdir(partial)
        )
    except OSError:
        return False


def _abandon(partial: Path) -> None:
    """Take our own away from a folder that is not filled; the folder too if it is then empty."""
    with contextlib.suppress(OSError):
        _remove_temporary_files(partial)
        (partial / LOCK).unlink(missing_ok=True)
        partial.rmdir()
