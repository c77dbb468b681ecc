"""What is behind the things in a drawn picture: a city, the country, water."""

from __future__ import annotations

import numpy as np

from spare.synthetic.brushes import Canvas, Rng, gray, near, scaled


def _sky(canvas: Canvas, rng: Rng) -> None:
    """The same skies over city and country: the sky is no clue."""
    skies = ((150, 190, 235), (205, 212, 220), (235, 215, 190), (120, 150, 200))
    canvas.box(0, 0, 1, 1, near(skies[rng.integers(len(skies))], 18, rng))


def city(canvas: Canvas, rng: Rng) -> None:
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


def countryside(canvas: Canvas, rng: Rng) -> None:
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


def water(canvas: Canvas, rng: Rng) -> None:
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
