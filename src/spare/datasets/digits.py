"""Colored digits from scikit-learn's bundled scans: a shortcut task that needs no download.

1,797 scans of 8 x 8 pixels, two classes (0 to 4, 5 to 9), two colors. In training a digit has its
class's color with probability p_corr; in validation and test either color is equally likely, unless
validation is to be like training. Scans are enlarged to 16 x 16 and shifted by up to two pixels in
training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.data.transforms import center_crop, random_crop, scale_bytes
from spare.datasets.cmnist import correlated_colors, resize
from spare.limits import Share
from spare.progress import SILENT, Progress
from spare.synthetic.validation import ValLike, is_biased

CLASSES = ("0-4", "5-9")
COLORS = {"orange": (255, 140, 0), "blue": (0, 110, 255)}
SIZE, PADDED = 16, 20
TRAIN, VAL = 900, 297


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    p_corr: Share = 0.95,
    val_like: ValLike = "test",
) -> Task:
    """The task of one seed: the seed decides the split and the colors. `data` is not used."""
    from sklearn.datasets import load_digits

    p_val = p_corr if is_biased(val_like) else 0.5

    scans, digits = load_digits(return_X_y=True)
    gray = torch.from_numpy(scans.reshape(-1, 1, 8, 8) * 15.9375).to(torch.uint8)  # 0..16 to bytes
    gray = torch.nn.functional.pad(resize(gray, SIZE), [(PADDED - SIZE) // 2] * 4)
    labels = (digits >= 5).astype(np.int64)
    rng = np.random.default_rng([seed, 0xD161])
    order = rng.permutation(len(labels))
    palette = torch.tensor(list(COLORS.values())) / 255

    def split(rows: np.ndarray, share: float) -> Split:
        color = correlated_colors(labels[rows], len(COLORS), share, rng)
        painted = gray[torch.from_numpy(rows)] * palette[torch.from_numpy(color)][:, :, None, None]
        inputs = TensorInputs(
            painted.round().to(torch.uint8),
            view=center_crop(SIZE),
            augment=random_crop(SIZE),
            finish=scale_bytes(),
        )
        return Split(inputs, labels[rows], {"color": color})

    return Task(
        name="digits",
        train=split(order[:TRAIN], p_corr),
        val=split(order[TRAIN : TRAIN + VAL], p_val),
        test=split(order[TRAIN + VAL :], 0.5),
        class_names=CLASSES,
        attribute_values={"color": tuple(COLORS)},
        shortcuts={"color": (0, 1)},
    )
