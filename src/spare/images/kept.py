"""An array that is computed from images once and kept in the cache beside their pixels.

An entry is `<key>.npy`, mapped into memory when used, and `<key>.json`, written last: without it
there is no entry. A lock lets one process compute while others wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from spare.files.writing import write_atomic, write_text
from spare.images.cache import cache_errors, check_room, locked

INSTEAD = "train all layers"


def kept_array(
    folder: Path, key: str, count: int, parts: Callable[[], Iterable[np.ndarray]]
) -> np.ndarray:
    """The array of this key, mapped from its file, which is written first if it is not there.

    Parameters
    ----------
    key
        32 hexadecimal digits that identify whatever the array is made of.
    count
        How many rows it has.
    parts
        Makes it, a few rows at a time, all of one shape and type.
    """
    array = _loaded(folder, key, count)
    if array is not None:
        return array
    with cache_errors(folder, INSTEAD):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{key}.lock"):
            array = _loaded(folder, key, count)  # another process may have made it meanwhile
            if array is None:
                write_atomic(
                    folder / f"{key}.npy", lambda path: _write(path, folder, count, parts())
                )
                write_text(folder / f"{key}.json", json.dumps({"rows": count}))
                array = _loaded(folder, key, count)
    assert array is not None
    return array


def _loaded(folder: Path, key: str, count: int) -> np.ndarray | None:
    try:
        about = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        # Mode "c" (writes stay in memory) because torch warns about memory it may not write to.
        array = np.lib.format.open_memmap(folder / f"{key}.npy", mode="c")
        return array if about == {"rows": count} and len(array) == count else None
    except (OSError, ValueError):
        return None  # missing or damaged: made again


def _write(path: Path, folder: Path, count: int, parts: Iterable[np.ndarray]) -> None:
    # Not through a memory map: on a full disk, writing to a map ends the process with a signal,
    # where this raises an error.
    with path.open("wb") as file:
        written = 0
        for part in parts:
            if not written:
                shape = (count, *part.shape[1:])
                check_room(folder, count * part[:1].nbytes, INSTEAD)
                header = {"descr": part.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(part).data)
            written += len(part)
    assert written == count, "an array has as many rows as were announced"
