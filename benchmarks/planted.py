"""Natural images with a shortcut laid over them, and the same kind of data without one.

    python benchmarks/planted.py --images FOLDER --out FOLDER --kind texture --agreement 0.99
    spare bench OUT/data.csv --attributes planted --methods erm,spare --model small_cnn ...

FOLDER holds one folder of pictures per class, such as classes of Tiny-ImageNet; two are taken, and
divided into training, validation and test. What is planted has two values. In training its value
agrees with the label in the given share; in validation and test it is independent, so that every
group is there to score. At agreement 0.5 there is no shortcut.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

#: Of the images: training and validation; the rest is test.
PARTS = (0.7, 0.15)
SPLITS = ("train", "val", "test")
#: How bright the lines of a texture are, of 255.
FAINT = 8

#: Takes pictures (n, side, side, 3) and the value for each, 0 or 1.
Plant = Callable[..., np.ndarray]


def mark(pictures: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A white square in the left or the right upper corner."""
    side = pictures.shape[1]
    near, far = side // 32, side // 7
    pictures[values == 0, near:far, near:far] = 255
    pictures[values == 1, near:far, side - far : side - near] = 255
    return pictures


def tint(pictures: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A little warmer, or a little colder."""
    factors = np.array([[1.15, 1, 0.85], [0.85, 1, 1.15]])[values]
    return np.clip(pictures * factors[:, None, None], 0, 255).astype(np.uint8)


def texture(pictures: np.ndarray, values: np.ndarray, faint: int = FAINT) -> np.ndarray:
    """A faint chessboard of single pixels, or of two by two."""
    i, j = np.mgrid[: pictures.shape[1], : pictures.shape[2]]
    boards = np.stack([(i + j) % 2, (i // 2 + j // 2) % 2]) * 2 * faint - faint
    return np.clip(pictures + boards[values][..., None], 0, 255).astype(np.uint8)


def border(pictures: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A thin red frame, or a blue one."""
    colors = np.array([[200, 40, 40], [40, 40, 200]], dtype=np.uint8)[values]
    width = max(1, pictures.shape[1] // 32)
    framed = np.broadcast_to(colors[:, None, None], pictures.shape).copy()
    inside = slice(width, -width)
    framed[:, inside, inside] = pictures[:, inside, inside]
    return framed


def strip(pictures: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Something like a caption at the bottom: fine print, or coarse."""
    side = pictures.shape[1]
    height = side // 8
    pictures[:, -height:] = 20
    rng = np.random.default_rng(0)
    print_ = rng.random((len(pictures), height - 2, side)) < 0.5
    coarse = np.repeat(print_[..., ::3], 3, axis=2)[..., :side]
    ink = np.where((values == 0)[:, None, None], coarse, print_)
    pictures[:, -height + 1 : -1][ink] = 230
    return pictures


def color(pictures: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The colors as they are, or exchanged."""
    pictures[values == 1] = pictures[values == 1][..., [2, 0, 1]]
    return pictures


KINDS: dict[str, Plant] = {
    plant.__name__: plant for plant in (mark, tint, texture, border, strip, color)
}


def pictures_of(folder: Path, count: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """As many pictures of a class as are wanted, chosen at random."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = [paths[i] for i in rng.permutation(len(paths))[:count]]
    return np.stack(
        [np.asarray(Image.open(path).convert("RGB").resize((side, side))) for path in chosen]
    )


def planted(
    folder: Path,
    kind: str,
    agreement: float,
    seed: int,
    *,
    classes: tuple[str, str],
    count: int = 3500,
    side: int = 64,
    wrong_labels: float = 0.0,
    rare: float = 1.0,
    faint: int = FAINT,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures, labels, what was planted, and the split of each: 0 train, 1 val, 2 test.

    Parameters
    ----------
    wrong_labels
        Share of the training labels that are exchanged.
    rare
        Share of the second class's training pictures that is kept.
    faint
        How bright the lines of a texture are, of 255.
    """
    rng = np.random.default_rng([seed, 0x91A])
    by_class = [pictures_of(folder / name, count, side, rng) for name in classes]
    pictures = np.concatenate(by_class)
    labels = np.repeat([0, 1], [len(of_class) for of_class in by_class])
    order = rng.permutation(len(labels))
    pictures, labels = pictures[order], labels[order]
    ends = (np.cumsum(PARTS) * len(labels)).astype(int)
    splits = np.searchsorted(ends, np.arange(len(labels)), side="right")
    share = np.where(splits == 0, agreement, 0.5)
    values = np.where(rng.random(len(labels)) < share, labels, 1 - labels)
    if kind:
        more = {"faint": faint} if kind == "texture" else {}
        pictures = KINDS[kind](pictures, values, **more)
    wrong = (splits == 0) & (rng.random(len(labels)) < wrong_labels)
    labels = np.where(wrong, 1 - labels, labels)
    kept = (splits != 0) | (labels == 0) | (rng.random(len(labels)) < rare)
    return pictures[kept], labels[kept], values[kept], splits[kept]


def write(
    out: Path,
    pictures: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    splits: np.ndarray,
    classes: tuple[str, str],
) -> None:
    """The pictures as files, and data.csv beside them."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "data.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "planted", "split"])
        for number, picture in enumerate(pictures):
            name = f"{number}.png"
            Image.fromarray(picture).save(out / name)
            row = [name, classes[labels[number]], values[number], SPLITS[splits[number]]]
            table.writerow(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kind", default="texture", choices=sorted(KINDS))
    parser.add_argument("--agreement", type=float, default=0.99)
    parser.add_argument("--classes", default="dog,insect")
    parser.add_argument("--count", type=int, default=3500)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faint", type=int, default=FAINT, help="how bright a texture is")
    given = parser.parse_args()
    first, second = given.classes.split(",")
    made = planted(
        given.images, given.kind, given.agreement, given.seed, classes=(first, second),
        count=given.count, side=given.side, faint=given.faint,
    )  # fmt: skip
    write(given.out, *made, (first, second))


if __name__ == "__main__":
    main()
