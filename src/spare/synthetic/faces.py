"""Faces with blond or dark hair, long or short."""

from __future__ import annotations

from spare.synthetic.brushes import Canvas, Rng, gray, near, scaled, vivid


def draw_face(canvas: Canvas, rng: Rng, blond: bool, male: bool) -> None:
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
