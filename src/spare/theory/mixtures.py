"""Data as the theory has it: x = v_c + v_s + noise, with orthogonal features.

Two classes y = +1 and -1, each with a core feature. A class's own spurious feature is in the share
`correlation` of its examples; the others have that of the other class or, where `alone` says so,
one of a feature that no majority has. Group sizes are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from spare.errors import DataError, InputError
from spare.files.reading import read_text
from spare.limits import Positive, Range, Share, check_ranges

#: Features are orthogonal if the cosine between any two is smaller.
ORTHOGONAL = 1e-6
CLASSES = (1, -1)


@dataclass(frozen=True)
class Mixture:
    """What the data is like.

    Attributes
    ----------
    d, n : int
        Dimensions and examples.
    core, spurious : float
        Norms of the features.
    correlation : float
        Share of a class that has the spurious feature of its majority.
    alone : float
        Share of a class's minority whose feature no majority has.
    core_noise, spurious_noise : float
        Standard deviation of the noise along the features; negative for that of all directions,
        which makes typical inputs as long as sqrt(d).
    """

    d: Annotated[int, Range(8, 10**6)] = 1000
    n: Annotated[int, Range(8, 10**7)] = 8000
    core: Positive = 4.0
    spurious: Positive = 6.0
    correlation: Share = 0.95
    alone: Share = 0.0
    core_noise: Annotated[float, Range(-1, 1e9)] = -1.0
    spurious_noise: Annotated[float, Range(-1, 1e9)] = -1.0

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.core**2 + self.spurious**2 >= self.d:
            raise InputError(
                f"features of norms {self.core:g} and {self.spurious:g} leave no room for noise in "
                f"{self.d} dimensions, where typical inputs have the norm {math.sqrt(self.d):.3g}: "
                f"make them smaller, or d larger."
            )

    def mixture(self) -> Mixture:
        """The fields of `Mixture` alone."""
        return Mixture(**{name: getattr(self, name) for name in Mixture.__dataclass_fields__})

    @property
    def noise(self) -> float:
        """Of every direction without a feature, so that inputs have a norm of about sqrt(d)."""
        return math.sqrt(1 - (self.core**2 + self.spurious**2) / self.d)

    def noise_along(self, what: str) -> float:
        given = self.core_noise if what == "core" else self.spurious_noise
        return self.noise if given < 0 else given


@dataclass(frozen=True)
class Examples:
    """Data of a mixture, and what it is made of."""

    mixture: Mixture
    x: Tensor
    #: +1 or -1.
    y: Tensor
    #: Position of each example's spurious feature: 0 and 1 are the majorities' of class +1 and -1.
    spurious_of: np.ndarray
    #: (2, d): of class +1 and -1; and (2 or 3, d).
    core: Tensor
    spurious: Tensor
    noise: Tensor

    def excess(self, feature: int) -> float:
        """(n_{+1,s} - n_{-1,s}) / n: how much the feature goes with class +1."""
        has = self.spurious_of == feature
        return float(self.y.numpy()[has].sum() / len(self.y))

    def probes(self, count: int, generator: torch.Generator) -> Tensor:
        """Typical inputs without a feature, of the norm that inputs have."""
        d = self.x.shape[1]
        drawn = torch.randn(count, d, generator=generator, dtype=torch.float64).to(self.x.dtype)
        scaled: Tensor = drawn * math.sqrt(d) / drawn.norm(dim=1, keepdim=True)
        return scaled


def orthogonal_features(sizes: list[float], d: int, generator: torch.Generator) -> Tensor:
    """Random directions at right angles, with these norms."""
    drawn = torch.randn(d, len(sizes), generator=generator, dtype=torch.float64)
    directions: Tensor = torch.linalg.qr(drawn)[0].T
    return directions * torch.tensor(sizes, dtype=torch.float64)[:, None]


def read_features(path: Path) -> Tensor:
    """Features from a text file: a line for each, of numbers that are separated by commas."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    try:
        rows = [[float(cell) for cell in line.split(",")] for line in lines]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(rows[0]))
    except (ValueError, IndexError) as error:
        raise DataError(
            f"{path} holds no features: it should have four lines of equally many numbers that are "
            f"separated by commas."
        ) from error


def check_features(features: Tensor, d: int) -> None:
    """Refuse features that the theory says nothing about."""
    if features.ndim != 2 or features.shape[0] != 4 or features.shape[1] != d:
        raise InputError(
            f"features are four vectors of d={d} numbers (the core features of class +1 and -1, "
            f"then their spurious ones), not an array of shape {tuple(features.shape)}."
        )
    norms = features.norm(dim=1)
    if not torch.isfinite(norms).all() or bool((norms == 0).any()):
        raise InputError("a feature is zero or not finite: give each one a direction and a size.")
    cosines = (features @ features.T) / (norms[:, None] * norms)
    cosines.fill_diagonal_(0)
    if float(cosines.abs().max()) > ORTHOGONAL:
        first, second = divmod(int(cosines.abs().argmax()), 4)
        raise InputError(
            f"features {first + 1} and {second + 1} are not orthogonal (their cosine is "
            f"{float(cosines[first, second]):.3g}): the theory is about orthogonal ones."
        )


def given_features(features: Any, file: str) -> Tensor | None:
    """Features of the user's own, from memory or from a file."""
    if features is not None:
        return torch.as_tensor(np.asarray(features), dtype=torch.float64)
    return read_features(Path(file)) if file else None


def sizes_of(features: Tensor, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as these features have them: the noise is what they leave of the norm sqrt(d)."""
    for name in ("core", "spurious"):
        if name in settings:
            raise InputError(f"{name} is the size of the features that were given: leave it out.")
    d = settings.get("d", features.shape[-1] if features.ndim else 0)
    check_features(features, d)
    squares = (features**2).sum(1)
    core, spurious = (float(part.mean().sqrt()) for part in (squares[:2], squares[2:]))
    return {"d": d, "core": core, "spurious": spurious}


def sampled(
    mixture: Mixture,
    generator: torch.Generator,
    *,
    features: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> Examples:
    """Examples of a mixture; `features` in place of random directions."""
    d, n = mixture.d, mixture.n
    if features is None:
        sizes = [mixture.core, mixture.core, *[mixture.spurious] * 3]
        features = orthogonal_features(sizes, d, generator)
    else:
        check_features(features, d)
    core, spurious = features[:2], features[2:]
    y = torch.ones(n, dtype=torch.float64)
    y[n // 2 :] = -1
    spurious_of = np.concatenate(
        [
            _spurious_of(mixture, position, count)
            for position, count in enumerate((n // 2, n - n // 2))
        ]
    )
    noise = mixture.noise * torch.randn(n, d, generator=generator, dtype=torch.float64)
    for what, vectors in (("core", core), ("spurious", spurious)):
        directions = vectors / vectors.norm(dim=1, keepdim=True)
        factor = mixture.noise_along(what) / mixture.noise - 1
        noise += factor * (noise @ directions.T) @ directions
    x = core[(y < 0).long()]  # in place, because these are the largest arrays there are
    x += spurious[torch.from_numpy(spurious_of)]
    x += noise
    return Examples(
        mixture, x.to(dtype), y.to(dtype), spurious_of, core.to(dtype), spurious.to(dtype),
        noise.to(dtype),
    )  # fmt: skip


def _spurious_of(mixture: Mixture, position: int, count: int) -> np.ndarray:
    """The spurious feature of each example of a class: its own, the other's, or one of nobody's."""
    own = round(mixture.correlation * count)
    alone = round(mixture.alone * (count - own))
    return np.repeat([position, 1 - position, 2], [own, count - own - alone, alone])
