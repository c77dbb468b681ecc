"""A file gives an upright RGB image, or a short reason why not."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from spare.errors import DataError, InputError
from spare.images.decode import BadImage, Geometry, decode, fit

COLOR = (200, 30, 60)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(mode: str = "RGB", size: tuple[int, int] = (20, 10)) -> Image.Image:
    return Image.new("RGB", size, COLOR).convert(mode)


def noise(height: int = 60, width: int = 80) -> Image.Image:
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def png_chunk(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


def png(width: int, height: int, raw: bytes, *, bits: int = 8, color: int = 2, extra=b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", zlib.compress(raw))
    return b"\x89PNG\r\n\x1a\n" + chunks + png_chunk(b"IEND", b"")


def everywhere(image: torch.Tensor, color: tuple[int, int, int], within: int = 0) -> bool:
    expected = torch.tensor(color).view(3, 1, 1)
    return bool(((image.int() - expected).abs() <= within).all())


@pytest.mark.parametrize(
    ("kind", "options", "within"),
    [
        ("JPEG", {"quality": 95}, 3),
        ("JPEG", {"progressive": True}, 3),
        ("PNG", {}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("TIFF", {"compression": "tiff_lzw"}, 0),
        ("PPM", {}, 0),
        ("GIF", {}, 0),
    ],
)
def test_every_format_gives_rgb_bytes(kind, options, within):
    image = decode(encoded(plain(), kind, **options))
    assert image.dtype == torch.uint8
    assert image.shape == (3, 10, 20)
    assert everywhere(image, COLOR, within)


def test_pixels_are_where_pil_has_them():
    picture = noise()
    expected = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    assert torch.equal(decode(encoded(picture, "PNG")), expected)


@pytest.mark.parametrize(
    ("data", "color"),
    [
        (encoded(plain("L"), "JPEG"), (84, 84, 84)),
        (encoded(plain("L"), "PNG"), (84, 84, 84)),
        (encoded(Image.new("1", (20, 10), 1), "PNG"), (255, 255, 255)),
        (encoded(plain().quantize(4), "PNG"), COLOR),
        (encoded(plain("CMYK"), "JPEG", quality=95), COLOR),
        (encoded(plain("CMYK"), "TIFF"), COLOR),
    ],
    ids=["gray jpeg", "gray png", "one bit", "palette", "cmyk jpeg", "cmyk tiff"],
)
def test_other_colors_become_rgb(data, color):
    assert everywhere(decode(data), color, within=3)


def test_the_upper_8_of_16_bits_are_used():
    gray = np.full((10, 20), 0x75AB, dtype=np.uint16)
    assert everywhere(decode(encoded(Image.fromarray(gray), "PNG")), (0x75,) * 3)
    assert everywhere(decode(encoded(Image.fromarray(gray), "TIFF")), (0x75,) * 3)
    assert everywhere(decode(b"P5 2 1 65535\n" + b"\x75\xab" * 2), (0x75,) * 3)
    color = png(2, 1, b"\0" + bytes.fromhex("11ff22ff33ff") * 2, bits=16)
    assert everywhere(decode(color), (0x11, 0x22, 0x33))


def test_pixels_without_a_known_range_are_refused():
    floats = Image.fromarray(np.full((4, 4), 0.3, dtype=np.float32))
    with pytest.raises(BadImage, match="PIL's mode F"):
        decode(encoded(floats, "TIFF"))


def test_transparency_is_laid_on_white():
    hidden = plain("RGBA")
    hidden.putalpha(0)
    for data in (encoded(hidden, "PNG"), encoded(hidden, "WEBP", lossless=True, exact=True)):
        assert everywhere(decode(data), (255, 255, 255))
    half = plain("RGBA")
    half.putalpha(128)
    assert everywhere(decode(encoded(half, "PNG")), (227, 142, 157), within=1)
    few = plain().quantize(4)
    see_through = few.getpixel((0, 0))
    for kind in ("PNG", "GIF"):
        assert everywhere(decode(encoded(few, kind, transparency=see_through)), (255, 255, 255))
    gray = plain("LA")
    gray.putalpha(0)
    assert everywhere(decode(encoded(gray, "PNG")), (255, 255, 255))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(kind, orientation):
    corners = Image.new("RGB", (32, 16), "black")
    corners.paste((255, 255, 255), (0, 0, 16, 8))  # white: the upper left quarter
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(encoded(corners, kind, exif=exif))
    assert image.shape == ((3, 16, 32) if orientation < 5 else (3, 32, 16))
    half_height, half_width = image.shape[1] // 2, image.shape[2] // 2
    white = {
        (top, left)
        for top in (0, 1)
        for left in (0, 1)
        if image[0, top * half_height + 4, left * half_width + 4] > 128
    }
    corner = {
        1: (0, 0),
        2: (0, 1),
        3: (1, 1),
        4: (1, 0),
        5: (0, 0),
        6: (0, 1),
        7: (1, 1),
        8: (1, 0),
    }
    assert white == {corner[orientation]}


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_is_used(kind):
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "lime", "blue")]
    image = decode(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert image.shape == (3, 10, 20)
    assert everywhere(image, (255, 0, 0), within=3)


@pytest.mark.parametrize(
    "data",
    [b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\0" * 1000, b"%!PS-Adobe-3.0 EPSF"],
)
def test_files_that_are_not_images_are_refused(data):
    with pytest.raises(BadImage, match=r"^not an image"):
        decode(data)


def test_an_empty_file():
    with pytest.raises(BadImage, match=r"^empty file$") as caught:
        decode(b"")
    assert isinstance(caught.value, DataError)


@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=["baseline", "progressive"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_truncated_jpeg(options, share):
    data = encoded(noise(), "JPEG", **options)
    with pytest.raises(BadImage, match=r"^truncated$"):
        decode(data[: int(len(data) * share)])
    with pytest.raises(BadImage, match="truncated"):  # as some downloads leave them
        decode(data[: int(len(data) * share)].ljust(len(data), b"\0"))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_truncated_png(share):
    data = encoded(noise(), "PNG")
    with pytest.raises(BadImage, match=r"^truncated$"):
        decode(data[: int(len(data) * share)])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_a_file_cut_anywhere_is_a_bad_image(kind):
    data = encoded(noise(12, 16), kind)
    for length in range(1, len(data) * 9 // 10, 7):
        with pytest.raises(BadImage):
            decode(data[:length])


def test_a_wrong_checksum_does_not_crash_the_interpreter():
    data = bytearray(encoded(noise(), "PNG"))
    middle = len(data) // 2
    data[middle:] = bytes(len(data) - middle)
    with pytest.raises(BadImage, match="damaged or truncated"):
        decode(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        png(30000, 30000, b""),
        png(10001, 10000, b""),
        b"GIF89a" + struct.pack("<HHBBB", 30000, 30000, 0, 0, 0)
        + b"," + struct.pack("<HHHHB", 0, 0, 30000, 30000, 0) + b"\2\0;",
        b"P6 30000 30000 255\n",
        b"BM" + struct.pack("<IIIIiiHHI", 54, 0, 54, 40, 30000, 30000, 1, 24, 0) + bytes(20),
    ],
    ids=["png", "just above", "gif", "ppm", "bmp"],
)  # fmt: skip
def test_images_that_are_too_large_are_refused_by_their_header(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BadImage, match=r"^too large: (30000 x 30000|10001 x 10000) pixels$"):
            decode(data)


def test_a_large_jpeg_header():
    data = bytearray(encoded(plain(), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 60000, 50000)
    with pytest.raises(BadImage, match=r"^too large: 50000 x 60000 pixels$"):
        decode(bytes(data))


def test_pil_does_not_warn_below_the_limit(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert decode(encoded(plain(), "PNG")).shape == (3, 10, 20)
    assert Image.MAX_IMAGE_PIXELS == 10


def test_text_that_unpacks_to_far_more_is_not_unpacked():
    bomb = png_chunk(b"zTXt", b"x\0\0" + zlib.compress(bytes(10_000_000)))
    with pytest.raises(BadImage):
        decode(png(1, 1, b"\0" + bytes(3), extra=bomb))


def test_odd_metadata_causes_no_warnings():
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0"
    image = decode(encoded(plain(), "JPEG", exif=exif))
    assert image.shape == (3, 10, 20)
    assert decode(encoded(plain(), "PNG", exif=exif)).shape == (3, 10, 20)


def test_random_damage_gives_an_image_or_a_reason():
    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"):
        intact = encoded(noise(12, 16), kind, exif=exif)
        for _ in range(60):
            data = bytearray(intact)
            for place in rng.integers(0, len(data), rng.integers(1, 8)):
                data[place] = rng.integers(256)
            with contextlib.suppress(BadImage):
                image = decode(bytes(data))
                assert image.dtype == torch.uint8
                assert image.shape[0] == 3


def test_many_threads_leave_the_warning_filters_alone():
    files = [encoded(noise(), kind) for kind in ("PNG", "JPEG", "GIF", "TIFF")] * 20
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(decode, files))
    assert warnings.filters == before
    assert all(torch.equal(a, b) for a, b in zip(images[:4], images[-4:], strict=True))


def picture(height: int, width: int) -> torch.Tensor:
    return decode(encoded(noise(height, width), "PNG"))


@pytest.mark.parametrize("shape", [(60, 80), (81, 53), (64, 64), (20, 30)])
def test_a_fitted_image_is_what_torchvision_makes_of_it(shape):
    image = picture(*shape)
    for geometry, steps in (
        (Geometry(32), [v2.Resize((32, 32))]),
        (Geometry(32, center=40), [v2.CenterCrop(40), v2.Resize((32, 32))]),
        (Geometry(32, keep_aspect=True), [v2.Resize(32), v2.CenterCrop(32)]),
    ):
        if geometry.center and min(shape) < geometry.center:
            continue  # torchvision would pad with black
        expected = v2.Compose(steps)(image).int()
        fitted = fit(image, geometry)
        assert fitted.shape == (3, 32, 32)
        assert fitted.dtype == torch.uint8
        assert (fitted.int() - expected).abs().max() <= 1


def test_a_crop_larger_than_the_image_takes_all_of_it():
    image = picture(20, 100)
    expected = fit(image[:, :, 30:70], Geometry(16))
    assert torch.equal(fit(image, Geometry(16, center=40)), expected)


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1)])
def test_a_line_of_pixels_is_cropped_before_it_is_scaled(shape, monkeypatch):
    image = torch.zeros(3, *shape, dtype=torch.uint8)
    image[:, shape[0] // 2, shape[1] // 2] = 200
    largest = []
    real = torch.nn.functional.interpolate

    def watched(*arguments, **options):
        result = real(*arguments, **options)
        largest.append(result.numel())
        return result

    monkeypatch.setattr(torch.nn.functional, "interpolate", watched)
    fitted = fit(image, Geometry(224, keep_aspect=True))
    assert fitted.shape == (3, 224, 224)
    assert max(largest) == 3 * 224 * 224
    assert fitted.float().mean() == 200


@pytest.mark.parametrize("wrong", [{"resize": 0}, {"resize": 8, "center": -1}])
def test_an_impossible_geometry_is_refused(wrong):
    with pytest.raises(InputError, match="resized to at least 1 pixel"):
        Geometry(**wrong)
