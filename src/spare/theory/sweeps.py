"""The first theorem over many sizes: one step of many small networks, several at a time.

The first step starts from outputs of 0, so what it adds to the outputs is the initial slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from spare.progress import Progress
from spare.theory.mixtures import Mixture, sampled
from spare.theory.network import TwoLayers, check_memory, symmetric
from spare.theory.slopes import PROBES, features_of, inside
from spare.theory.study import Row, exponent, generator_of, precision_named, rms

#: What is swept, as people read it.
SWEEPS = {
    "correlation": "correlation of the spurious feature",
    "spurious": "size of the spurious feature",
    "width": "width of the network",
    "n": "number of examples n",
    "d": "dimensions d, and n = width = 2 d",
}
CORRELATIONS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
SIZES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
#: Widths and numbers of examples, at `SMALL` dimensions.
COUNTS = (500, 1000, 2000, 4000, 8000)
SMALL, MANY = 250, 8000
#: Size of the core feature in the sweep over n.
FAINT = 1.0
DIMENSIONS = (250, 500, 1000, 2000, 4000)
#: Times as many draws: what few examples add to the error is small beside what the width adds.
MORE = {"n": 4}


@dataclass(frozen=True)
class Swept:
    """What the sweeps share."""

    core: float
    spurious: float
    correlation: float
    lr: float
    activations: tuple[str, ...]
    seeds: int
    #: Sizes, as a share of those above.
    scale: float
    precision: str


class Point(NamedTuple):
    sweep: str
    value: float
    mixture: Mixture
    width: int


def points(options: Swept) -> list[list[Point]]:
    """All points of the sweeps, those together that have data and networks of one shape."""

    def scaled(count: int) -> int:
        return max(8, 2 * round(options.scale * count / 2))

    base = Mixture(
        d=scaled(SMALL),
        n=scaled(MANY),
        core=min(options.core, options.spurious, (scaled(SMALL) / 8) ** 0.5),
        spurious=min(options.spurious, (scaled(SMALL) / 4) ** 0.5),
        correlation=options.correlation,
    )
    many = scaled(MANY)
    few = replace(base, n=scaled(MANY) // 4)
    sizes = [size for size in SIZES if size**2 < base.d / 1.5]
    groups = [
        [Point("correlation", p, replace(few, correlation=p), many // 4) for p in CORRELATIONS],
        [Point("spurious", size, replace(few, spurious=size), many // 4) for size in sizes],
    ]
    groups += [[Point("width", scaled(m), base, scaled(m))] for m in COUNTS]
    # Small features: the noise of few examples shows beside that of the width.
    faint = replace(base, core=min(base.core, FAINT), spurious=min(base.spurious, 1.5 * FAINT))
    groups += [[Point("n", scaled(n), replace(faint, n=scaled(n)), many)] for n in COUNTS]
    groups += [[Point("d", d, replace(base, d=d, n=2 * d), 2 * d)] for d in map(scaled, DIMENSIONS)]
    return groups


def check_sweeps(options: Swept) -> None:
    """Refuse sweeps that do not fit in memory, before any of them is made."""
    for group in points(options):
        mixture = group[0].mixture
        check_memory(mixture.d, mixture.n, group[0].width, copies=len(group))


def sweep_rows(options: Swept, seed: int, progress: Progress) -> list[Row]:
    """For every point, activation, seed and feature, the slope that is measured and predicted."""
    rows = []
    groups = points(options)
    for number, group in enumerate(groups):
        progress.report("sweeps", number, len(groups))
        for activation in options.activations:
            for repeat in range(options.seeds * MORE.get(group[0].sweep, 1)):
                rows += _slopes(group, activation, options, (seed, 2, repeat))
    return rows


def _slopes(
    group: Sequence[Point], activation: str, options: Swept, key: tuple[int, ...]
) -> list[Row]:
    dtype = precision_named(options.precision)
    d, n, width = group[0].mixture.d, group[0].mixture.n, group[0].width
    examples = [sampled(each.mixture, generator_of(*key), dtype=dtype) for each in group]
    generator = generator_of(*key, 1)
    one = symmetric(activation, width, d, generator, dtype)
    network = TwoLayers(
        one.activation,
        one.hidden.expand(len(group), -1, -1).clone(),
        one.head.expand(len(group), -1).clone(),
    )
    x, y = (torch.stack([getattr(each, name) for each in examples]) for name in ("x", "y"))
    network.step(x, y, options.lr)
    features = [features_of(each) for each in examples]
    vectors = torch.stack([torch.stack([f.vector for f in each]) for each in features])
    moved = inside(network, examples[0].probes(PROBES, generator), vectors)
    return [
        {
            "sweep": point.sweep,
            "value": point.value,
            "activation": activation,
            "repeat": key[-1],
            "feature": feature.name,
            "d": d,
            "n": n,
            "width": width,
            "predicted": feature.slope(activation, options.lr),
            "measured": float(value),
        }
        for point, of_point, values in zip(group, features, moved, strict=True)
        for feature, value in zip(of_point, values, strict=True)
    ]


def sweep_errors(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By sweep: the relative error at every point, and the power of the size that it goes with."""
    errors: dict[str, dict[str, Any]] = {}
    for name in SWEEPS:
        of_sweep = [row for row in rows if row["sweep"] == name and row["predicted"]]
        values = sorted({row["value"] for row in of_sweep})
        if not values:
            continue
        at = [
            rms([r["measured"] / r["predicted"] - 1 for r in of_sweep if r["value"] == value])
            for value in values
        ]
        is_size = name in ("width", "n", "d")
        errors[name] = {
            "sizes": values,
            "errors": at,
            "exponent": exponent(values, at) if is_size and len(values) > 1 else None,
        }
    return errors
