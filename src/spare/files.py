"""Files that are either whole or not there: written beside, then renamed. No pickles."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spare.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


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
    write_atomic(path, lambda temporary: _write_bytes(temporary, text.encode()))


def write_text(path: Path, text: str) -> None:
    # A name on disk may hold bytes that are no text.
    content = text.encode("utf-8", errors="replace")
    write_atomic(path, lambda temporary: _write_bytes(temporary, content))


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read as JSON ({error}): delete its folder and run again."
        ) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    from safetensors.torch import save

    whole = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(whole, metadata=dict(about))
    write_atomic(path, lambda temporary: _write_bytes(temporary, content))


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
