"""Colored MNIST, after Zhang et al. (Correct-n-Contrast, 2022) as the SPARE paper uses it.

Five classes of two digits each; each class has its own color. In training a digit has the color of
its class with probability p_corr, else one of the four others; in validation and test the color is
independent of the class, unless validation is to be like training. Pixels of at least `THRESHOLD`
are replaced by the flat color. Images are resized from 28 to 40 and cropped to 32 at random on
every split: again for each training batch, once for validation and test. The view that is clustered
is the center crop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import center_crop, random_crop, scale_bytes
from spare.errors import unknown
from spare.limits import Range, Share
from spare.progress import SILENT, Progress
from spare.synthetic.validation import ValLike, is_biased

CLASSES = ("0-1", "2-3", "4-5", "6-7", "8-9")
PALETTES = {
    # The paper's hex codes: evenly spaced hues whose first and last are nearly the same red.
    "paper": ("ff0000", "85ff00", "00fff3", "6e00ff", "ff0018"),
    # The colors of the code that the paper follows: red, yellow, green, blue, purple.
    "distinct": ("ff0000", "d0ff00", "00ff5c", "0074ff", "b800ff"),
}
THRESHOLD = 120
RESIZED, CROPPED = 40, 32
TRAIN_SIZE = 50_000


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    palette: str = "paper",
    p_corr: Share = 0.995,
    train_size: Annotated[int, Range(0, TRAIN_SIZE)] = 0,
    val_like: ValLike = "test",
) -> Task:
    """The task of one seed: the seed decides the split, the colors and the fixed crops.

    Parameters
    ----------
    data : Path
        The folder of data sets, which holds MNIST.
    seed : int
        Decides everything random about the task.
    progress : Progress
        Not used: it takes a moment.
    palette : str
        The name of the colors, one of `PALETTES`.
    p_corr : float
        The probability that a training example has the color of its class.
    train_size : int
        0 for the paper's 50,000; fewer for quick trials (the first of the split).
    val_like : str
        `test` for a validation split with independent colors, `train` for one as biased as
        training; the other splits are the same.
    """
    return painted(data, seed, palette, p_corr, train_size, val_like)


def painted(
    data: Path,
    seed: int,
    palette: str,
    p_corr: float,
    train_size: int,
    val_like: str,
    shade: Callable[[str, Tensor], Tensor] | None = None,
) -> Task:
    """As `load`; `shade` changes the colors (n, 3) of a split's images before they are painted."""
    from spare.datasets.mnist import read_mnist

    if palette not in PALETTES:
        raise unknown("palette", palette, PALETTES)
    biased_val = is_biased(val_like)
    train, test = read_mnist(data)
    rng = np.random.default_rng([seed, 0xC010])
    order = rng.permutation(len(train.labels))
    first = order[: train_size or TRAIN_SIZE]
    held_out = order[TRAIN_SIZE:]
    colors = torch.tensor([list(bytes.fromhex(code)) for code in PALETTES[palette]])

    def split(name: str, images: np.ndarray, digits: np.ndarray) -> Split:
        labels = (digits // 2).astype(np.int64)
        if name == "train":
            color = correlated_colors(labels, len(CLASSES), p_corr, rng)
        else:
            color = rng.integers(0, len(CLASSES), len(labels))
        if name == "val" and biased_val:
            # By a generator of its own, so that the crops and the test split stay what they are.
            own = np.random.default_rng([seed, 0xC011])
            color = correlated_colors(labels, len(CLASSES), p_corr, own)
        of_images = colors[torch.from_numpy(color)]
        if shade is not None:
            of_images = shade(name, of_images)
        pixels = paint(torch.tensor(images), of_images)
        # Channels last, as batches are convolved: so none of them has to be turned around.
        pixels = resize(pixels, RESIZED).contiguous(memory_format=torch.channels_last)
        if name == "train":
            inputs = TensorInputs(
                pixels,
                view=center_crop(CROPPED),
                augment=random_crop(CROPPED),
                finish=scale_bytes(),
            )
        else:
            fixed = random_crop(CROPPED)(pixels, rng)
            inputs = TensorInputs(fixed, finish=scale_bytes())
        return Split(inputs, labels, {"color": color})

    return Task(
        name="cmnist",
        train=split("train", train.images[first], train.labels[first]),
        val=split("val", train.images[held_out], train.labels[held_out]),
        test=split("test", test.images, test.labels),
        class_names=CLASSES,
        attribute_values={"color": tuple(f"#{code}" for code in PALETTES[palette])},
        shortcuts={"color": tuple(range(len(CLASSES)))},
    )


def correlated_colors(
    labels: np.ndarray, colors: int, p_corr: float, rng: np.random.Generator
) -> np.ndarray:
    """For each example the color of its class with probability p_corr, else one of the others."""
    keeps_color = rng.random(len(labels)) < p_corr
    other_color = (labels + rng.integers(1, colors, len(labels))) % colors
    return np.where(keeps_color, labels, other_color)


def paint(gray: Tensor, color: Tensor) -> Tensor:
    """Color gray images: (n, h, w) bytes and (n, 3) colors to (n, 3, h, w)."""
    gray = gray[:, None].expand(-1, 3, -1, -1)
    return torch.where(gray >= THRESHOLD, color[:, :, None, None].to(torch.uint8), gray)


def resize(pixels: Tensor, size: int, chunk: int = 5_000) -> Tensor:
    """Bilinear, rounded back to bytes; in chunks, because the floats are four times as large."""
    parts = [
        torch.nn.functional.interpolate(
            part.float(), size=(size, size), mode="bilinear", align_corners=False
        )
        .round_()
        .to(torch.uint8)
        for part in pixels.split(chunk)  # type: ignore[no-untyped-call]
    ]
    return torch.cat(parts)
