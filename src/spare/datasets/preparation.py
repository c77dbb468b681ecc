"""How an image becomes a network's input: choices that all data sets of images share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from spare.data.transforms import (
    RandomTransform,
    center_crop,
    compose,
    random_crop,
    random_flip,
    random_resized_crop,
)
from spare.errors import InputError, unknown
from spare.limits import Range, check_ranges

#: Mean and standard deviation by name.
NORMALIZE: dict[str, tuple[float | Sequence[float], float | Sequence[float]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": (0.5, 0.5),
}
AUGMENT = ("none", "flip", "crop", "resized_crop")
CACHE = ("auto", "on", "off")
#: Pixels a side, beyond which no network here looks.
MAX_SIDE = 10_000


@dataclass(frozen=True)
class Preparation:
    """How an image becomes a network's input."""

    #: Side of the square that is decoded once and kept.
    resize: Annotated[int, Range(1, MAX_SIDE)] = 256
    #: Side of what the network sees: the center, or in training as `augment` says; 0 for all of it.
    crop: Annotated[int, Range(0, MAX_SIDE)] = 224
    #: Scale the shorter side to `resize` and crop to the center, instead of stretching to a square.
    keep_aspect: bool = True
    #: Of training batches: none, flip, crop (and flip), resized_crop (and flip).
    augment: str = "flip"
    #: imagenet (its mean and standard deviation per channel) or half (-1 to 1).
    normalize: str = "imagenet"
    #: on, off (decode every time), or auto: on unless the disk has no room.
    cache: str = "auto"
    #: Leave out images that cannot be read, instead of stopping before training.
    skip_bad: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, value, known in (
            ("augment", self.augment, AUGMENT),
            ("normalize", self.normalize, NORMALIZE),
            ("cache", self.cache, CACHE),
        ):
            if value not in known:
                raise unknown(name, value, known)
        if self.crop > self.resize:
            raise InputError(f"crop is from 0 to resize ({self.resize}), not {self.crop}.")


def augmentation(preparation: Preparation) -> RandomTransform | None:
    """What is done to training batches at random."""
    size = preparation.crop or preparation.resize
    steps: dict[str, list[RandomTransform]] = {
        "none": [],
        "flip": [lambda batch, rng: center_crop(size)(batch), random_flip()],
        "crop": [random_crop(size), random_flip()],
        "resized_crop": [random_resized_crop(size), random_flip()],
    }
    chosen = steps[preparation.augment]
    return compose(*chosen) if chosen else None
