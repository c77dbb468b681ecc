"""The corollary: majorities and minorities can be told apart by the output, early.

In units of 2 lr zeta^2 t / d, and times the class, the output of an example is

    ||v_c||^2 n_c / n  +  ||v_s||^2 (n_{c,s} - n_{c',s}) / n  +  xi  +  what is the same for a class

so a majority lies ||v_s||^2 (K - k) / n above the middle, and a minority whose feature is the other
class's majority's as far below it. xi is the example's noise along the features: groups part where
||v_s||^2 (K - k) / n is larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np

from spare.limits import Positive, Range, Share
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.corollary import ALPHA, GROUPS, Measured, Training, measure
from spare.theory.mixtures import Mixture
from spare.theory.network import check_memory, check_width
from spare.theory.separability_figure import plot
from spare.theory.study import (
    Row,
    Study,
    exponent,
    options_of,
)

#: What the corollary leaves open, O(d^-alpha), is taken as d^-1/4 of ||v_s||^2 (K - k) / n; shares
#: are shown for so many times this, too.
SLACKS = (0.25, 0.5, 1.0, 2.0)
#: Points of the sweep of the threshold.
CORRELATIONS = (0.5, 0.525, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.995)
SIZES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Points of the sweep of the slack that is needed, with n = width = 2 d^(5/4), as the theorem wants
#: at least; and draws of data and network at each.
DIMENSIONS, DRAWS = (125, 250, 500, 1000), 3
#: Of features there, small beside sqrt(d) even in the fewest dimensions.
SMALL_CORE, SMALL_SPURIOUS = 2.5, 3.5

CLAIM = (
    "The outputs of a class fall apart into groups within a few steps: examples with the feature "
    "of their class's majority rise, those with the feature of the other class's majority fall, "
    "and those whose feature no majority has stay between."
)


@dataclass(frozen=True)
class SeparabilityOptions(Mixture):
    """Sizes and settings of `separability`; the first ones are those of the data."""

    d: Annotated[int, Range(8, 10**6)] = 500
    core: Positive = 5.0
    spurious: Positive = 7.0
    correlation: Share = 0.995
    alone: Share = 0.5
    width: Annotated[int, Range(2, 10**6)] = 8000
    lr: Positive = 0.2
    steps: Annotated[int, Range(1, 100_000)] = 8
    activation: str = "relu"
    #: Whether the threshold and the slack are swept too.
    sweeps: bool = True
    precision: str = "float32"


def separability(*, seed: int = 0, progress: Progress = SILENT, **settings: Any) -> Study:
    """Measure when the groups of a class part, and how many examples obey the corollary.

    Parameters
    ----------
    seed : int
    progress : Progress, optional
    **settings
        Fields of `SeparabilityOptions`.

    Returns
    -------
    Study

    Examples
    --------
    >>> study = separability(d=200, n=1600, width=800, steps=2, sweeps=False, correlation=0.9)
    >>> study.facts["share_obeying"] > 0.9
    True
    """
    options = options_of(SeparabilityOptions, settings)
    check_width(options.width)
    check_memory(options.d, options.n, options.width)
    names = Mixture.__dataclass_fields__
    mixture = Mixture(**{name: getattr(options, name) for name in names})
    progress.report("separability", 0, 3)
    measured = measure(mixture, options.width, training(options), seed)
    over_time = _over_time(measured)
    shares = [_shares(step, measured) for step in measured.steps]
    last = shares[-1]
    threshold: list[Row] = []
    slack: list[Row] = []
    if options.sweeps:
        progress.report("separability", 1, 3)
        threshold = _threshold(options, seed)
        progress.report("separability", 2, 3)
        slack = _slack_needed(options, seed)
    facts: dict[str, Any] = {
        "share_obeying": last["share at slack 1"],
        "shares_by_slack": {str(s): last[f"share at slack {s:g}"] for s in SLACKS},
        "slack": measured.slack,
        "xi_standard_deviation": measured.xi_deviation,
        "kappa": measured.kappa,
        "half_gap": measured.half_gap,
        "on_their_side": last["on their side"],
    }
    if slack:
        facts["slack_needed_exponent"] = exponent(
            [row["d"] for row in slack], [row["slack needed / half gap"] for row in slack]
        )
        facts["threshold_largest_difference"] = max(
            abs(row["on their side"] - row["predicted"]) for row in threshold
        )
    tables = {"groups": over_time, "shares": shares}
    if threshold:
        tables |= {"threshold": threshold, "slack": slack}
    return Study(
        name="separability",
        title="Separability: the groups of a class part within a few steps",
        claim=CLAIM,
        facts=facts,
        tables=tables,
        sections=_sections(over_time, last, threshold, slack, facts, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(measured, over_time, threshold, slack),
    )


def training(options: SeparabilityOptions, steps: int = 0) -> Training:
    return Training(options.activation, options.lr, steps or options.steps, options.precision)


def _over_time(measured: Measured) -> list[Row]:
    """Mean and deviation of every group, around the middle of its class."""
    rows = []
    for step, values in measured.steps.items():
        around = values - measured.middle
        for group in GROUPS:
            inside = measured.group == group
            if inside.any():
                rows.append(
                    {
                        "step": step,
                        "group": group,
                        "examples": int(inside.sum()),
                        "mean": float(around[inside].mean()),
                        "deviation": float(around[inside].std()),
                        "predicted": {"majority": 1, "other": -1, "alone": 0}[group]
                        * measured.half_gap,
                    }
                )
    return rows


def _shares(step: int, measured: Measured) -> Row:
    beyond = measured.beyond(step)
    return {
        "step": step,
        **{f"share at slack {s:g}": float((beyond <= s * measured.slack).mean()) for s in SLACKS},
        "on their side": measured.on_their_side(step),
        "slack needed by 99 %": float(np.quantile(beyond, 0.99)),
    }


def _threshold(options: SeparabilityOptions, seed: int) -> list[Row]:
    """How many examples lie on their group's side, as the gap grows out of the noise."""
    d, width = max(options.d // 4, 8), max(options.width // 4 // 2 * 2, 2)
    n = max(options.n // 4, 8)
    base = Mixture(d=d, n=n, core=min(options.core, math.sqrt(d) / 4), alone=0.0)
    points = [
        replace(base, spurious=size, correlation=p)
        for size, p in [
            *[(min(options.spurious, 0.8 * math.sqrt(d)), p) for p in CORRELATIONS],
            *[(size, 0.95) for size in SIZES if size < 0.8 * math.sqrt(d)],
        ]
    ]
    short = training(options, steps=1)
    rows = []
    for mixture in points:
        measured = measure(mixture, width, short, seed)
        # The noise of an example meets the mean of all others' too.
        deviation = math.hypot(measured.xi_deviation, mixture.noise**2 * math.sqrt(d / n))
        rows.append(
            {
                "spurious": mixture.spurious,
                "correlation": mixture.correlation,
                "half gap": measured.half_gap,
                "kappa": measured.kappa,
                "half gap / kappa": measured.half_gap / measured.kappa,
                "half gap / deviation": measured.half_gap / deviation,
                "on their side": measured.on_their_side(1),
                "predicted": NormalDist().cdf(measured.half_gap / deviation),
            }
        )
    return rows


def _slack_needed(options: SeparabilityOptions, seed: int) -> list[Row]:
    """The slack within which 99 % are, above and below, as d grows with n and the width."""
    rows = []
    for d in [d for d in DIMENSIONS if d <= max(2 * options.d, DIMENSIONS[1])]:
        size = 2 * round(d ** (1 + ALPHA))
        mixture = Mixture(
            d=d, n=size, core=SMALL_CORE, spurious=SMALL_SPURIOUS, correlation=0.995, alone=0.5
        )
        needed = []
        for draw in range(DRAWS):
            measured = measure(mixture, size, training(options, steps=1), seed, draw)
            outside = np.abs(measured.steps[1] - measured.predicted)
            needed.append(np.quantile(outside, 0.99) / measured.half_gap)
        rows.append(
            {"d": d, "n": size, "width": size, "slack needed / half gap": float(np.mean(needed))}
        )
    return rows


def _sections(
    over_time: Sequence[Row],
    last: Row,
    threshold: Sequence[Row],
    slack: Sequence[Row],
    facts: Mapping[str, Any],
    options: SeparabilityOptions,
) -> list[Section]:
    final = [row for row in over_time if row["step"] == options.steps]
    sections = [
        Section(
            f"Groups after {options.steps} steps, d = {options.d}, n = {options.n}, "
            f"width = {options.width}, {options.activation}",
            ["group", "examples", "output", "deviation", "predicted"],
            [
                [
                    GROUPS[row["group"]],
                    row["examples"],
                    f"{row['mean']:.2f}",
                    f"{row['deviation']:.2f}",
                    f"{row['predicted']:.2f}",
                ]
                for row in final
            ],
            [
                "Outputs are around the middle of the class, times the class, in units of "
                "2 lr zeta^2 t / d.",
                f"The deviation of the noise term xi is {facts['xi_standard_deviation']:.2f} "
                f"(kappa, the paper's bound of it: {facts['kappa']:.2f}).",
            ],
        ),
        Section(
            "Share of examples that obey the bounds",
            ["slack", *[f"{s:g} d^-1/4" for s in SLACKS]],
            [["share", *[f"{last[f'share at slack {s:g}']:.4f}" for s in SLACKS]]],
            [
                "The corollary leaves O(d^-alpha) open; here it is a multiple of d^-1/4 of "
                f"||v_s||^2 (K - k) / n, which is {facts['slack']:.2f} at 1. With no slack at all "
                "about half of the examples are below a bound that is also their mean.",
                f"99 % obey with a slack of {last['slack needed by 99 %']:.2f}.",
            ],
        ),
    ]
    if threshold:
        sections.append(
            Section(
                "The threshold: groups part where the gap exceeds the noise (K > k + |xi|)",
                ["||v_s||", "correlation", "half gap / kappa", "on their side", "predicted"],
                [
                    [
                        f"{row['spurious']:g}",
                        f"{row['correlation']:g}",
                        f"{row['half gap / kappa']:.2f}",
                        f"{row['on their side']:.3f}",
                        f"{row['predicted']:.3f}",
                    ]
                    for row in threshold
                ],
                ["Predicted: a normal variable with the deviation of the noise, on its side of 0."],
            )
        )
        sections.append(
            Section(
                "The slack that 99 % of the examples need, as a share of the gap, with n = width = "
                "2 d^(5/4)",
                ["d", "slack / half gap"],
                [[row["d"], f"{row['slack needed / half gap']:.4f}"] for row in slack],
                [f"It falls as d to the power {facts['slack_needed_exponent']:.2f}."],
            )
        )
    return sections
