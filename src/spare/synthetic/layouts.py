"""Small drawn data sets in the official layouts: nothing to download, reproducible from a seed.

`draw_urbancars` is a problem to work on: two shortcuts at once, both easier than the class. The
others hold a handful of simple pictures each, to try a layout or to test what reads it.

Every picture has its own generator, keyed by (seed, split, group, number): its bytes depend neither
on the other pictures nor on the order of drawing. This file says which pictures go where;
pictures.py draws them.
"""

from __future__ import annotations

import csv
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from PIL import Image

from spare.images.imagenet import RANGES, WNIDS
from spare.limits import SEED, Count, Range, Share, check_value
from spare.progress import SILENT, Progress
from spare.synthetic.counts import group_counts
from spare.synthetic.folder import draw_folder
from spare.synthetic.pictures import animal_scene, bird_scene, portrait, street_scene
from spare.synthetic.validation import ValLike, is_biased

SPLITS = ("train", "val", "test")
#: Pixels a side.
Side = Annotated[int, Range(16, 2000)]
Seed = Annotated[int, SEED]


# --- UrbanCars: shape decides, background and co-occurring object are shortcuts ---

KINDS = ("urban", "country")


def draw_urbancars(
    folder: Path,
    *,
    size: Side = 64,
    per_class: Count = 4000,
    held_out: Count = 125,
    background: Share = 0.95,
    co_object: Share = 0.95,
    val_like: ValLike = "test",
    seed: Seed = 0,
    progress: Progress = SILENT,
) -> Path:
    """Cars in UrbanCars' layout: sedans (urban) and pick-ups (country), told apart by their shape.

    per_class               training examples per class
    held_out                images in each of the eight groups, in validation and again in test
    background, co_object   share of the training examples whose background (object) agrees with
                            the class; a group gets the product of the two
    val_like                `train` for a validation split of the same size with training's shares
    """
    options = {
        "size": size,
        "per_class": per_class,
        "held_out": held_out,
        "background": float(background),
        "co_object": float(co_object),
        "val_like": val_like,
        "seed": seed,
    }
    options = _checked(draw_urbancars, options)
    shares = dict.fromkeys(SPLITS, (0.5, 0.5)) | {
        split: (float(background), float(co_object)) for split in _biased_splits(val_like)
    }
    per_split = {"train": per_class, "val": 4 * held_out, "test": 4 * held_out}
    counts = {split: group_counts(per_split[split], *shares[split]) for split in SPLITS}

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        for split_number, split in enumerate(SPLITS):
            top = root / "bg-{}_co_occur_obj-{}".format(*shares[split]) / split
            for group in range(8):
                kinds = group >> 2, group >> 1 & 1, group & 1
                name = "obj-{}_bg-{}_co_occur_obj-{}".format(*(KINDS[kind] for kind in kinds))
                (top / name).mkdir(parents=True)
                n = counts[split][group]
                for number in range(n):
                    rng = np.random.default_rng([seed, split_number, group, number])
                    yield top / name / numbered(number, n), street_scene(size, *kinds, rng)

    total = 2 * per_class + 16 * held_out
    return draw_folder(folder, "urbancars", options, pictures, total, progress)


def numbered(number: int, of: int) -> str:
    """A name as in the official set, with enough digits to sort in the order of drawing."""
    return f"{number:0{max(3, len(str(of - 1)))}d}.jpg"


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
    size: Side = 64,
    majority: Count = 12,
    per_group: Count = 4,
    val_like: ValLike = "test",
    seed: Seed = 0,
    progress: Progress = SILENT,
) -> Path:
    """Birds in front of land or water in Waterbirds' layout; `size` high and a quarter wider.

    majority    training images in each group whose background agrees with the bird
    per_group   training images in each other group, and images in every group of val and of test
    val_like    `train` for as many images in each group of val as in training
    """
    options = {
        "size": size,
        "majority": majority,
        "per_group": per_group,
        "val_like": val_like,
        "seed": seed,
    }
    options = _checked(draw_waterbirds, options)
    plan = _group_plan(majority, per_group, (0, 3), val_like)

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        rows: list[tuple[str, int, int, int, str]] = []
        for split, group, number in plan:
            bird, place = divmod(group, 2)
            rng = np.random.default_rng([seed, split, group, number])
            species = (LAND_BIRDS, WATER_BIRDS)[bird][number % 4]
            name = f"{species[4:]}_{len(rows) + 1:04d}_{number + 1}.jpg"
            scene = (LAND_PLACES, WATER_PLACES)[place][number % 2]
            rows.append((f"{species}/{name}", bird, split, place, f"/{scene[0]}/{scene}/{name}"))
            yield root / species / name, bird_scene(size, bird, place, rng)
        rows.sort()
        _write_csv(
            root / "metadata.csv",
            ("img_id", "img_filename", "y", "split", "place", "place_filename"),
            [(number, *row) for number, row in enumerate(rows, 1)],
        )

    return draw_folder(folder, "waterbirds", options, pictures, len(plan), progress)


