"""Bytes of an image file to a tensor, and a tensor to the size that is trained on.

People's folders hold grayscale, rotated, half-downloaded and hostile files. Whatever is in one,
`decode` returns an upright RGB image or raises `BadImage` with a short reason: errors and warnings
of the libraries below never escape. JPEG goes through torchvision, up to twice as fast as PIL;
everything else through PIL, because torchvision's PNG reader crashes the interpreter on a bad
checksum, its WEBP reader ignores orientation and its GIF reader decodes every frame.
"""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional as F

from spare.errors import DataError, InputError
from spare.limits import PICTURE

#: Rows of a picture that are converted at once, so that a large one is in memory once or twice and
#: not five times.
STRIP = 512
#: Pixels that may be decoded at the same time, by several threads: two ordinary photographs. A
#: larger picture is decoded alone.
AT_ONCE = 32_000_000

#: PIL knows dozens of formats, some of which start other programs; only these are tried.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")

_FIRST_BYTES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"II*\0", b"MM\0*")

#: Beyond this ratio of the sides, resizing before cropping would cost more than it is worth.
_ELONGATED = 4


class BadImage(DataError):
    """An image that cannot be used; the message is a short reason without the file's name."""


@dataclass(frozen=True)
class Geometry:
    """The fixed steps from a decoded image to a square of `resize` x `resize` pixels."""

    resize: int
    #: First crop to the central `center` x `center` pixels (or fewer); 0 for no crop.
    center: int = 0
    #: Scale the shorter side to `resize` and crop to the center, instead of stretching.
    keep_aspect: bool = False

    def __post_init__(self) -> None:
        if self.resize < 1 or self.center < 0:
            raise InputError(
                f"an image is resized to at least 1 pixel and cropped to 0 (not at all) or more, "
                f"not to {self.resize} and {self.center}."
            )


def decode(data: bytes) -> Tensor:
    """The image in `data`: uint8, (3, height, width), RGB, upright by its EXIF orientation.

    Transparent images are laid on white, as on a page: the colors that a file has under full
    transparency were never meant to be seen. Of 16-bit images the upper 8 bits are used, of
    animated ones the first frame.
    """
    return _decoded(data, lambda pixels: pixels)


class Decoded(NamedTuple):
    pixels: Tensor
    #: Of the image before it was resized.
    height: int
    width: int


def decode_to(data: bytes, geometry: Geometry | None) -> Decoded:
    """The image in `data` at the size that is trained on; without a geometry, only its size."""

    def fitted(pixels: Tensor) -> Decoded:
        height, width = pixels.shape[1:]
        return Decoded(torch.empty(0) if geometry is None else fit(pixels, geometry), height, width)

    return _decoded(data, fitted)


Result = TypeVar("Result")


def _decoded(data: bytes, use: Callable[[Tensor], Result]) -> Result:
    """What `use` makes of the image; memory is taken for a few images at a time."""
    if not data:
        raise BadImage("empty file")
    try:
        with _quiet_pil():
            image = Image.open(io.BytesIO(data), formats=FORMATS)  # reads no more than the header
        width, height = image.size
        if width * height > PICTURE.value():
            raise BadImage(f"too large: {width} x {height} pixels")
        with _ROOM.taken(width * height):
            if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
                image.close()
                return use(_decode_jpeg(data))
            with _quiet_pil():
                pixels = _decode_with_pil(image)
            return use(pixels)
    except BadImage:
        raise
    except Exception as error:  # a damaged file can raise anything at all in PIL
        raise BadImage(_reason(error, data)) from error


class _Room:
    """How many pixels are being decoded; a picture that is too large for the rest waits."""

    def __init__(self, most: int):
        self.most = most
        self.used = 0
        self.changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.used or self.used + pixels <= self.most)
            self.used += pixels
        try:
            yield
        finally:
            with self.changed:
                self.used -= pixels
                self.changed.notify_all()


_ROOM = _Room(AT_ONCE)


@contextmanager
def _quiet_pil() -> Iterator[None]:
    """PIL without its warnings and its size limit; both are global, hence the lock."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


_LOCK = threading.Lock()


def _decode_jpeg(data: bytes) -> Tensor:
    from torchvision.io import ImageReadMode, decode_jpeg

    # A copy, because torch warns about memory that cannot be written to.
    content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    pixels: Tensor = decode_jpeg(content, ImageReadMode.RGB, apply_exif_orientation=True)
    return pixels


def _decode_with_pil(image: Image.Image) -> Tensor:
    image.load()
    mode, kind = image.mode, image.format
    with contextlib.suppress(Exception):  # unreadable EXIF data says nothing about orientation
        ImageOps.exif_transpose(image, in_place=True)
    if mode in ("I", "F", "LAB") and not (mode == "I" and kind in ("PNG", "PPM")):
        raise BadImage(f"its pixels (PIL's mode {mode}) cannot be converted to RGB")
    deep = mode.startswith("I")
    clear = not deep and image.has_transparency_data
    width, height = image.size
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    for top in range(0, height, STRIP):
        rows = slice(top, min(top + STRIP, height))
        strip = image.crop((0, rows.start, width, rows.stop))
        if deep:
            pixels[rows] = (np.asarray(strip).astype(np.int32) >> 8).astype(np.uint8)[:, :, None]
        else:
            pixels[rows] = np.asarray(_on_white(strip) if clear else strip.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _on_white(image: Image.Image) -> Image.Image:
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def _reason(error: Exception, data: bytes) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    if "truncated" in str(error).lower():
        return "truncated"
    known = data.startswith(_FIRST_BYTES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    if isinstance(error, UnidentifiedImageError) and not known:
        return f"not an image in a known format ({', '.join(FORMATS)})"
    return "damaged or truncated"


def fit(image: Tensor, geometry: Geometry) -> Tensor:
    """`image` as uint8 (3, resize, resize): bilinear, with antialiasing."""
    size = geometry.resize
    if geometry.center:
        image = _center_of(image, geometry.center, geometry.center)
    if not geometry.keep_aspect:
        return _resize(image, size, size)
    height, width = image.shape[1:]
    short = min(height, width)
    if max(height, width) > _ELONGATED * short:
        return _resize(_center_of(image, short, short), size, size)
    scaled = _resize(image, size * height // short, size * width // short)
    return _center_of(scaled, size, size)


def _center_of(image: Tensor, height: int, width: int) -> Tensor:
    height, width = min(height, image.shape[1]), min(width, image.shape[2])
    top = round((image.shape[1] - height) / 2)
    left = round((image.shape[2] - width) / 2)
    return image[:, top : top + height, left : left + width]


def _resize(image: Tensor, height: int, width: int) -> Tensor:
    if image.shape[1:] == (height, width):
        return image
    batch = image.permute(1, 2, 0).contiguous()[None].permute(0, 3, 1, 2)  # channels last: faster
    return F.interpolate(batch, (height, width), mode="bilinear", antialias=True)[0]
