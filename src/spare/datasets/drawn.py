"""Small drawn data sets in the official layouts: nothing to download, made anew from a seed.

`draw_urbancars` is a problem to work on: two shortcuts at once, both easier than the class. The
others hold a handful of simple pictures each, to try a layout or to test what reads it.

Every picture has a generator of its own, keyed by (seed, split, group, number): its bytes depend on
neither the other pictures nor the order of drawing. A folder appears whole or not at all.
"""

from __future__ import annotations

import csv
import fcntl
import inspect
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from colorsys import hsv_to_rgb
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from spare.datasets.restricted_imagenet import RANGES, WNIDS
from spare.errors import InputError, RunError, check_seed, unknown
from spare.files import cannot_write, read_json, write_json

Colour = tuple[int, int, int]
Point = tuple[float, float]
Place = Callable[[float, float], Point]
Rng = np.random.Generator
#: Called with how many pictures are drawn, and of how many.
Report = Callable[[int, int], None]

SPLITS = ("train", "val", "test")
ABOUT = "drawn.json"
#: Raised whenever the pictures change, so that an older folder is not taken for a new one.
VERSION = 1
FINER = 3  # drawn so much larger and shrunk, which smooths the edges
JPEG_QUALITY = 92


# --- UrbanCars: shape decides, background and co-occurring object are shortcuts ---

KINDS = ("urban", "country")


def draw_urbancars(
    folder: Path,
    *,
    size: int = 64,
    per_class: int = 4000,
    held_out: int = 125,
    background: float = 0.95,
    co_object: float = 0.95,
    seed: int = 0,
    report: Report = lambda done, total: None,
) -> Path:
    """Cars in UrbanCars' layout: sedans (urban) and pick-ups (country), told apart by their shape.

    per_class   training examples of a class; its groups get the product of the two shares
    held_out    images in each of the eight groups, in validation and again in test
    background, co_object   in training, the share whose background (object) agrees with the class
    """
    _check(size=(size, 16), per_class=(per_class, 1), held_out=(held_out, 1))
    for name, share in (("background", background), ("co_object", co_object)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} is a share from 0 to 1, not {share}.")
    check_seed(seed)
    counts = _training_counts(per_class, background, co_object)
    options = {
        "size": size,
        "per_class": per_class,
        "held_out": held_out,
        "background": float(background),
        "co_object": float(co_object),
        "seed": seed,
    }

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        for split_number, split in enumerate(SPLITS):
            shares = (background, co_object) if split == "train" else (0.5, 0.5)
            top = root / "bg-{}_co_occur_obj-{}".format(*map(float, shares)) / split
            for group in range(8):
                kinds = group >> 2, group >> 1 & 1, group & 1
                name = "obj-{}_bg-{}_co_occur_obj-{}".format(*(KINDS[kind] for kind in kinds))
                (top / name).mkdir(parents=True)
                n = counts[group] if split == "train" else held_out
                for number in range(n):
                    rng = np.random.default_rng([seed, split_number, group, number])
                    yield top / name / _numbered(number, n), _street_scene(size, *kinds, rng)

    total = 2 * per_class + 16 * held_out
    return _draw_folder(folder, "urbancars", options, pictures, total, report)


def _numbered(number: int, of: int) -> str:
    """Names as in the official set, wide enough to sort in the order of drawing."""
    return f"{number:0{max(3, len(str(of - 1)))}d}.jpg"


def _training_counts(per_class: int, background: float, co_object: float) -> list[int]:
    """How many training images each group gets, in the order of group ids (class, bg, object)."""
    shares = [
        of_scene * of_thing
        for of_scene in (background, 1 - background)
        for of_thing in (co_object, 1 - co_object)
    ]
    urban = _rounded(per_class, shares)
    return urban + urban[::-1]  # what agrees with urban cars disagrees with country cars


