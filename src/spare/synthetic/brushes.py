"""What pictures are drawn with: a canvas, local coordinates for the things on it, and colors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from colorsys import hsv_to_rgb

import numpy as np
from PIL import Image, ImageDraw

Color = tuple[int, int, int]
Point = tuple[float, float]
#: From the coordinates of a thing to those of the canvas.
Place = Callable[[float, float], Point]
Rng = np.random.Generator

#: Pictures are drawn this many times larger and shrunk, which smooths the edges.
OVERSAMPLING = 3


class Canvas:
    """A picture whose corners are (0, 0) and (1, 1), drawn larger than it will be."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * OVERSAMPLING, height * OVERSAMPLING))
        self._draw = ImageDraw.Draw(self._image)

    def _pixels(self, points: Sequence[Point]) -> list[Point]:
        wide, high = self._image.size
        return [(x * wide, y * high) for x, y in points]

    def polygon(self, points: Sequence[Point], color: Color) -> None:
        self._draw.polygon(self._pixels(points), fill=color)

    def line(self, points: Sequence[Point], color: Color, thick: float) -> None:
        width = max(1, round(thick * self._image.width))
        self._draw.line(self._pixels(points), fill=color, width=width)

    def box(self, left: float, top: float, right: float, low: float, color: Color) -> None:
        self._draw.rectangle(self._pixels([(left, top), (right, low)]), fill=color)

    def ellipse(self, left: float, top: float, right: float, low: float, color: Color) -> None:
        self._draw.ellipse(self._pixels([(left, top), (right, low)]), fill=color)

    def quad(
        self, at: Place, left: float, top: float, right: float, low: float, color: Color
    ) -> None:
        """A rectangle in the coordinates of a thing."""
        corners = [at(left, top), at(right, top), at(right, low), at(left, low)]
        self.polygon(corners, color)

    def oval(
        self, at: Place, left: float, top: float, right: float, low: float, color: Color
    ) -> None:
        (x0, y0), (x1, y1) = at(left, top), at(right, low)
        self.ellipse(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1), color)

    def circle(self, at: Place, x: float, y: float, radius: float, color: Color) -> None:
        (a, b), (c, d) = at(x, y), at(x + radius, y)
        r = math.hypot(c - a, d - b)
        self.ellipse(a - r, b - r, a + r, b + r, color)

    def finished(self, rng: Rng, *, haze: float = 0.15, noise: float = 5) -> Image.Image:
        """The picture at its final size, with a random tint and random grain."""
        image = self._image.resize((self.width, self.height), Image.Resampling.BOX)
        pixels = np.asarray(image, dtype=np.float32)
        light = rng.uniform(60, 230, 3).astype(np.float32)
        share = np.float32(rng.uniform(0, haze))
        grain = rng.standard_normal(pixels.shape, dtype=np.float32) * np.float32(noise)
        lit = pixels * (1 - share) + light * share + grain
        return Image.fromarray(lit.round().clip(0, 255).astype(np.uint8))


def placed(
    x: float,
    y: float,
    wide: float,
    *,
    mirrored: bool,
    turned: float = 0.0,
    middle: Point = (0.5, 0.5),
) -> Place:
    """Coordinates for a thing of this width, whose `middle` is put at (x, y)."""
    cos, sin = math.cos(turned) * wide, math.sin(turned) * wide
    flip = -1 if mirrored else 1

    def at(u: float, v: float) -> Point:
        right, down = flip * (u - middle[0]), v - middle[1]
        return x + right * cos - down * sin, y + right * sin + down * cos

    return at


def near(color: Color, spread: float, rng: Rng) -> Color:
    """A color close to this one: lighter or darker, and slightly shifted."""
    shade = rng.normal(0, spread)
    off = rng.normal(0, spread / 3, 3)
    return _bytes([channel + shade + o for channel, o in zip(color, off, strict=True)])


def scaled(color: Color, by: float) -> Color:
    return _bytes([channel * by for channel in color])


def vivid(rng: Rng) -> Color:
    hue, saturation, value = rng.random(), rng.uniform(0, 0.9), rng.uniform(0.25, 1)
    return _bytes([255 * channel for channel in hsv_to_rgb(hue, saturation, value)])


def gray(value: float) -> Color:
    return _bytes([value] * 3)


def _bytes(channels: Sequence[float]) -> Color:
    red, green, blue = (min(max(int(channel), 0), 255) for channel in channels)
    return red, green, blue
