"""Tiny image files of every kind for the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, color: tuple[int, int, int], size: int = 12, seed: int = 0) -> Path:
    """A noisy square of one color; the folder is made."""
    rng = np.random.default_rng([seed, *color])
    noise = rng.integers(-20, 20, (size, size, 3))
    pixels = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


COLORS = {"cat": (200, 60, 40), "dog": (40, 70, 190), "fox": (230, 150, 30)}


def picture_folder(root: Path, counts: dict[str, int]) -> Path:
    for name, n in counts.items():
        for i in range(n):
            picture(root / name / f"{i:03d}.png", COLORS[name.split("/")[-1]], seed=i)
    return root