def _rounded(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to `total`, nearest to the shares, at least one where there is any."""
    ideal = [round(share * total, 6) for share in shares]
    if sum(share > 0 for share in ideal) > total:
        raise InputError(f"per_class={total} is too few for one image in every group: give more.")
    counts = [max(int(share), int(share > 0)) for share in ideal]
    while sum(counts) != total:
        step = 1 if sum(counts) < total else -1
        lacking = [step * (want - have) for want, have in zip(ideal, counts, strict=True)]
        allowed = [i for i, have in enumerate(counts) if ideal[i] > 0 and have + step > 0]
        counts[max(allowed, key=lambda i: lacking[i])] += step
    return counts


def _street_scene(size: int, car: int, scene: int, thing: int, rng: Rng) -> Image.Image:
    canvas = Canvas(size, size)
    (_city, _countryside)[scene](canvas, rng)
    centre = 0.875 + rng.uniform(-0.02, 0.02), 0.5 + rng.uniform(-0.02, 0.02)
    stand = _placed(*centre, 0.25 * rng.uniform(0.85, 1.1), mirrored=rng.random() < 0.5)
    things = ((_hydrant, _sign, _meter, _traffic_light), (_cow, _sheep, _horse))[thing]
    things[rng.integers(len(things))](canvas, stand, rng)
    _car(canvas, car, rng)
    return canvas.finished(rng, haze=0.2, noise=6)


def _sky(canvas: Canvas, rng: Rng) -> None:
    """The same skies over city and country: the sky is no clue."""
    skies = ((150, 190, 235), (205, 212, 220), (235, 215, 190), (120, 150, 200))
    canvas.box(0, 0, 1, 1, _near(skies[rng.integers(len(skies))], 18, rng))


def _city(canvas: Canvas, rng: Rng) -> None:
    _sky(canvas, rng)
    horizon = rng.uniform(0.5, 0.6)
    walls = ((130, 135, 145), (105, 118, 140), (160, 160, 165), (150, 105, 90), (175, 160, 135))
    left = -rng.uniform(0, 0.15)
    while left < 1:
        right = left + rng.uniform(0.12, 0.32)
        top = rng.uniform(0.0, 0.36)
        wall = _near(walls[rng.integers(len(walls))], 20, rng)
        canvas.box(left, top, right, horizon, wall)
        pane = (235, 220, 150) if rng.random() < 0.3 else _scaled(wall, rng.uniform(0.45, 0.75))
        step = rng.uniform(0.06, 0.09)
        for y in np.arange(top + 0.03, horizon - 0.05, step):
            for x in np.arange(left + 0.02, right - 0.03, step):
                canvas.box(x, y, x + step * 0.5, y + step * 0.55, pane)
        left = right + (rng.uniform(0, 0.08) if rng.random() < 0.4 else 0)
    if rng.random() < 0.3:
        _tree(canvas, rng.uniform(0, 1), horizon + 0.03, rng.uniform(0.12, 0.25), rng)
    canvas.box(0, horizon, 1, horizon + 0.06, _near((165, 162, 158), 15, rng))
    canvas.box(0, horizon + 0.06, 1, 1, _grey(rng.uniform(65, 120)))
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
        hill = _near(((85, 115, 80), (110, 125, 95), (105, 110, 125))[rng.integers(3)], 15, rng)
        canvas.ellipse(middle - wide, horizon - high, middle + wide, horizon + high, hill)
    field = _near(fields[rng.integers(len(fields))], 18, rng)
    canvas.box(0, horizon, 1, 1, field)
    furrow = _scaled(field, rng.uniform(0.8, 0.95))
    for x in np.arange(-1, 2, rng.uniform(0.15, 0.4)):
        canvas.line([(0.5 + (x - 0.5) * 0.4, horizon), (x, 1)], furrow, 0.012)
    for _ in range(rng.integers(0, 6)):
        _tree(canvas, rng.uniform(0, 1), horizon + 0.03, rng.uniform(0.12, 0.4), rng)
    if rng.random() < 0.25:
        x, wall = rng.uniform(0, 0.9), _near((150, 75, 65), 25, rng)
        canvas.box(x, horizon - 0.12, x + 0.18, horizon + 0.02, wall)
        roof = [(x - 0.02, horizon - 0.12), (x + 0.09, horizon - 0.2), (x + 0.2, horizon - 0.12)]
        canvas.polygon(roof, _scaled(wall, 0.6))
    road = rng.uniform(0.58, 0.64)
    paving = _near((150, 125, 90), 20, rng) if rng.random() < 0.7 else _grey(rng.uniform(80, 130))
    canvas.box(0, road, 1, road + rng.uniform(0.12, 0.22), paving)


def _tree(canvas: Canvas, x: float, foot: float, high: float, rng: Rng) -> None:
    leaves = _near((60, 105, 50), 22, rng)
    canvas.box(x - high * 0.06, foot - high * 0.4, x + high * 0.06, foot, (90, 70, 50))
    if rng.random() < 0.5:
        canvas.ellipse(x - high * 0.3, foot - high, x + high * 0.3, foot - high * 0.25, leaves)
    else:
        tip, low = foot - high, foot - high * 0.2
        canvas.polygon([(x, tip), (x - high * 0.25, low), (x + high * 0.25, low)], leaves)


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
    at = _placed(
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 + rng.uniform(-0.03, 0.03),
        0.5 * rng.uniform(0.9, 1.1),
        mirrored=rng.random() < 0.5,
        turned=rng.normal(0, 0.04),
        middle=(0.5, -0.2),
    )
    body = _vivid(rng)
    dark = _scaled(body, 0.6)
    canvas.polygon([at(0.0, -0.02), at(1.0, -0.02), at(1.02, 0.03), at(-0.02, 0.03)], _grey(45))
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
    canvas.line([*edge, edge[0]], _scaled(body, 0.45), 0.008)
    glass = _near((70, 85, 100), 25, rng) if rng.random() < 0.7 else _near((190, 205, 215), 20, rng)
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
        canvas.circle(at, x, -wheel, wheel * 1.05, _grey(30))
        canvas.circle(at, x, -wheel, wheel * 0.5, _grey(rng.uniform(120, 200)))


# Things are drawn in a square of their own: x from 0 to 1, y from 0 (top) to 1 (the ground).


def _hydrant(canvas: Canvas, at: Place, rng: Rng) -> None:
    paint = _near(((200, 45, 35), (225, 180, 40), (215, 95, 40))[rng.integers(3)], 20, rng)
    canvas.quad(at, 0.34, 0.3, 0.66, 1.0, paint)
    canvas.circle(at, 0.5, 0.3, 0.17, paint)
    canvas.quad(at, 0.2, 0.45, 0.8, 0.6, paint)
    canvas.quad(at, 0.28, 0.92, 0.72, 1.0, _scaled(paint, 0.7))
    canvas.circle(at, 0.5, 0.53, 0.08, _scaled(paint, 0.5))


def _sign(canvas: Canvas, at: Place, rng: Rng) -> None:
    canvas.quad(at, 0.46, 0.2, 0.54, 1.0, _grey(rng.uniform(90, 150)))
    plate = _near(((190, 30, 35), (35, 80, 170), (30, 120, 70))[rng.integers(3)], 20, rng)
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
    metal = _near((125, 128, 135), 25, rng)
    canvas.quad(at, 0.45, 0.4, 0.55, 1.0, _scaled(metal, 0.7))
    canvas.quad(at, 0.34, 0.15, 0.66, 0.5, metal)
    canvas.circle(at, 0.5, 0.16, 0.16, metal)
    canvas.quad(at, 0.4, 0.12, 0.6, 0.26, (215, 225, 220))


def _traffic_light(canvas: Canvas, at: Place, rng: Rng) -> None:
    canvas.quad(at, 0.45, 0.5, 0.55, 1.0, _grey(rng.uniform(60, 110)))
    canvas.quad(at, 0.32, 0.0, 0.68, 0.62, _grey(rng.uniform(25, 55)))
    lit = rng.integers(3)
    for k, lamp in enumerate(((235, 50, 40), (240, 190, 50), (60, 205, 95))):
        canvas.circle(at, 0.5, 0.12 + 0.19 * k, 0.085, lamp if k == lit else _scaled(lamp, 0.4))


def _legs(canvas: Canvas, at: Place, top: float, colour: Colour) -> None:
    for x in (0.2, 0.32, 0.62, 0.74):
        canvas.quad(at, x, top, x + 0.07, 1.0, colour)


def _cow(canvas: Canvas, at: Place, rng: Rng) -> None:
    hide = _near(((235, 230, 225), (140, 85, 50), (60, 50, 48))[rng.integers(3)], 12, rng)
    patch = _grey(45) if sum(hide) > 400 else (225, 215, 205)
    _legs(canvas, at, 0.65, _scaled(hide, 0.8))
    canvas.quad(at, 0.15, 0.35, 0.82, 0.75, hide)
    for _ in range(3):
        canvas.circle(at, rng.uniform(0.22, 0.75), rng.uniform(0.42, 0.65), 0.08, patch)
    canvas.quad(at, 0.76, 0.25, 1.0, 0.5, hide)
    canvas.quad(at, 0.9, 0.38, 1.02, 0.5, (215, 165, 155))


def _sheep(canvas: Canvas, at: Place, rng: Rng) -> None:
    wool = _near((230, 225, 212), 15, rng)
    face = _grey(50) if rng.random() < 0.6 else _scaled(wool, 0.8)
    _legs(canvas, at, 0.7, face)
    for x, y in ((0.25, 0.6), (0.35, 0.48), (0.5, 0.46), (0.65, 0.5), (0.72, 0.62), (0.5, 0.64)):
        canvas.circle(at, x, y, 0.17, wool)
    canvas.circle(at, 0.88, 0.45, 0.12, face)


def _horse(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = _near(((120, 75, 45), (165, 115, 70), (55, 45, 42))[rng.integers(3)], 15, rng)
    _legs(canvas, at, 0.6, coat)
    canvas.quad(at, 0.15, 0.4, 0.8, 0.68, coat)
    canvas.polygon([at(0.62, 0.45), at(0.82, 0.1), at(0.92, 0.16), at(0.8, 0.6)], coat)
    canvas.polygon([at(0.8, 0.08), at(1.03, 0.26), at(0.98, 0.34), at(0.8, 0.24)], coat)
    canvas.line([at(0.16, 0.42), at(0.06, 0.75)], _scaled(coat, 0.5), 0.02)


# --- The other layouts: a handful of simple pictures ---

LAND_BIRDS = ("004.Groove_billed_Ani", "009.Brewer_Blackbird", "017.Cardinal", "073.Blue_Jay")
WATER_BIRDS = (
    "001.Black_footed_Albatross",
    "002.Laysan_Albatross",
    "045.Northern_Fulmar",
    "059.California_Gull",
)
LAND_PLACES = ("bamboo_forest", "forest/broadleaf")
WATER_PLACES = ("ocean", "lake/natural")


def draw_waterbirds(
    folder: Path,
    *,
    size: int = 64,
    majority: int = 12,
    per_group: int = 4,
    seed: int = 0,
    report: Report = lambda done, total: None,
) -> Path:
    """Birds before land or water in Waterbirds' layout; `size` high and a quarter wider.

    majority    training images of each group whose background agrees with the bird
    per_group   training images of each other group; images of every group of val and of test
    """
    _check(size=(size, 16), majority=(majority, 1), per_group=(per_group, 1))
    check_seed(seed)
    options = {"size": size, "majority": majority, "per_group": per_group, "seed": seed}
    plan = _group_plan(majority, per_group, majorities=(0, 3))

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        rows: list[tuple[str, int, int, int, str]] = []
        for split, group, number in plan:
            bird, place = divmod(group, 2)
            rng = np.random.default_rng([seed, split, group, number])
            species = (LAND_BIRDS, WATER_BIRDS)[bird][number % 4]
            name = f"{species[4:]}_{len(rows) + 1:04d}_{number + 1}.jpg"
            scene = (LAND_PLACES, WATER_PLACES)[place][number % 2]
            rows.append((f"{species}/{name}", bird, split, place, f"/{scene[0]}/{scene}/{name}"))
            canvas = Canvas(size + size // 4, size)
            (_countryside, _water)[place](canvas, rng)
            mirrored = rng.random() < 0.5
            _bird(canvas, _placed(0.5, 0.5, 0.6, mirrored=mirrored), rng, long_neck=bird == 1)
            yield root / species / name, canvas.finished(rng)
        rows.sort()
        _write_csv(
            root / "metadata.csv",
            ("img_id", "img_filename", "y", "split", "place", "place_filename"),
            [(number, *row) for number, row in enumerate(rows, 1)],
        )

    return _draw_folder(folder, "waterbirds", options, pictures, len(plan), report)


#: CelebA's 40 attributes in the order of the official file.
ATTRIBUTES = [
    "5_o_Clock_Shadow",
    "Arched_Eyebrows",
    "Attractive",
    "Bags_Under_Eyes",
    "Bald",
    "Bangs",
    "Big_Lips",
    "Big_Nose",
    "Black_Hair",
    "Blond_Hair",
    "Blurry",
    "Brown_Hair",
    "Bushy_Eyebrows",
    "Chubby",
    "Double_Chin",
    "Eyeglasses",
    "Goatee",
    "Gray_Hair",
    "Heavy_Makeup",
    "High_Cheekbones",
    "Male",
    "Mouth_Slightly_Open",
    "Mustache",
    "Narrow_Eyes",
    "No_Beard",
    "Oval_Face",
    "Pale_Skin",
    "Pointy_Nose",
    "Receding_Hairline",
    "Rosy_Cheeks",
    "Sideburns",
    "Smiling",
    "Straight_Hair",
    "Wavy_Hair",
    "Wearing_Earrings",
    "Wearing_Hat",
    "Wearing_Lipstick",
    "Wearing_Necklace",
    "Wearing_Necktie",
    "Young",
]
CELEBA_SIZE = (178, 218)


def draw_celeba(
    folder: Path,
    *,
    majority: int = 12,
    per_group: int = 4,
    seed: int = 0,
    report: Report = lambda done, total: None,
) -> Path:
    """Faces in CelebA's layout: blond or dark hair (the class), long or short (Male).

    majority    training images of each group but blond men
    per_group   training images of blond men; images of every group of val and of test
    Of the other attributes only dark hair is drawn; the rest are coin tosses.
    """
    _check(majority=(majority, 1), per_group=(per_group, 1))
    check_seed(seed)
    options = {"majority": majority, "per_group": per_group, "seed": seed}
    plan = _group_plan(majority, per_group, majorities=(0, 1, 2))

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        attributes: list[tuple[str, *tuple[int, ...]]] = []
        partitions: list[tuple[str, int]] = []
        for split, group, number in plan:
            blond, male = divmod(group, 2)
            rng = np.random.default_rng([seed, split, group, number])
            name = f"{len(partitions) + 1:06d}.jpg"
            has = dict(zip(ATTRIBUTES, rng.random(len(ATTRIBUTES)) < 0.3, strict=True))
            has |= {"Blond_Hair": blond == 1, "Male": male == 1, "Black_Hair": blond == 0}
            has |= {"Bald": False, "Brown_Hair": False, "Gray_Hair": False}
            attributes.append((name, *(1 if has[key] else -1 for key in ATTRIBUTES)))
            partitions.append((name, split))
            canvas = Canvas(*CELEBA_SIZE)
            _face(canvas, rng, blond == 1, male == 1)
            yield root / "img_align_celeba" / name, canvas.finished(rng)
        _write_csv(root / "list_attr_celeba.csv", ("image_id", *ATTRIBUTES), attributes)
        _write_csv(root / "list_eval_partition.csv", ("image_id", "partition"), partitions)

    return _draw_folder(folder, "celeba", options, pictures, len(plan), report)


def draw_restricted_imagenet(
    folder: Path,
    *,
    size: int = 64,
    train: int = 2,
    val: int = 2,
    seed: int = 0,
    report: Report = lambda done, total: None,
) -> Path:
    """Animals in ImageNet's layout: a folder for each of 1000 names, images where a class has them.

    The names are made up; only their number and their order are ImageNet's.
    train, val  images in each of the 203 folders that belong to a class
    """
    _check(size=(size, 16), train=(train, 1), val=(val, 1))
    check_seed(seed)
    options = {"size": size, "train": train, "val": val, "seed": seed}
    wnids = [f"n{1_440_764 + 11_000 * place:08d}" for place in range(WNIDS)]
    used = [(kind, place) for kind, (low, high) in RANGES.items() for place in range(low, high + 1)]

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        validated = 0
        for split, split_name in enumerate(("train", "val")):
            for wnid in wnids:
                (root / split_name / wnid).mkdir(parents=True)
            for kind, place in used:
                for number in range((train, val)[split]):
                    validated += split
                    name = (
                        f"ILSVRC2012_val_{validated:08d}" if split else f"{wnids[place]}_{number}"
                    )
                    rng = np.random.default_rng([seed, split, place, number])
                    canvas = Canvas(size, size)
                    (_countryside, _water, _city)[rng.integers(3)](canvas, rng)
                    mirrored = rng.random() < 0.5
                    ANIMALS[kind](canvas, _placed(0.5, 0.5, 0.6, mirrored=mirrored), rng)
                    path = root / split_name / wnids[place] / f"{name}.JPEG"
                    yield path, canvas.finished(rng)

    total = len(used) * (train + val)
    return _draw_folder(folder, "restricted_imagenet", options, pictures, total, report)


def _group_plan(
    majority: int, per_group: int, majorities: Sequence[int]
) -> list[tuple[int, int, int]]:
    """(split, group, number) of every image of a data set with four groups."""
    return [
        (split, group, number)
        for split in range(len(SPLITS))
        for group in range(4)
        for number in range(majority if split == 0 and group in majorities else per_group)
    ]


def _water(canvas: Canvas, rng: Rng) -> None:
    _sky(canvas, rng)
    horizon = rng.uniform(0.3, 0.5)
    water = _near(((40, 95, 140), (55, 125, 150), (70, 110, 125))[rng.integers(3)], 15, rng)
    canvas.box(0, horizon, 1, 1, water)
    for _ in range(15):
        x, y = rng.uniform(-0.1, 1), rng.uniform(horizon, 1)
        canvas.box(x, y, x + rng.uniform(0.1, 0.3), y + 0.012, _scaled(water, 1.3))


def _bird(canvas: Canvas, at: Place, rng: Rng, long_neck: bool = False) -> None:
    plumage = _vivid(rng)
    canvas.polygon([at(0.25, 0.5), at(0.0, 0.4), at(0.02, 0.62)], _scaled(plumage, 0.7))
    canvas.oval(at, 0.15, 0.4, 0.75, 0.75, plumage)
    canvas.polygon([at(0.25, 0.5), at(0.6, 0.5), at(0.3, 0.7)], _scaled(plumage, 0.7))
    head = (0.85, 0.2) if long_neck else (0.7, 0.36)
    if long_neck:
        canvas.polygon([at(0.6, 0.5), at(0.72, 0.6), at(0.9, 0.2), at(0.8, 0.2)], plumage)
    canvas.circle(at, *head, 0.11, plumage)
    canvas.circle(at, head[0] + 0.03, head[1] - 0.02, 0.02, _grey(15))
    beak = 0.22 if long_neck else 0.1
    tip = at(head[0] + 0.1 + beak, head[1] + 0.03)
    canvas.polygon(
        [at(head[0] + 0.08, head[1] - 0.05), at(head[0] + 0.08, head[1] + 0.06), tip],
        (235, 160, 50),
    )
    for x in (0.4, 0.5):
        canvas.quad(at, x, 0.72, x + 0.03, 1.0, (210, 140, 60))


def _face(canvas: Canvas, rng: Rng, blond: bool, male: bool) -> None:
    canvas.box(0, 0, 1, 1, _vivid(rng))
    skin = _scaled((245, 205, 175), rng.uniform(0.55, 1.0))
    hair = _near((225, 190, 105) if blond else (50, 38, 32), 15, rng)
    x, y = 0.5 + rng.uniform(-0.03, 0.03), 0.53 + rng.uniform(-0.02, 0.02)
    canvas.box(x - 0.38, 0.88, x + 0.38, 1, _vivid(rng))
    if male:
        canvas.ellipse(x - 0.29, y - 0.34, x + 0.29, y + 0.1, hair)
    else:
        canvas.ellipse(x - 0.36, y - 0.36, x + 0.36, y + 0.2, hair)
        canvas.box(x - 0.36, y - 0.1, x + 0.36, y + 0.38, hair)
    canvas.box(x - 0.1, y + 0.2, x + 0.1, 0.92, _scaled(skin, 0.9))
    canvas.ellipse(x - 0.25, y - 0.24, x + 0.25, y + 0.3, skin)
    for side in (-1, 1):
        canvas.ellipse(
            x + side * 0.11 - 0.04, y - 0.03, x + side * 0.11 + 0.04, y + 0.01, _grey(40)
        )
    canvas.polygon([(x, y), (x - 0.03, y + 0.1), (x + 0.03, y + 0.1)], _scaled(skin, 0.8))
    canvas.ellipse(x - 0.09, y + 0.16, x + 0.09, y + 0.2, (185, 80, 80))


def _dog(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = _near(((165, 120, 75), (90, 65, 50), (215, 195, 165))[rng.integers(3)], 20, rng)
    _legs(canvas, at, 0.6, coat)
    canvas.quad(at, 0.18, 0.48, 0.8, 0.72, coat)
    canvas.line([at(0.2, 0.52), at(0.02, 0.3)], coat, 0.03)
    canvas.circle(at, 0.82, 0.36, 0.15, coat)
    canvas.quad(at, 0.85, 0.36, 1.05, 0.48, coat)
    canvas.oval(at, 0.68, 0.26, 0.78, 0.55, _scaled(coat, 0.6))


def _round_head(canvas: Canvas, at: Place, coat: Colour, eye: Colour) -> None:
    canvas.circle(at, 0.5, 0.5, 0.34, coat)
    for x in (0.37, 0.63):
        canvas.circle(at, x, 0.45, 0.06, eye)
        canvas.circle(at, x, 0.45, 0.03, _grey(15))


def _cat(canvas: Canvas, at: Place, rng: Rng) -> None:
    coat = _near(((225, 150, 75), (130, 130, 135), (50, 48, 50))[rng.integers(3)], 20, rng)
    for side in (-1, 1):
        ear = [at(0.5 + side * 0.33, 0.02), at(0.5 + side * 0.33, 0.42), at(0.5 + side * 0.05, 0.2)]
        canvas.polygon(ear, coat)
    _round_head(canvas, at, coat, (190, 215, 90))
    canvas.polygon([at(0.45, 0.6), at(0.55, 0.6), at(0.5, 0.67)], (220, 130, 130))
    for y in (0.58, 0.66):
        canvas.line([at(0.05, y), at(0.95, y)], _grey(235), 0.008)


def _frog(canvas: Canvas, at: Place, rng: Rng) -> None:
    skin = _near((95, 165, 60), 25, rng)
    for x in (0.1, 0.9):
        canvas.circle(at, x, 0.75, 0.16, _scaled(skin, 0.8))
    canvas.oval(at, 0.1, 0.35, 0.9, 0.95, skin)
    for x in (0.3, 0.7):
        canvas.circle(at, x, 0.33, 0.13, skin)
        canvas.circle(at, x, 0.31, 0.07, (235, 215, 90))
        canvas.circle(at, x, 0.31, 0.03, _grey(10))
    canvas.line([at(0.25, 0.62), at(0.5, 0.7), at(0.75, 0.62)], _scaled(skin, 0.4), 0.012)


def _turtle(canvas: Canvas, at: Place, rng: Rng) -> None:
    skin, shell = _near((120, 140, 80), 20, rng), _near((105, 85, 50), 20, rng)
    for x in (0.22, 0.65):
        canvas.oval(at, x, 0.65, x + 0.15, 0.95, skin)
    canvas.circle(at, 0.95, 0.58, 0.1, skin)
    canvas.oval(at, 0.1, 0.25, 0.9, 0.82, shell)
    canvas.quad(at, 0.12, 0.68, 0.88, 0.76, _scaled(shell, 0.7))
    for x, y in ((0.3, 0.55), (0.5, 0.42), (0.7, 0.55), (0.5, 0.63)):
        canvas.circle(at, x, y, 0.07, _scaled(shell, 1.4))


def _primate(canvas: Canvas, at: Place, rng: Rng) -> None:
    fur, face = _near((85, 60, 45), 20, rng), _near((210, 165, 130), 20, rng)
    for x in (0.15, 0.85):
        canvas.circle(at, x, 0.45, 0.12, face)
    _round_head(canvas, at, fur, face)
    canvas.oval(at, 0.3, 0.52, 0.7, 0.84, face)
    canvas.line([at(0.4, 0.72), at(0.6, 0.72)], _scaled(fur, 0.7), 0.012)


def _fish(canvas: Canvas, at: Place, rng: Rng) -> None:
    scales = _vivid(rng)
    canvas.polygon([at(0.25, 0.5), at(0.0, 0.25), at(0.0, 0.75)], scales)
    canvas.polygon([at(0.4, 0.35), at(0.6, 0.12), at(0.7, 0.35)], _scaled(scales, 0.7))
    canvas.oval(at, 0.18, 0.28, 0.98, 0.72, scales)
    canvas.circle(at, 0.82, 0.44, 0.05, _grey(235))
    canvas.circle(at, 0.82, 0.44, 0.025, _grey(10))


def _crab(canvas: Canvas, at: Place, rng: Rng) -> None:
    shell = _near((205, 75, 45), 25, rng)
    for side in (-1, 1):
        for y in (0.6, 0.7, 0.8):
            canvas.line([at(0.5, y - 0.1), at(0.5 + side * 0.48, y + 0.1)], shell, 0.018)
        canvas.line([at(0.5 + side * 0.2, 0.5), at(0.5 + side * 0.4, 0.25)], shell, 0.03)
        canvas.circle(at, 0.5 + side * 0.4, 0.18, 0.12, shell)
    canvas.oval(at, 0.2, 0.4, 0.8, 0.8, shell)
    for x in (0.42, 0.58):
        canvas.circle(at, x, 0.4, 0.04, _grey(15))


def _insect(canvas: Canvas, at: Place, rng: Rng) -> None:
    shell = _near(((45, 40, 40), (150, 40, 35), (60, 95, 60))[rng.integers(3)], 15, rng)
    for x in (0.42, 0.54, 0.66):
        for y in (0.15, 0.85):
            canvas.line([at(x, 0.5), at(x + (x - 0.54) * 1.5, y)], _grey(25), 0.012)
    canvas.oval(at, 0.05, 0.36, 0.48, 0.64, shell)
    canvas.circle(at, 0.55, 0.5, 0.12, _scaled(shell, 0.8))
    canvas.circle(at, 0.75, 0.5, 0.1, shell)
    for y in (0.3, 0.7):
        canvas.line([at(0.8, 0.5), at(1.0, y)], _grey(25), 0.008)


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


# --- Brushes ---


class Canvas:
    """A picture whose corners are (0, 0) and (1, 1), drawn larger than it will be."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * FINER, height * FINER))
        self._draw = ImageDraw.Draw(self._image)

    def _pixels(self, points: Sequence[Point]) -> list[Point]:
        wide, high = self._image.size
        return [(x * wide, y * high) for x, y in points]

    def polygon(self, points: Sequence[Point], colour: Colour) -> None:
        self._draw.polygon(self._pixels(points), fill=colour)

    def line(self, points: Sequence[Point], colour: Colour, thick: float) -> None:
        width = max(1, round(thick * self._image.width))
        self._draw.line(self._pixels(points), fill=colour, width=width)

    def box(self, left: float, top: float, right: float, low: float, colour: Colour) -> None:
        self._draw.rectangle(self._pixels([(left, top), (right, low)]), fill=colour)

    def ellipse(self, left: float, top: float, right: float, low: float, colour: Colour) -> None:
        self._draw.ellipse(self._pixels([(left, top), (right, low)]), fill=colour)

    def quad(
        self, at: Place, left: float, top: float, right: float, low: float, colour: Colour
    ) -> None:
        """A rectangle in coordinates of a thing's own."""
        corners = [at(left, top), at(right, top), at(right, low), at(left, low)]
        self.polygon(corners, colour)

    def oval(
        self, at: Place, left: float, top: float, right: float, low: float, colour: Colour
    ) -> None:
        (x0, y0), (x1, y1) = at(left, top), at(right, low)
        self.ellipse(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1), colour)

    def circle(self, at: Place, x: float, y: float, radius: float, colour: Colour) -> None:
        (a, b), (c, d) = at(x, y), at(x + radius, y)
        r = math.hypot(c - a, d - b)
        self.ellipse(a - r, b - r, a + r, b + r, colour)

    def finished(self, rng: Rng, *, haze: float = 0.15, noise: float = 5) -> Image.Image:
        """Shrunk to its size, with a light and a grain of its own."""
        image = self._image.resize((self.width, self.height), Image.Resampling.BOX)
        pixels = np.asarray(image, dtype=np.float32)
        light = rng.uniform(60, 230, 3).astype(np.float32)
        share = np.float32(rng.uniform(0, haze))
        grain = rng.standard_normal(pixels.shape, dtype=np.float32) * np.float32(noise)
        lit = pixels * (1 - share) + light * share + grain
        return Image.fromarray(lit.round().clip(0, 255).astype(np.uint8))


