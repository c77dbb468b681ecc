"""The second theorem: where the spurious feature is cleaner, the core feature is hardly used.

With R = noise along a feature / its size, after T = nu d log d / lr steps, |f(v_c)| is at most
sqrt(2) R_s / R_c, up to what vanishes with d and with the share of the minorities. The linear
model's optimum says more: among typical inputs f(v_c) and f(v_s) are the a and b that minimize

    p (a + b - 1)^2 + (1 - p) (a - b - 1)^2 + 2 a^2 R_c^2 + 2 b^2 R_s^2

so without minorities (p = 1) a / b = (R_s / R_c)^2: the bound is far from tight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np

from spare.errors import InputError
from spare.limits import Positive, Range, Share, check_ranges
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.constants import activation_named
from spare.theory.dominance_figure import plot
from spare.theory.mixtures import Mixture, sampled
from spare.theory.network import check_memory, check_step, check_width, symmetric
from spare.theory.slopes import PROBES, features_of, inside
from spare.theory.study import (
    Row,
    Study,
    check_entries,
    generator_of,
    options_of,
    precision_named,
)

#: R_s is much smaller than R_c up to this ratio.
MUCH_SMALLER = 0.3
#: Shares of a class in its majority, for the sweep in which the minorities are too large.
CORRELATIONS = (0.998, 0.99, 0.97, 0.95, 0.9, 0.8)
#: At this ratio.
RATIO_OF_THAT = 0.1
#: More steps than that would take days.
MOST_STEPS = 1_000_000

CLAIM = (
    "Trained on, a network does not come round to the right feature: if the spurious feature has "
    "the smaller ratio of noise to size, and nearly all examples have it, the output is the "
    "spurious feature's, and the core feature's share is at most sqrt(2) R_s / R_c."
)


@dataclass(frozen=True)
class DominanceOptions:
    """Sizes and settings of `dominance`."""

    d: Annotated[int, Range(8, 10**6)] = 200
    n: Annotated[int, Range(8, 10**7)] = 3000
    width: Annotated[int, Range(2, 10**6)] = 1000
    core: Positive = 3.0
    spurious: Positive = 3.0
    correlation: Share = 0.998
    #: R_c: noise along the core feature, over its size.
    core_ratio: Positive = 0.5
    #: R_s / R_c.
    ratios: tuple[Positive, ...] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
    #: nu: training takes nu d log d / lr steps.
    duration: Positive = 2.0
    #: Step size; 0 for half of the largest stable one.
    lr: Annotated[float, Range(0, 1e9)] = 0.0
    activations: tuple[str, ...] = ("erf", "relu")
    #: Whether the share of the minorities is swept too.
    minorities: bool = True
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_ranges(self)
        check_entries(ratios=self.ratios, activations=self.activations)
        for name in self.activations:
            activation_named(name)


def dominance(*, seed: int = 0, progress: Progress = SILENT, **settings: Any) -> Study:
    """Train the network for long, and compare what it makes of each feature with the bound.

    Parameters
    ----------
    seed : int
    progress : Progress, optional
    **settings
        Fields of `DominanceOptions`.

    Returns
    -------
    Study

    Examples
    --------
    >>> small = {"d": 60, "n": 600, "width": 200, "activations": ("erf",), "minorities": False}
    >>> dominance(ratios=(0.2, 1.0), **small).facts["bound_held"]
    {'erf': True}
    """
    options = options_of(DominanceOptions, settings)
    check_width(options.width)
    check_memory(options.d, options.n, options.width)
    jobs = [
        (activation, ratio, options.correlation)
        for activation in options.activations
        for ratio in options.ratios
    ]
    swept = []
    if options.minorities:
        swept = [(options.activations[0], RATIO_OF_THAT, p) for p in CORRELATIONS]
    rows = []
    for number, job in enumerate(jobs + swept):
        progress.report("dominance", number, len(jobs) + len(swept))
        rows.append(_trained(*job, options, seed, progress))
    by_ratio, by_share = rows[: len(jobs)], rows[len(jobs) :]
    in_regime = [row for row in by_ratio if row["ratio"] <= MUCH_SMALLER]
    facts = {
        "bound_held": {
            activation: all(r["bound held"] for r in in_regime if r["activation"] == activation)
            for activation in options.activations
            if in_regime
        },
        "points_in_regime": len(in_regime),
        "points_held": sum(row["bound held"] for row in in_regime),
        "spurious_over_core": {
            activation: min(
                (r["spurious"] / r["core"] for r in in_regime if r["activation"] == activation),
                default=None,
            )
            for activation in options.activations
        },
        "fails_with_minorities_from": next(
            (1 - row["correlation"] for row in by_share if not row["bound held"]), None
        ),
    }
    return Study(
        name="dominance",
        title="Dominance: a cleaner spurious feature keeps the core feature out",
        claim=CLAIM,
        facts=facts,
        tables={"ratios": by_ratio, **({"minorities": by_share} if by_share else {})},
        sections=_sections(by_ratio, by_share, facts, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(by_ratio, by_share),
    )


def optimum(ratio: float, core_ratio: float, correlation: float) -> tuple[float, float]:
    """What the best linear model makes of the core and of the spurious feature.

    >>> a, b = optimum(0.5, 0.5, 1.0)
    >>> round(a / b, 6)
    0.25
    """
    agreement = 2 * correlation - 1
    matrix = [
        [1 + 2 * core_ratio**2, agreement],
        [agreement, 1 + 2 * (ratio * core_ratio) ** 2],
    ]
    a, b = np.linalg.solve(matrix, [1, agreement])
    return float(a), float(b)


def _trained(
    activation: str,
    ratio: float,
    correlation: float,
    options: DominanceOptions,
    seed: int,
    progress: Progress,
) -> Row:
    dtype = precision_named(options.precision)
    generator = generator_of(seed, 4)
    mixture = Mixture(
        d=options.d,
        n=options.n,
        core=options.core,
        spurious=options.spurious,
        correlation=correlation,
        core_noise=options.core_ratio * options.core,
        spurious_noise=ratio * options.core_ratio * options.spurious,
    )
    examples = sampled(mixture, generator, dtype=dtype)
    network = symmetric(activation, options.width, options.d, generator, dtype)
    lr = options.lr or check_step(examples.x, activation, 0.0) / 2
    check_step(examples.x, activation, lr)
    steps = math.ceil(options.duration * options.d * math.log(options.d) / lr)
    if steps > MOST_STEPS:
        raise InputError(
            f"training for {options.duration:g} d log d / lr takes {steps:,} steps of size "
            f"{lr:.3g}, and at most {MOST_STEPS:,} are made: make lr larger, or duration, d or the "
            f"noise along the features (core_ratio, ratios) smaller."
        )
    for step in range(steps):
        progress.report(f"{activation}, R_s / R_c = {ratio:g}", step, steps)
        network.step(examples.x, examples.y, lr)
    features = features_of(examples)
    vectors = examples.core.new_tensor(np.stack([f.vector.numpy() for f in features]))
    moved = inside(network, examples.probes(PROBES, generator), vectors).abs().tolist()
    alone = network(vectors).abs().tolist()
    a, b = optimum(ratio, options.core_ratio, correlation)
    bound = math.sqrt(2) * ratio
    return {
        "activation": activation,
        "ratio": ratio,
        "correlation": correlation,
        "lr": lr,
        "steps": steps,
        "bound": bound,
        "core": max(moved[:2]),
        "spurious": min(moved[2:]),
        "core alone": max(alone[:2]),
        "optimum core": a,
        "optimum spurious": b,
        "bound held": max(moved[:2]) <= bound,
    }


def _verdict(facts: Mapping[str, Any]) -> str:
    """Whether the bound holds where the theorem is about."""
    if not facts["points_in_regime"]:
        return (
            f"The theorem is for R_s much smaller than R_c, and no point has R_s at most "
            f"{MUCH_SMALLER:g} R_c."
        )
    return (
        f"With R_s at most {MUCH_SMALLER:g} R_c the bound holds, without any slack, at "
        f"{facts['points_held']} of {facts['points_in_regime']} points."
    )


def _sections(
    by_ratio: Sequence[Row],
    by_share: Sequence[Row],
    facts: Mapping[str, Any],
    options: DominanceOptions,
) -> list[Section]:
    heads = ["activation", "R_s / R_c", "bound", "|f(v_c)|", "|f(v_s)|", "best linear |f(v_c)|",
             "best linear |f(v_s)|", "steps", "bound held"]  # fmt: skip

    def cells(row: Row) -> list[Any]:
        numbers = ("bound", "core", "spurious", "optimum core", "optimum spurious")
        return [
            row["activation"], f"{row['ratio']:g}", *[f"{row[name]:.3f}" for name in numbers],
            row["steps"], "yes" if row["bound held"] else "no",
        ]  # fmt: skip

    sections = [
        Section(
            f"After {options.duration:g} d log d / lr steps, d = {options.d}, n = {options.n}, "
            f"width = {options.width}, {100 * options.correlation:g} % in the majority",
            heads,
            [cells(row) for row in by_ratio],
            [
                "R is the noise along a feature over the feature's size: R_s of the spurious one, "
                "R_c of the core one. The bound, sqrt(2) R_s / R_c, is for |f(v_c)|. 'Best linear' "
                "is the linear model with the least loss.",
                "Measured inside typical inputs; of the two classes, the larger |f(v_c)| and the "
                f"smaller |f(v_s)|. {_verdict(facts)}",
                "From R_s / R_c = 0.71 on the bound would be above what any feature can be (1): "
                "there it says nothing.",
            ],
        )
    ]
    if by_share:
        fails = facts["fails_with_minorities_from"]
        sections.append(
            Section(
                f"Where its assumption fails: minorities that are not few "
                f"(R_s / R_c = {RATIO_OF_THAT:g})",
                [
                    "minority, % of a class",
                    "bound",
                    "|f(v_c)|",
                    "best linear |f(v_c)|",
                    "bound held",
                ],
                [
                    [
                        f"{100 * (1 - row['correlation']):.1f}",
                        f"{row['bound']:.3f}",
                        f"{row['core']:.3f}",
                        f"{row['optimum core']:.3f}",
                        "yes" if row["bound held"] else "no",
                    ]
                    for row in by_share
                ],
                [
                    "The theorem is for minorities of O(n^(1 - gamma)) examples: with more of them "
                    "the core feature is worth learning."
                    + ("" if fails is None else f" The bound fails from {100 * fails:.3g} % on.")
                ],
            )
        )
    return sections