#: CelebA's 40 attributes in the order of the official file.
ATTRIBUTES = [
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs",
    "Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows",
    "Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair", "Heavy_Makeup",
    "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes", "No_Beard",
    "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns",
    "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat",
    "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young",
]  # fmt: skip
CELEBA_SIZE = (178, 218)


def draw_celeba(
    folder: Path,
    *,
    majority: Count = 12,
    per_group: Count = 4,
    val_like: ValLike = "test",
    seed: Seed = 0,
    progress: Progress = SILENT,
) -> Path:
    """Faces in CelebA's layout: blond or dark hair (the class), long or short (Male).

    majority    training images in each group but blond men
    per_group   training images of blond men, and images in every group of val and of test
    val_like    `train` for as many images in each group of val as in training

    Of the other attributes only dark hair is drawn; the rest are random.
    """
    options = {"majority": majority, "per_group": per_group, "val_like": val_like, "seed": seed}
    options = _checked(draw_celeba, options)
    plan = _group_plan(majority, per_group, (0, 1, 2), val_like)

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
            picture = portrait(*CELEBA_SIZE, blond == 1, male == 1, rng)
            yield root / "img_align_celeba" / name, picture
        _write_csv(root / "list_attr_celeba.csv", ("image_id", *ATTRIBUTES), attributes)
        _write_csv(root / "list_eval_partition.csv", ("image_id", "partition"), partitions)

    return draw_folder(folder, "celeba", options, pictures, len(plan), progress)


def draw_restricted_imagenet(
    folder: Path,
    *,
    size: Side = 64,
    train: Count = 2,
    val: Count = 2,
    seed: Seed = 0,
    progress: Progress = SILENT,
) -> Path:
    """Animals in ImageNet's layout: 1000 folders, with images in those that belong to a class.

    train, val  images in each of these 203 folders

    The names of the folders are made up; only their number and their order are ImageNet's.
    """
    options = {"size": size, "train": train, "val": val, "seed": seed}
    options = _checked(draw_restricted_imagenet, options)
    wnids = [f"n{1_440_764 + 11_000 * i:08d}" for i in range(WNIDS)]
    used = [(kind, i) for kind, (first, last) in RANGES.items() for i in range(first, last + 1)]

    def pictures(root: Path) -> Iterator[tuple[Path, Image.Image]]:
        val_images = 0
        for split, split_name in enumerate(("train", "val")):
            for wnid in wnids:
                (root / split_name / wnid).mkdir(parents=True)
            for kind, i in used:
                for number in range((train, val)[split]):
                    val_images += split
                    name = f"ILSVRC2012_val_{val_images:08d}" if split else f"{wnids[i]}_{number}"
                    rng = np.random.default_rng([seed, split, i, number])
                    path = root / split_name / wnids[i] / f"{name}.JPEG"
                    yield path, animal_scene(size, kind, rng)

    total = len(used) * (train + val)
    return draw_folder(folder, "restricted_imagenet", options, pictures, total, progress)


# --- What the layouts share ---


def options_of(layout: Callable[..., Path]) -> dict[str, Any]:
    """What a layout may be told, with types and ranges."""
    hints = typing.get_type_hints(layout, include_extras=True)
    return {name: kind for name, kind in hints.items() if hasattr(kind, "__metadata__")}


def _checked(layout: Callable[..., Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a folder's note has them; `val_like` is in it only where it changes anything,
    so that a folder that was drawn before there was this option is still known as the same."""
    for name, kind in options_of(layout).items():
        check_value(name, options[name], kind)
    biased = "val_like" in options and is_biased(options["val_like"])
    return {name: value for name, value in options.items() if name != "val_like" or biased}


def _biased_splits(val_like: str) -> tuple[str, ...]:
    return ("train", "val") if is_biased(val_like) else ("train",)


def _group_plan(
    majority: int, per_group: int, majorities: Sequence[int], val_like: str
) -> list[tuple[int, int, int]]:
    """(split, group, number) of every image of a data set with four groups."""
    biased = _biased_splits(val_like)
    return [
        (number, group, image)
        for number, split in enumerate(SPLITS)
        for group in range(4)
        for image in range(majority if split in biased and group in majorities else per_group)
    ]


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


DRAWN: dict[str, Callable[..., Path]] = {
    "urbancars": draw_urbancars,
    "waterbirds": draw_waterbirds,
    "celeba": draw_celeba,
    "restricted_imagenet": draw_restricted_imagenet,
}
