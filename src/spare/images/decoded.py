"""Many images decoded: all of them once, in threads, or batch by batch whenever they are needed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import transformed
from spare.data.transforms import RandomTransform, Transform
from spare.errors import DataError
from spare.files.reading import read_bytes
from spare.images.decode import BadImage, Decoded, Geometry, decode_to
from spare.limits import PICTURE

#: Returns the bytes of an image, by its row.
Read = Callable[[int], bytes]

#: How the reason for a bad image begins when its file could not be read: that may change.
UNREADABLE = "cannot be read: "


#: No picture has more bytes per pixel, even where nothing is compressed.
BYTES_PER_PIXEL = 8


def read_image(path: Path) -> bytes:
    """The bytes of an image's file; OSError for one that is no file, or too large for an image."""
    return read_bytes(path, BYTES_PER_PIXEL * PICTURE.value() + 1_000_000)


def decode_all(read: Read, count: int, geometry: Geometry | None) -> Iterator[Decoded | str]:
    """For every image, in order, its pixels or the reason why it is bad; a few at a time.

    Decoding releases the interpreter's lock, so threads are enough. Without a geometry, the pixels
    of good images are empty: they were decoded only to see whether they can be.
    """

    def decode_row(row: int) -> Decoded | str:
        try:
            return decode_to(read(row), geometry)
        except BadImage as error:
            return str(error)
        except OSError as error:
            return f"{UNREADABLE}{error.strerror or error}"

    threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Decoded | str]] = deque()
    try:
        for row in range(count):
            waiting.append(pool.submit(decode_row, row))
            if len(waiting) >= 4 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class DecodedInputs:
    """Images decoded every time they are needed: costs processor time instead of disk space."""

    in_memory = False

    def __init__(
        self,
        read: Read,
        count: int,
        geometry: Geometry,
        *,
        view: Transform | None = None,
        augment: RandomTransform | None = None,
        finish: Transform | None = None,
    ):
        self.read = read
        self.count = count
        self.geometry = geometry
        self.view = view
        self.augment = augment
        self.finish = finish

    def __len__(self) -> int:
        return self.count

    def take(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        images = [self._image(int(row)).permute(1, 2, 0) for row in indices]
        batch = torch.stack(images).permute(0, 3, 1, 2)  # channels last, as decoded: no reordering
        return transformed(batch, rng, self.view, self.augment, self.finish)

    def _image(self, row: int) -> Tensor:
        try:
            return decode_to(self.read(row), self.geometry).pixels
        except (BadImage, OSError) as error:
            raise DataError(
                f"image {row} (counted from 0 in the list of images) cannot be used: {error}; "
                f"was it changed after the run began?"
            ) from error
