"""The first theorem: how fast a network learns a core and a spurious feature.

f(v_c) = 2 lr zeta^2 ||v_c||^2 t / d * c n_c / n
f(v_s) = 2 lr zeta^2 ||v_s||^2 t / d * (n_{+1,s} - n_{-1,s}) / n
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from spare.limits import Positive, Range
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.constants import activation_named
from spare.theory.growth_figure import by_line, plot
from spare.theory.mixtures import Mixture, given_features, sampled, sizes_of
from spare.theory.network import check_memory, check_step, check_width, symmetric
from spare.theory.slopes import PROBES, features_of, inside, steeper
from spare.theory.study import (
    Row,
    Study,
    cell,
    check_entries,
    generator_of,
    options_of,
    precision_named,
)
from spare.theory.sweeps import SWEEPS, Swept, check_sweeps, sweep_errors, sweep_rows

#: The theorem is for any of (0, 1/4); the largest has the shortest window.
ALPHA = 0.25
#: Steps that the initial slope is fitted to, as a t + b t^2.
FITTED = 5
#: Measured outputs have left the line of the theorem when they differ from it by more.
OFF = 0.1

CLAIM = (
    "In the first steps a network answers to each feature of the data in proportion to time, to "
    "the squared size of the feature, and to how much the label goes with it: a large feature "
    "that goes with the label is learned first, whether it is the right one or not."
)


@dataclass(frozen=True)
class GrowthOptions(Mixture):
    """Sizes and settings of `growth`; the first ones are those of the data."""

    core: Positive = 5.0
    spurious: Positive = 7.0
    width: Annotated[int, Range(2, 10**6)] = 8000
    lr: Positive = 1.0
    steps: Annotated[int, Range(FITTED, 100_000)] = 15
    activations: tuple[str, ...] = ("relu", "erf", "tanh")
    #: Seeds over which the errors of the sweeps are taken; 0 for no sweeps.
    sweep_seeds: Annotated[int, Range(0, 1000)] = 2
    #: Everything in the sweeps but d and what is swept, as a share of its size.
    sweep_scale: Annotated[float, Range(0.01, 1)] = 1.0
    precision: str = "float32"
    #: Text file of features instead of random ones, a line for each of four; sizes are theirs then.
    features_file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_entries(activations=self.activations)
        for name in self.activations:
            activation_named(name)


def growth(
    *,
    seed: int = 0,
    features: Tensor | None = None,
    progress: Progress = SILENT,
    **settings: Any,
) -> Study:
    """Measure how fast the network of the theory learns each feature, and compare with the theorem.

    Parameters
    ----------
    seed : int
    features : array of shape (4, d), optional
        The core features of class +1 and -1, then their spurious ones, instead of random ones;
        `core`, `spurious` and `d` are theirs then.
    progress : Progress, optional
    **settings
        Fields of `GrowthOptions`.

    Returns
    -------
    Study

    Examples
    --------
    >>> study = growth(d=100, n=400, width=400, steps=5, sweep_seeds=0, activations=("erf",))
    >>> 0.7 < study.facts["slopes"]["erf"]["spurious of class +1"] < 1.3
    True
    """
    given = given_features(features, settings.get("features_file", ""))
    if given is not None:
        settings |= sizes_of(given, settings)
    options = options_of(GrowthOptions, settings)
    check_width(options.width)
    check_memory(options.d, options.n, options.width)
    if options.sweep_seeds:
        check_sweeps(_swept(options))
    curves: list[Row] = []
    for number, activation in enumerate(options.activations):
        progress.report("growth", number, len(options.activations) + 1)
        curves += _curves(activation, options, seed, given)
    slopes = [_slope(rows, options) for rows in by_line(curves)]
    swept = sweep_rows(_swept(options), seed, progress) if options.sweep_seeds else []
    errors = sweep_errors(swept)
    facts = {
        "window_steps": _window(options),
        "slopes": {
            activation: {
                row["feature"]: row["measured / predicted"]
                for row in slopes
                if row["activation"] == activation
            }
            for activation in options.activations
        },
        "largest_error": _worst(slopes),
        "exponents": {name: each["exponent"] for name, each in errors.items()},
    }
    return Study(
        name="growth",
        title="Growth: features are learned in proportion to their squared size",
        claim=CLAIM,
        facts=facts,
        tables={"curves": curves, "slopes": slopes, **({"sweeps": swept} if swept else {})},
        sections=_sections(slopes, errors, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(curves, swept, errors, options.activations, _window(options)),
    )


def _curves(activation: str, options: GrowthOptions, seed: int, given: Tensor | None) -> list[Row]:
    """Measured and predicted outputs of every feature after every step."""
    dtype = precision_named(options.precision)
    generator = generator_of(seed, 1)
    examples = sampled(options.mixture(), generator, features=given, dtype=dtype)
    network = symmetric(activation, options.width, options.d, generator, dtype)
    probes = examples.probes(PROBES, generator)
    check_step(examples.x, activation, options.lr)
    features = features_of(examples)
    vectors = torch.stack([feature.vector for feature in features])
    rows = []
    for step in range(1, options.steps + 1):
        network.step(examples.x, examples.y, options.lr)
        within, alone = inside(network, probes, vectors), network(vectors)
        for feature, one, other in zip(features, within.tolist(), alone.tolist(), strict=True):
            rows.append(
                {
                    "activation": activation,
                    "feature": feature.name,
                    "step": step,
                    "predicted": step * feature.slope(activation, options.lr),
                    "measured": one,
                    "alone": other,
                }
            )
    return rows


def _swept(options: GrowthOptions) -> Swept:
    return Swept(
        options.core, options.spurious, options.correlation, options.lr, options.activations,
        options.sweep_seeds, options.sweep_scale, options.precision,
    )  # fmt: skip


def _slope(rows: Sequence[Row], options: GrowthOptions) -> Row:
    """The initial slope of one line: the t of a t + b t^2 through its first steps."""
    steps = np.array([row["step"] for row in rows], dtype=float)
    first = slice(None, FITTED)
    powers = np.stack([steps[first], steps[first] ** 2], 1)

    def initial(column: str) -> float:
        values = np.array([row[column] for row in rows[first]])
        return float(np.linalg.lstsq(powers, values, rcond=None)[0][0])

    predicted = rows[0]["predicted"]
    off = [
        row["step"] for row in rows if abs(row["measured"] / row["predicted"] - 1) > OFF
    ] if predicted else []  # fmt: skip
    return {
        "activation": rows[0]["activation"],
        "feature": rows[0]["feature"],
        "predicted slope": predicted,
        "measured slope": initial("measured"),
        "measured / predicted": initial("measured") / predicted if predicted else math.nan,
        "alone / predicted": initial("alone") / predicted if predicted else math.nan,
        "slope at 0 / zeta": steeper(rows[0]["activation"]),
        "last / predicted": rows[-1]["measured"] / rows[-1]["predicted"] if predicted else math.nan,
        "leaves the line at step": off[0] if off else None,
    }


def _worst(slopes: Sequence[Row]) -> float:
    """The largest relative error of a slope, of the features that the labels go with at all."""
    held = [row for row in slopes if row["predicted slope"]]
    return float(max(abs(row["measured / predicted"] - 1) for row in held))


def _alone(activations: Sequence[str]) -> list[str]:
    """Why a feature alone is not what the theorem says, for the activations that are smooth."""
    smooth = [name for name in activations if name not in ("relu", "leaky_relu")]
    if not smooth:
        return []
    factors = ", ".join(f"{name} {steeper(name):.2f}" for name in smooth)
    return [
        "The feature alone, f(v), is a much shorter input than the theorem's constants are for: a "
        "smooth activation is steeper there than on average over typical inputs, by a factor of "
        f"its slope at 0 over zeta ({factors})."
    ]


def _window(options: GrowthOptions) -> float:
    """Steps for which the theorem is stated, with its unknown constant taken as 1."""
    return math.sqrt(options.d ** (1 - ALPHA) / options.lr)


def _sections(
    slopes: Sequence[Row], errors: dict[str, dict[str, Any]], options: GrowthOptions
) -> list[Section]:
    rows = [
        [
            row["activation"],
            row["feature"],
            f"{row['predicted slope']:.5f}",
            cell(row["measured / predicted"], ".3f"),
            cell(row["alone / predicted"], ".3f"),
            cell(row["last / predicted"], ".3f"),
            row["leaves the line at step"] or "-",
        ]
        for row in slopes
    ]
    last = f"output after step {options.steps} / predicted"
    heads = ["activation", "feature", "predicted slope", "measured / predicted",
             "feature alone / predicted", last, "leaves the line at step"]  # fmt: skip
    sections = [
        Section(
            f"Slopes at the start, d = {options.d}, n = {options.n}, width = {options.width}, "
            f"lr = {options.lr:g}",
            heads,
            rows,
            [
                "A slope is how much the output along a feature grows in one step, at the start. "
                "It is measured inside typical inputs, (f(x + v) - f(x - v)) / 2, and there it is "
                f"within {100 * _worst(slopes):.1f} % of the theorem's.",
                *_alone(options.activations),
                f"An output leaves the line when it is off by more than {100 * OFF:.0f} %. The "
                f"theorem is for {_window(options):.0f} steps or so, sqrt(d^(3/4) / lr).",
            ],
        )
    ]
    if errors:
        sections.append(
            Section(
                "How far the slopes are off, relative to the predicted ones, as sizes grow",
                [
                    "what grows",
                    "from",
                    "to",
                    "error at first",
                    "error at last",
                    "power of the size",
                ],
                [
                    [
                        SWEEPS[name],
                        each["sizes"][0],
                        each["sizes"][-1],
                        f"{each['errors'][0]:.4f}",
                        f"{each['errors'][-1]:.4f}",
                        f"{each['exponent']:.2f}" if each["exponent"] is not None else "-",
                    ]
                    for name, each in errors.items()
                ],
                [
                    "Errors are root mean squares over features, activations and draws. A "
                    "power of -0.5 means that four times the size halves the error."
                ],
            )
        )
    return sections
