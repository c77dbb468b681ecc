"""Animals, in coordinates of their own: x from 0 to 1, y from 0 (top) to 1 (the ground)."""

from __future__ import annotations

from collections.abc import Callable

from spare.synthetic.brushes import Canvas, Color, Place, Rng, gray, near, scaled, vivid


def _legs(canvas: Canvas, at: Place, top: float, color: Color) -> None:
    for x in (0.2, 0.32, 0.62, 0.74):
        canvas.quad(at, x, top, x + 0.07, 1.0, color)


def _cow(canvas: Canvas, at: Place, rng: Rng) -> None:
    hide = near(((235, 230, 225), (140, 85, 50), (60, 50, 48))[rng.integers(3)], 12, rng)
    patch = gray(45) if sum(hide) > 400 else (225, 215, 205)
    _legs(canvas, at, 0.65, scaled(hide, 0.8))
    canvas.quad(at, 0.15, 0.35, 0.82, 0.75, hide)
    for _ in range(3):
        canvas.circle(at, rng.uniform(0.22, 0.75), rng.uniform(0.42, 0.65), 0.08, patch)
    canvas.quad(at, 0.76, 0.25, 1.0, 0.5, hide)
    canvas.quad(at, 0.9, 0.38, 1.02, 0.5, (215, 165, 155))


def _sheep(canvas: Canvas, at: Place, rng: Rng) -> None:
    wool = near((230, 225, 212), 15, rng)
    face = gray(50) if rng.random() < 0.6 else scaled(wool, 0.8)
    _legs(canvas, at, 0.7, face)
    for x, y in ((0.25, 0.6), (0.35, 0.48), (0.5, 0.46), (0.65, 0.5), (0.72, 0.62), (0.5, 0.64)):
        canvas.circle(at, x, y, 0.17, wool)
    canvas.circle(at, 0.88, 0.45, 0.12, face)