def _placed(
    x: float,
    y: float,
    wide: float,
    *,
    mirrored: bool,
    turned: float = 0.0,
    middle: Point = (0.5, 0.5),
) -> Place:
    """Coordinates of a thing's own, whose `middle` is put at (x, y)."""
    cos, sin = math.cos(turned) * wide, math.sin(turned) * wide
    flip = -1 if mirrored else 1

    def at(u: float, v: float) -> Point:
        right, down = flip * (u - middle[0]), v - middle[1]
        return x + right * cos - down * sin, y + right * sin + down * cos

    return at


def _near(colour: Colour, spread: float, rng: Rng) -> Colour:
    """A colour like this one: lighter or darker, and a little off."""
    shade = rng.normal(0, spread)
    off = rng.normal(0, spread / 3, 3)
    return _bytes([channel + shade + o for channel, o in zip(colour, off, strict=True)])


def _scaled(colour: Colour, by: float) -> Colour:
    return _bytes([channel * by for channel in colour])


def _vivid(rng: Rng) -> Colour:
    hue, saturation, value = rng.random(), rng.uniform(0, 0.9), rng.uniform(0.25, 1)
    return _bytes([255 * channel for channel in hsv_to_rgb(hue, saturation, value)])


def _grey(value: float) -> Colour:
    return _bytes([value] * 3)


