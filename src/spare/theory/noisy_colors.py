"""Colored MNIST whose colors are noisy: the shortcut with a larger ratio of noise to signal.

    spare bench spare.theory.noisy_colors:DATASET --set color_noise=0.25

Every image's color gets normal noise of its own in each of red, green and blue, in units in which
a color's largest value is 1; what leaves the range of colors is cut off.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from spare.data.task import Task
from spare.datasets import Dataset
from spare.datasets.cmnist import PALETTES, TRAIN_SIZE, painted
from spare.limits import Range, Share
from spare.progress import SILENT, Progress

NAME = "spare.theory.noisy_colors:DATASET"


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    color_noise: Annotated[float, Range(0, 100)] = 0.25,
    palette: str = "distinct",
    p_corr: Share = 0.995,
    train_size: Annotated[int, Range(0, TRAIN_SIZE)] = 0,
) -> Task:
    """Colored MNIST with noise of this standard deviation on every image's color."""

    def shade(split: str, colors: Tensor) -> Tensor:
        rng = np.random.default_rng([seed, 0xC012, *split.encode()])
        return noisy(colors, color_noise, rng)

    return painted(data, seed, palette, p_corr, train_size, "test", shade)


def noisy(colors: Tensor, deviation: float, rng: np.random.Generator) -> Tensor:
    """Colors of 0 to 255 with noise, still of 0 to 255."""
    noise = torch.from_numpy(rng.normal(0, 255 * deviation, colors.shape))
    return (colors + noise).round().clamp(0, 255).to(colors.dtype)


def noise_to_signal(deviation: float, palette: str) -> float:
    """Standard deviation over the norm of a color, on average over the palette."""
    codes = np.array([list(bytes.fromhex(code)) for code in PALETTES[palette]]) / 255
    return float(np.mean(deviation / np.linalg.norm(codes, axis=1)))


def _settings() -> dict[str, Any]:
    """Those of Colored MNIST."""
    file = resources.files("spare") / "presets" / "cmnist.toml"
    preset = tomllib.loads(file.read_text(encoding="utf-8"))
    return {**preset["settings"], "methods": preset["methods"]}


DATASET = Dataset(load, "Colored MNIST with noisy colors", _settings())