def _horse(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = near(((120, 75, 45), (165, 115, 70), (55, 45, 42))[rng.integers(3)], 15, rng)
    _legs(canvas, at, 0.6, coat)
    canvas.quad(at, 0.15, 0.4, 0.8, 0.68, coat)
    canvas.polygon([at(0.62, 0.45), at(0.82, 0.1), at(0.92, 0.16), at(0.8, 0.6)], coat)
    canvas.polygon([at(0.8, 0.08), at(1.03, 0.26), at(0.98, 0.34), at(0.8, 0.24)], coat)
    canvas.line([at(0.16, 0.42), at(0.06, 0.75)], scaled(coat, 0.5), 0.02)


def draw_bird(canvas: Canvas, at: Place, rng: Rng, long_neck: bool = False) -> None:
    plumage = vivid(rng)
    canvas.polygon([at(0.25, 0.5), at(0.0, 0.4), at(0.02, 0.62)], scaled(plumage, 0.7))
    canvas.oval(at, 0.15, 0.4, 0.75, 0.75, plumage)
    canvas.polygon([at(0.25, 0.5), at(0.6, 0.5), at(0.3, 0.7)], scaled(plumage, 0.7))
    head = (0.85, 0.2) if long_neck else (0.7, 0.36)
    if long_neck:
        canvas.polygon([at(0.6, 0.5), at(0.72, 0.6), at(0.9, 0.2), at(0.8, 0.2)], plumage)
    canvas.circle(at, *head, 0.11, plumage)
    canvas.circle(at, head[0] + 0.03, head[1] - 0.02, 0.02, gray(15))
    beak = 0.22 if long_neck else 0.1
    tip = at(head[0] + 0.1 + beak, head[1] + 0.03)
    canvas.polygon(
        [at(head[0] + 0.08, head[1] - 0.05), at(head[0] + 0.08, head[1] + 0.06), tip],
        (235, 160, 50),
    )
    for x in (0.4, 0.5):
        canvas.quad(at, x, 0.72, x + 0.03, 1.0, (210, 140, 60))


def _dog(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = near(((165, 120, 75), (90, 65, 50), (215, 195, 165))[rng.integers(3)], 20, rng)
    _legs(canvas, at, 0.6, coat)
    canvas.quad(at, 0.18, 0.48, 0.8, 0.72, coat)
    canvas.line([at(0.2, 0.52), at(0.02, 0.3)], coat, 0.03)
    canvas.circle(at, 0.82, 0.36, 0.15, coat)
    canvas.quad(at, 0.85, 0.36, 1.05, 0.48, coat)
    canvas.oval(at, 0.68, 0.26, 0.78, 0.55, scaled(coat, 0.6))


def _round_head(canvas: Canvas, at: Place, coat: Color, eye: Color) -> None:
    canvas.circle(at, 0.5, 0.5, 0.34, coat)
    for x in (0.37, 0.63):
        canvas.circle(at, x, 0.45, 0.06, eye)
        canvas.circle(at, x, 0.45, 0.03, gray(15))


def _cat(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = near(((225, 150, 75), (130, 130, 135), (50, 48, 50))[rng.integers(3)], 20, rng)
    for side in (-1, 1):
        ear = [at(0.5 + side * 0.33, 0.02), at(0.5 + side * 0.33, 0.42), at(0.5 + side * 0.05, 0.2)]
        canvas.polygon(ear, coat)
    _round_head(canvas, at, coat, (190, 215, 90))
    canvas.polygon([at(0.45, 0.6), at(0.55, 0.6), at(0.5, 0.67)], (220, 130, 130))
    for y in (0.58, 0.66):
        canvas.line([at(0.05, y), at(0.95, y)], gray(235), 0.008)


def _frog(canvas: Canvas, at: Place, rng: Rng) -> None:
    skin = near((95, 165, 60), 25, rng)
    for x in (0.1, 0.9):
        canvas.circle(at, x, 0.75, 0.16, scaled(skin, 0.8))
    canvas.oval(at, 0.1, 0.35, 0.9, 0.95, skin)
    for x in (0.3, 0.7):
        canvas.circle(at, x, 0.33, 0.13, skin)
        canvas.circle(at, x, 0.31, 0.07, (235, 215, 90))
        canvas.circle(at, x, 0.31, 0.03, gray(10))
    canvas.line([at(0.25, 0.62), at(0.5, 0.7), at(0.75, 0.62)], scaled(skin, 0.4), 0.012)


def _turtle(canvas: Canvas, at: Place, rng: Rng) -> None:
    skin, shell = near((120, 140, 80), 20, rng), near((105, 85, 50), 20, rng)
    for x in (0.22, 0.65):
        canvas.oval(at, x, 0.65, x + 0.15, 0.95, skin)
    canvas.circle(at, 0.95, 0.58, 0.1, skin)
    canvas.oval(at, 0.1, 0.25, 0.9, 0.82, shell)
    canvas.quad(at, 0.12, 0.68, 0.88, 0.76, scaled(shell, 0.7))
    for x, y in ((0.3, 0.55), (0.5, 0.42), (0.7, 0.55), (0.5, 0.63)):
        canvas.circle(at, x, y, 0.07, scaled(shell, 1.4))


def _primate(canvas: Canvas, at: Place, rng: Rng) -> None:
    fur, face = near((85, 60, 45), 20, rng), near((210, 165, 130), 20, rng)
    for x in (0.15, 0.85):
        canvas.circle(at, x, 0.45, 0.12, face)
    _round_head(canvas, at, fur, face)
    canvas.oval(at, 0.3, 0.52, 0.7, 0.84, face)
    canvas.line([at(0.4, 0.72), at(0.6, 0.72)], scaled(fur, 0.7), 0.012)


def _fish(canvas: Canvas, at: Place, rng: Rng) -> None:
    scales = vivid(rng)
    canvas.polygon([at(0.25, 0.5), at(0.0, 0.25), at(0.0, 0.75)], scales)
    canvas.polygon([at(0.4, 0.35), at(0.6, 0.12), at(0.7, 0.35)], scaled(scales, 0.7))
    canvas.oval(at, 0.18, 0.28, 0.98, 0.72, scales)
    canvas.circle(at, 0.82, 0.44, 0.05, gray(235))
    canvas.circle(at, 0.82, 0.44, 0.025, gray(10))


def _crab(canvas: Canvas, at: Place, rng: Rng) -> None:
    shell = near((205, 75, 45), 25, rng)
    for side in (-1, 1):
        for y in (0.6, 0.7, 0.8):
            canvas.line([at(0.5, y - 0.1), at(0.5 + side * 0.48, y + 0.1)], shell, 0.018)
        canvas.line([at(0.5 + side * 0.2, 0.5), at(0.5 + side * 0.4, 0.25)], shell, 0.03)
        canvas.circle(at, 0.5 + side * 0.4, 0.18, 0.12, shell)
    canvas.oval(at, 0.2, 0.4, 0.8, 0.8, shell)
    for x in (0.42, 0.58):
        canvas.circle(at, x, 0.4, 0.04, gray(15))


def _insect(canvas: Canvas, at: Place, rng: Rng) -> None:
    shell = near(((45, 40, 40), (150, 40, 35), (60, 95, 60))[rng.integers(3)], 15, rng)
    for x in (0.42, 0.54, 0.66):
        for y in (0.15, 0.85):
            canvas.line([at(x, 0.5), at(x + (x - 0.54) * 1.5, y)], gray(25), 0.012)
    canvas.oval(at, 0.05, 0.36, 0.48, 0.64, shell)
    canvas.circle(at, 0.55, 0.5, 0.12, scaled(shell, 0.8))
    canvas.circle(at, 0.75, 0.5, 0.1, shell)
    for y in (0.3, 0.7):
        canvas.line([at(0.8, 0.5), at(1.0, y)], gray(25), 0.008)


#: Beside a car in the country.
ON_FARMS = (_cow, _sheep, _horse)
#: By the super-class of Restricted ImageNet.
ANIMALS: dict[str, Callable[[Canvas, Place, Rng], None]] = {
    "dog": _dog,
    "cat": _cat,
    "frog": _frog,
    "turtle": _turtle,
    "bird": draw_bird,
    "primate": _primate,
    "fish": _fish,
    "crab": _crab,
    "insect": _insect,
}