def _bytes(channels: Sequence[float]) -> Colour:
    red, green, blue = (min(max(int(channel), 0), 255) for channel in channels)
    return red, green, blue


# --- Folders that are whole or not there ---


def _check(**given: tuple[int, int]) -> None:
    for name, (value, least) in given.items():
        if value < least:
            raise InputError(f"{name} is a whole number of at least {least}, not {value}.")


def _draw_folder(
    folder: Path,
    name: str,
    options: dict[str, Any],
    pictures: Callable[[Path], Iterator[tuple[Path, Image.Image]]],
    total: int,
    report: Report,
) -> Path:
    """Save every picture below a folder beside the named one, then rename it in one step."""
    about = {"drawn": name, "version": VERSION, "options": options}
    folder = Path(os.path.abspath(folder))
    if folder == Path.cwd():  # it would be replaced under the feet of whoever stands in it
        raise InputError(f"{folder} is the folder you are in: name one within it.")
    if _is_drawn(folder, about):
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    try:
        with _locked(partial):
            if _is_drawn(folder, about):  # by another process, a moment ago
                return folder
            _empty(partial)
            # Written first: it marks the folder as one that may be emptied after an interruption.
            write_json(partial / ABOUT, about)
            for done, (path, image) in enumerate(pictures(partial)):
                if done % 50 == 0:
                    report(done, total)
                path.parent.mkdir(parents=True, exist_ok=True)
                image.save(path, "JPEG", quality=JPEG_QUALITY)
            report(total, total)
            os.rename(partial, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def _is_drawn(folder: Path, about: dict[str, Any]) -> bool:
    """Whether the folder is what would be drawn; an error if it holds anything else."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder.")
    if not folder.exists() or not any(folder.iterdir()):
        return False
    if not (folder / ABOUT).is_file():
        raise InputError(
            f"{folder} holds files that were not drawn here: choose another folder or empty it."
        )
    found = read_json(folder / ABOUT)
    if found == about:
        return True
    there, asked = ({**a, **a.get("options", {}), "options": None} for a in (found, about))
    key = next(key for key in [*asked, *there] if there.get(key) != asked.get(key))
    raise InputError(
        f"{folder} was drawn with other options ({key} is {there.get(key)!r} there, "
        f"{asked.get(key)!r} was asked for): choose another folder or delete it."
    )


def _empty(partial: Path) -> None:
    if any(partial.iterdir()) and not (partial / ABOUT).is_file():
        raise InputError(
            f"{partial} is in the way and was not drawn here: move it or choose another folder."
        )
    # The mark goes last: an interruption in here leaves a folder that may still be emptied.
    for path in sorted(partial.iterdir(), key=lambda path: path.name == ABOUT):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process, so an interruption leaves none."""
    partial.mkdir(parents=True, exist_ok=True)
    lock = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is drawing {partial}: wait for it or choose another folder."
            ) from None
        yield
    finally:
        os.close(lock)


def _write_csv(path: Path, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(rows)


DRAWN: dict[str, Callable[..., Path]] = {
    "urbancars": draw_urbancars,
    "waterbirds": draw_waterbirds,
    "celeba": draw_celeba,
    "restricted_imagenet": draw_restricted_imagenet,
}


def draw(
    how: Callable[..., Path],
    folder: Path,
    options: Mapping[str, str],
    report: Report = lambda done, total: None,
) -> Path:
    """Draw with options that are still words, as a command line has them."""
    known = {
        name: type(parameter.default)
        for name, parameter in inspect.signature(how).parameters.items()
        if isinstance(parameter.default, int | float)
    }
    values: dict[str, int | float] = {}
    for name, word in options.items():
        if name not in known:
            raise unknown("option", name, known)
        try:
            values[name] = known[name](word)
        except ValueError:
            kind = "a whole number" if known[name] is int else "a number"
            raise InputError(f"{name} is {kind}, not {word!r}.") from None
    return how(folder, **values, report=report)
