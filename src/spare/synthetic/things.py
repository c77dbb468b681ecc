"""What stands beside a car in town: a hydrant, a sign, a parking meter, a traffic light.

Things are drawn in coordinates of their own: x from 0 to 1, y from 0 (top) to 1 (the ground).
"""

from __future__ import annotations

import math

from spare.synthetic.brushes import Canvas, Place, Rng, gray, near, scaled


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


IN_TOWN = (_hydrant, _sign, _meter, _traffic_light)
