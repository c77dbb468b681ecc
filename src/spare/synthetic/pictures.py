"""The pictures of the drawn data sets: cars in a street, birds, faces and animals.

Each takes what is to be seen and a generator that decides the rest. Who changes one raises VERSION
in drawn.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image

from spare.synthetic.brushes import Canvas, Color, Place, Rng, gray, near, placed, scaled, vivid


def street_scene(size: int, car: int, scene: int, thing: int, rng: Rng) -> Image.Image:
    """A sedan (0) or pick-up (1) in town (0) or country (1), beside it a thing of either."""
    canvas = Canvas(size, size)
    (_city, _countryside)[scene](canvas, rng)
    center = 0.875 + rng.uniform(-0.02, 0.02), 0.5 + rng.uniform(-0.02, 0.02)
    stand = placed(*center, 0.25 * rng.uniform(0.85, 1.1), mirrored=rng.random() < 0.5)
    things = ((_hydrant, _sign, _meter, _traffic_light), (_cow, _sheep, _horse))[thing]
    things[rng.integers(len(things))](canvas, stand, rng)
    _car(canvas, car, rng)
    return canvas.finished(rng, haze=0.2, noise=6)


def bird_scene(size: int, bird: int, place: int, rng: Rng) -> Image.Image:
    """A bird of the land (0) or the water (1) before the one or the other; a quarter wider."""
    canvas = Canvas(size + size // 4, size)
    (_countryside, _water)[place](canvas, rng)
    mirrored = rng.random() < 0.5
    _bird(canvas, placed(0.5, 0.5, 0.6, mirrored=mirrored), rng, long_neck=bird == 1)
    return canvas.finished(rng)


def portrait(width: int, height: int, blond: bool, male: bool, rng: Rng) -> Image.Image:
    canvas = Canvas(width, height)
    _face(canvas, rng, blond, male)
    return canvas.finished(rng)


def animal_scene(size: int, kind: str, rng: Rng) -> Image.Image:
    """One of ANIMALS before any of the backgrounds."""
    canvas = Canvas(size, size)
    (_countryside, _water, _city)[rng.integers(3)](canvas, rng)
    mirrored = rng.random() < 0.5
    ANIMALS[kind](canvas, placed(0.5, 0.5, 0.6, mirrored=mirrored), rng)
    return canvas.finished(rng)


# --- Backgrounds ---


def _sky(canvas: Canvas, rng: Rng) -> None:
    """The same skies over city and country: the sky is no clue."""
    skies = ((150, 190, 235), (205, 212, 220), (235, 215, 190), (120, 150, 200))
    canvas.box(0, 0, 1, 1, near(skies[rng.integers(len(skies))], 18, rng))


def _city(canvas: Canvas, rng: Rng) -> None:
    _sky(canvas, rng)
    horizon = rng.uniform(0.5, 0.6)
    walls = ((130, 135, 145), (105, 118, 140), (160, 160, 165), (150, 105, 90), (175, 160, 135))
    left = -rng.uniform(0, 0.15)
    while left < 1:
        right = left + rng.uniform(0.12, 0.32)
        top = rng.uniform(0.0, 0.36)
        wall = near(walls[rng.integers(len(walls))], 20, rng)
        canvas.box(left, top, right, horizon, wall)
        pane = (235, 220, 150) if rng.random() < 0.3 else scaled(wall, rng.uniform(0.45, 0.75))
        step = rng.uniform(0.06, 0.09)
        for y in np.arange(top + 0.03, horizon - 0.05, step):
            for x in np.arange(left + 0.02, right - 0.03, step):
                canvas.box(x, y, x + step * 0.5, y + step * 0.55, pane)
        left = right + (rng.uniform(0, 0.08) if rng.random() < 0.4 else 0)
    if rng.random() < 0.3:
        _tree(canvas, rng.uniform(0, 1), horizon + 0.03, rng.uniform(0.12, 0.25), rng)
    canvas.box(0, horizon, 1, horizon + 0.06, near((165, 162, 158), 15, rng))
    canvas.box(0, horizon + 0.06, 1, 1, gray(rng.uniform(65, 120)))
    dashes = horizon + rng.uniform(0.2, 0.3)
    for x in np.arange(rng.uniform(-0.2, 0), 1, 0.25):
        canvas.box(x, dashes, x + 0.13, dashes + 0.02, (225, 220, 200))


def _countryside(canvas: Canvas, rng: Rng) -> None:
    _sky(canvas, rng)
    horizon = rng.uniform(0.42, 0.55)
    fields = ((95, 140, 65), (130, 150, 75), (165, 140, 85), (185, 165, 95), (120, 100, 65))
    for _ in range(rng.integers(1, 4)):
        middle, wide = rng.uniform(0, 1), rng.uniform(0.3, 0.6)
        high = rng.uniform(0.08, 0.3)
        hill = near(((85, 115, 80), (110, 125, 95), (105, 110, 125))[rng.integers(3)], 15, rng)
        canvas.ellipse(middle - wide, horizon - high, middle + wide, horizon + high, hill)
    field = near(fields[rng.integers(len(fields))], 18, rng)
    canvas.box(0, horizon, 1, 1, field)
    furrow = scaled(field, rng.uniform(0.8, 0.95))
    for x in np.arange(-1, 2, rng.uniform(0.15, 0.4)):
        canvas.line([(0.5 + (x - 0.5) * 0.4, horizon), (x, 1)], furrow, 0.012)
    for _ in range(rng.integers(0, 6)):
        _tree(canvas, rng.uniform(0, 1), horizon + 0.03, rng.uniform(0.12, 0.4), rng)
    if rng.random() < 0.25:
        x, wall = rng.uniform(0, 0.9), near((150, 75, 65), 25, rng)
        canvas.box(x, horizon - 0.12, x + 0.18, horizon + 0.02, wall)
        roof = [(x - 0.02, horizon - 0.12), (x + 0.09, horizon - 0.2), (x + 0.2, horizon - 0.12)]
        canvas.polygon(roof, scaled(wall, 0.6))
    road = rng.uniform(0.58, 0.64)
    paving = near((150, 125, 90), 20, rng) if rng.random() < 0.7 else gray(rng.uniform(80, 130))
    canvas.box(0, road, 1, road + rng.uniform(0.12, 0.22), paving)


def _water(canvas: Canvas, rng: Rng) -> None:
    _sky(canvas, rng)
    horizon = rng.uniform(0.3, 0.5)
    water = near(((40, 95, 140), (55, 125, 150), (70, 110, 125))[rng.integers(3)], 15, rng)
    canvas.box(0, horizon, 1, 1, water)
    for _ in range(15):
        x, y = rng.uniform(-0.1, 1), rng.uniform(horizon, 1)
        canvas.box(x, y, x + rng.uniform(0.1, 0.3), y + 0.012, scaled(water, 1.3))


def _tree(canvas: Canvas, x: float, foot: float, high: float, rng: Rng) -> None:
    leaves = near((60, 105, 50), 22, rng)
    canvas.box(x - high * 0.06, foot - high * 0.4, x + high * 0.06, foot, (90, 70, 50))
    if rng.random() < 0.5:
        canvas.ellipse(x - high * 0.3, foot - high, x + high * 0.3, foot - high * 0.25, leaves)
    else:
        tip, low = foot - high, foot - high * 0.2
        canvas.polygon([(x, tip), (x - high * 0.25, low), (x + high * 0.25, low)], leaves)


# --- Cars ---


#: Mean and spread of a car's measures, as shares of its length: (sedan, pick-up). They overlap.
MEASURES = {
    "deck": ((0.18, 0.04), (0.39, 0.05)),  # flat part behind the cabin: the boot or the bed
    "rear_slope": ((0.13, 0.035), (0.04, 0.025)),
    "hood": ((0.25, 0.035), (0.21, 0.03)),
    "windscreen": ((0.15, 0.03), (0.09, 0.025)),
    "belt": ((0.235, 0.025), (0.275, 0.025)),
    "roof": ((0.39, 0.03), (0.47, 0.035)),
    "clearance": ((0.06, 0.015), (0.09, 0.018)),
    "wheel": ((0.08, 0.008), (0.095, 0.01)),
}


def _car(canvas: Canvas, kind: int, rng: Rng) -> None:
    measures = {}
    for name, by_kind in MEASURES.items():
        mean, spread = by_kind[kind]
        measures[name] = max(rng.normal(mean, spread), 0.02)
    deck, slope, hood = measures["deck"], measures["rear_slope"], measures["hood"]
    belt, roof, low = measures["belt"], measures["roof"], measures["clearance"]
    wheel = measures["wheel"]
    roof_front = max(1 - hood - measures["windscreen"], deck + slope + 0.08)
    screen_foot = max(1 - hood, roof_front + 0.03)
    at = placed(
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 * rng.uniform(0.9, 1.1),
        mirrored=rng.random() < 0.5,
        turned=rng.normal(0, 0.04),
        middle=(0.5, -0.2),
    )
    body = vivid(rng)
    dark = scaled(body, 0.6)
    canvas.polygon([at(0.0, -0.02), at(1.0, -0.02), at(1.02, 0.03), at(-0.02, 0.03)], gray(45))
    outline = [
        (0, low),
        (0, belt),
        (deck, belt),
        (deck + slope, roof),
        (roof_front, roof),
        (screen_foot, belt),
        (1, belt * rng.uniform(0.75, 0.95)),
        (1, low),
    ]
    edge = [at(x, -y) for x, y in outline]
    canvas.polygon(edge, body)
    canvas.line([*edge, edge[0]], scaled(body, 0.45), 0.008)
    glass = near((70, 85, 100), 25, rng) if rng.random() < 0.7 else near((190, 205, 215), 20, rng)
    top, sill = roof - 0.03, belt + 0.01
    lean = (roof_front - screen_foot) * (top - sill) / (roof - belt)
    pane = [
        (deck + 0.035, sill),
        (deck + 0.035 + slope * 0.8, top),
        (screen_foot - 0.03 + lean, top),
        (screen_foot - 0.03, sill),
    ]
    canvas.polygon([at(x, -y) for x, y in pane], glass)
    pillar = (deck + slope + roof_front) / 2
    canvas.line([at(pillar, -sill), at(pillar, -roof)], body, 0.012)
    canvas.line([at(0, -low - 0.03), at(1, -low - 0.03)], dark, 0.012)
    canvas.line([at(deck, -low), at(deck, -belt)], dark, 0.008)
    for x in (rng.uniform(0.17, 0.22), rng.uniform(0.78, 0.83)):
        canvas.circle(at, x, -wheel, wheel * 1.05, gray(30))
        canvas.circle(at, x, -wheel, wheel * 0.5, gray(rng.uniform(120, 200)))


# --- Things beside a car ---


# Things are drawn in a square of their own: x from 0 to 1, y from 0 (top) to 1 (the ground).


def _hydrant(canvas: Canvas, at: Place, rng: Rng) -> None:
    paint = near(((200, 45, 35), (225, 180, 40), (215, 95, 40))[rng.integers(3)], 20, rng)
    canvas.quad(at, 0.34, 0.3, 0.66, 1.0, paint)
    canvas.circle(at, 0.5, 0.3, 0.17, paint)
    canvas.quad(at, 0.2, 0.45, 0.8, 0.6, paint)
    canvas.quad(at, 0.28, 0.92, 0.72, 1.0, scaled(paint, 0.7))
    canvas.circle(at, 0.5, 0.53, 0.08, scaled(paint, 0.5))


def _sign(canvas: Canvas, at: Place, rng: Rng) -> None:
    canvas.quad(at, 0.46, 0.2, 0.54, 1.0, gray(rng.uniform(90, 150)))
    plate = near(((190, 30, 35), (35, 80, 170), (30, 120, 70))[rng.integers(3)], 20, rng)
    if rng.random() < 0.5:
        corners = [math.tau * (k + 0.5) / 8 for k in range(8)]
        canvas.polygon(
            [at(0.5 + 0.3 * math.cos(a), 0.25 + 0.3 * math.sin(a)) for a in corners], plate
        )
        canvas.quad(at, 0.3, 0.2, 0.7, 0.3, (235, 235, 235))
    else:
        canvas.quad(at, 0.1, 0.08, 0.9, 0.36, plate)
        canvas.quad(at, 0.2, 0.18, 0.8, 0.25, (235, 235, 235))


def _meter(canvas: Canvas, at: Place, rng: Rng) -> None:
    metal = near((125, 128, 135), 25, rng)
    canvas.quad(at, 0.45, 0.4, 0.55, 1.0, scaled(metal, 0.7))
    canvas.quad(at, 0.34, 0.15, 0.66, 0.5, metal)
    canvas.circle(at, 0.5, 0.16, 0.16, metal)
    canvas.quad(at, 0.4, 0.12, 0.6, 0.26, (215, 225, 220))


def _traffic_light(canvas: Canvas, at: Place, rng: Rng) -> None:
    canvas.quad(at, 0.45, 0.5, 0.55, 1.0, gray(rng.uniform(60, 110)))
    canvas.quad(at, 0.32, 0.0, 0.68, 0.62, gray(rng.uniform(25, 55)))
    lit = rng.integers(3)
    for k, lamp in enumerate(((235, 50, 40), (240, 190, 50), (60, 205, 95))):
        canvas.circle(at, 0.5, 0.12 + 0.19 * k, 0.085, lamp if k == lit else scaled(lamp, 0.4))


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


# --- Faces ---


def _face(canvas: Canvas, rng: Rng, blond: bool, male: bool) -> None:
    canvas.box(0, 0, 1, 1, vivid(rng))
    skin = scaled((245, 205, 175), rng.uniform(0.55, 1.0))
    hair = near((225, 190, 105) if blond else (50, 38, 32), 15, rng)
    x, y = 0.5 + rng.uniform(-0.03, 0.03), 0.53 + rng.uniform(-0.02, 0.02)
    canvas.box(x - 0.38, 0.88, x + 0.38, 1, vivid(rng))
    if male:
        canvas.ellipse(x - 0.29, y - 0.34, x + 0.29, y + 0.1, hair)
    else:
        canvas.ellipse(x - 0.36, y - 0.36, x + 0.36, y + 0.2, hair)
        canvas.box(x - 0.36, y - 0.1, x + 0.36, y + 0.38, hair)
    canvas.box(x - 0.1, y + 0.2, x + 0.1, 0.92, scaled(skin, 0.9))
    canvas.ellipse(x - 0.25, y - 0.24, x + 0.25, y + 0.3, skin)
    for side in (-1, 1):
        canvas.ellipse(x + side * 0.11 - 0.04, y - 0.03, x + side * 0.11 + 0.04, y + 0.01, gray(40))
    canvas.polygon([(x, y), (x - 0.03, y + 0.1), (x + 0.03, y + 0.1)], scaled(skin, 0.8))
    canvas.ellipse(x - 0.09, y + 0.16, x + 0.09, y + 0.2, (185, 80, 80))


# --- Animals ---


def _bird(canvas: Canvas, at: Place, rng: Rng, long_neck: bool = False) -> None:
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


ANIMALS: dict[str, Callable[[Canvas, Place, Rng], None]] = {
    "dog": _dog,
    "cat": _cat,
    "frog": _frog,
    "turtle": _turtle,
    "bird": _bird,
    "primate": _primate,
    "fish": _fish,
    "crab": _crab,
    "insect": _insect,
}
