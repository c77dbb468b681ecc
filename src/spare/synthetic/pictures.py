"""The pictures of the drawn data sets: cars in a street, birds, faces and animals.

Each function takes what the picture shows and a generator that decides the rest. If you change one,
raise VERSION in folder.py.
"""

from __future__ import annotations

from PIL import Image

from spare.synthetic import animals, backgrounds, cars, faces, things
from spare.synthetic.brushes import Canvas, Rng, placed


def street_scene(size: int, car: int, scene: int, thing: int, rng: Rng) -> Image.Image:
    """A sedan (0) or pick-up (1) in town (0) or country (1), beside it a thing of either."""
    canvas = Canvas(size, size)
    (backgrounds.city, backgrounds.countryside)[scene](canvas, rng)
    center = 0.875 + rng.uniform(-0.02, 0.02), 0.5 + rng.uniform(-0.02, 0.02)
    stand = placed(*center, 0.25 * rng.uniform(0.85, 1.1), mirrored=rng.random() < 0.5)
    choices = (things.IN_TOWN, animals.ON_FARMS)[thing]
    choices[rng.integers(len(choices))](canvas, stand, rng)
    cars.draw_car(canvas, car, rng)
    return canvas.finished(rng, haze=0.2, noise=6)


def bird_scene(size: int, bird: int, place: int, rng: Rng) -> Image.Image:
    """A land bird (0) or water bird (1) in front of land (0) or water (1); a quarter wider."""
    canvas = Canvas(size + size // 4, size)
    (backgrounds.countryside, backgrounds.water)[place](canvas, rng)
    mirrored = rng.random() < 0.5
    animals.draw_bird(canvas, placed(0.5, 0.5, 0.6, mirrored=mirrored), rng, long_neck=bird == 1)
    return canvas.finished(rng)


def portrait(width: int, height: int, blond: bool, male: bool, rng: Rng) -> Image.Image:
    """A face with blond or dark hair, short (male) or long."""
    canvas = Canvas(width, height)
    faces.draw_face(canvas, rng, blond, male)
    return canvas.finished(rng)


def animal_scene(size: int, kind: str, rng: Rng) -> Image.Image:
    """One of `animals.ANIMALS` in front of any of the backgrounds."""
    canvas = Canvas(size, size)
    (backgrounds.countryside, backgrounds.water, backgrounds.city)[rng.integers(3)](canvas, rng)
    mirrored = rng.random() < 0.5
    animals.ANIMALS[kind](canvas, placed(0.5, 0.5, 0.6, mirrored=mirrored), rng)
    return canvas.finished(rng)
