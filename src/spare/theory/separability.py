"""The corollary: majorities and minorities can be told apart by the output, early.

In units of 2 lr zeta^2 t / d, and times the class, the output of an example is

    ||v_c||^2 n_c / n  +  ||v_s||^2 (n_{c,s} - n_{c',s}) / n  +  xi  +  what is the same for a class

so a majority lies ||v_s||^2 (K - k) / n above the middle, and a minority whose feature is the other
class's majority's as far below it. xi is the example's noise along the features: groups separate
where ||v_s||^2 (K - k) / n is larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np

from spare.errors import InputError
from spare.limits import Positive, Range, Share
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.corollary import GROUPS, Measured, Training, measure
from spare.theory.mixtures import Mixture
from spare.theory.network import check_memory, check_width
from spare.theory.separability_figure import plot
from spare.theory.separability_sweeps import slack_rows, threshold_rows
from spare.theory.study import Row, Study, exponent, options_of

#: What the corollary leaves open, O(d^-alpha), is taken as d^-1/4 of ||v_s||^2 (K - k) / n; shares
#: are shown for so many times this, too.
SLACKS = (0.25, 0.5, 1.0, 2.0)
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.correlation <= (1 - self.correlation) * (1 - self.alone):
            raise InputError(
                f"with a correlation of {self.correlation:g} and alone={self.alone:g} no group is "
                f"a majority, which the corollary is about: make one of them larger."
            )


def separability(*, seed: int = 0, progress: Progress = SILENT, **settings: Any) -> Study:
    """Measure when the groups of a class separate, and how many examples obey the corollary.

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
    mixture = options.mixture()
    progress.report("separability", 0, 3)
    training = Training(options.activation, options.lr, options.steps, options.precision)
    measured = measure(mixture, options.width, training, seed)
    over_time = _over_time(measured)
    shares = [_shares(step, measured) for step in measured.steps]
    last = shares[-1]
    threshold: list[Row] = []
    slack: list[Row] = []
    if options.sweeps:
        progress.report("separability", 1, 3)
        threshold = threshold_rows(mixture, options.width, training, seed)
        progress.report("separability", 2, 3)
        slack = slack_rows(options.d, training, seed)
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
        title="Separability: the groups of a class separate within a few steps",
        claim=CLAIM,
        facts=facts,
        tables=tables,
        sections=_sections(over_time, last, threshold, slack, facts, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(measured, over_time, threshold, slack),
    )


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


def _missing(final: Sequence[Row], options: SeparabilityOptions) -> list[str]:
    """Which groups have no examples, where some have none."""
    missing = [GROUPS[group] for group in GROUPS if group not in {row["group"] for row in final}]
    if not missing:
        return []
    return [
        f"There is no {', and no '.join(missing)}: of {options.n} examples, a correlation of "
        f"{options.correlation:g} and alone={options.alone:g} leave none."
    ]


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
            ["group", "examples", "mean output", "standard deviation", "predicted mean"],
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
                "An output is counted from the middle of its class, in the direction of the class, "
                "and in units of 2 lr zeta^2 t / d, so that the prediction is the same at every "
                "step.",
                "The standard deviation of an example's own noise (xi) is "
                f"{facts['xi_standard_deviation']:.2f}; the paper bounds it by kappa = "
                f"{facts['kappa']:.2f}.",
                *_missing(final, options),
            ],
        ),
        Section(
            "Share of training examples that obey the bounds, by the slack that they are given",
            ["slack / gap", *[f"{s:g} d^-1/4" for s in SLACKS]],
            [["share", *[f"{last[f'share at slack {s:g}']:.4f}" for s in SLACKS]]],
            [
                "The corollary leaves a slack of O(d^-alpha) open. Here it is a multiple of d^-1/4 "
                f"of the gap ||v_s||^2 (K - k) / n; 1 d^-1/4 of it is {facts['slack']:.2f}. With "
                "no slack about half of the examples would fail, because the bounds are also the "
                "means.",
                f"99 % obey with a slack of {last['slack needed by 99 %']:.2f}.",
            ],
        ),
    ]
    if threshold:
        sections.append(
            Section(
                "The threshold: groups separate where the gap exceeds the noise (K > k + |xi|)",
                ["||v_s||", "correlation", "gap / kappa", "share on their side", "predicted share"],
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
                [
                    "An example is on its side if it is above the middle of its class as one of "
                    "the majority, and below it as one of the minority. Predicted: how often a "
                    "normal variable with the gap as its mean, and the noise's deviation, is "
                    "above 0."
                ],
            )
        )
        sections.append(
            Section(
                "The slack that 99 % of the examples need, as a share of the gap, with n = width = "
                "2 d^(5/4)",
                ["d", "slack / gap"],
                [[row["d"], f"{row['slack needed / half gap']:.4f}"] for row in slack],
                [f"It falls as d to the power {facts['slack_needed_exponent']:.2f}."],
            )
        )
    return sections
