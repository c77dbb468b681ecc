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
from spare.theory.constants import activation_named, constants_of
from spare.theory.growth_figure import by_line, plot
from spare.theory.mixtures import Mixture, check_features, sampled
from spare.theory.network import check_memory, check_step, check_width, symmetric
from spare.theory.slopes import PROBES, features_of, inside
from spare.theory.study import Row, Study, generator_of, options_of, precision_named
from spare.theory.sweeps import SWEEPS, Swept, sweep_errors, sweep_rows

#: The theorem is for any of (0, 1/4); the largest has the shortest window.
ALPHA = 0.25
#: Steps that the initial slope is fitted to, as a t + b t^2.
FITTED = 5
#: Measured and predicted have parted when they differ by more.
PARTED = 0.1

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
        The core features of class +1 and -1, then their spurious ones, instead of random ones of
        the sizes `core` and `spurious`.
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
    options = options_of(GrowthOptions, settings)
    check_width(options.width)
    check_memory(options.d, options.n, options.width)
    given = None
    if features is not None:
        given = torch.as_tensor(np.asarray(features), dtype=torch.float64)
        check_features(given, options.d)
    for name in options.activations:
        activation_named(name)
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
        "largest_error": max(abs(row["measured / predicted"] - 1) for row in slopes),
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
    examples = sampled(_mixture(options), generator, features=given, dtype=dtype)
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


def _mixture(options: GrowthOptions) -> Mixture:
    names = Mixture.__dataclass_fields__
    return Mixture(**{name: getattr(options, name) for name in names})


def _slope(rows: Sequence[Row], options: GrowthOptions) -> Row:
    """The initial slope of one line: the t of a t + b t^2 through its first steps."""
    steps = np.array([row["step"] for row in rows], dtype=float)
    first = slice(None, FITTED)
    powers = np.stack([steps[first], steps[first] ** 2], 1)

    def initial(column: str) -> float:
        values = np.array([row[column] for row in rows[first]])
        return float(np.linalg.lstsq(powers, values, rcond=None)[0][0])

    predicted = rows[0]["predicted"]
    apart = [
        row["step"] for row in rows if abs(row["measured"] / row["predicted"] - 1) > PARTED
    ] if predicted else []  # fmt: skip
    return {
        "activation": rows[0]["activation"],
        "feature": rows[0]["feature"],
        "predicted slope": predicted,
        "measured slope": initial("measured"),
        "measured / predicted": initial("measured") / predicted if predicted else math.nan,
        "alone / predicted": initial("alone") / predicted if predicted else math.nan,
        "slope at 0 / zeta": _steeper(rows[0]["activation"]),
        "last / predicted": rows[-1]["measured"] / rows[-1]["predicted"] if predicted else math.nan,
        "parted at step": apart[0] if apart else None,
    }


def _steeper(activation: str) -> float:
    """How much steeper an activation is at 0 than on average over typical inputs."""
    at_0 = activation_named(activation).slope(torch.zeros(1)).item()
    return at_0 / constants_of(activation).zeta


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
            f"{row['measured / predicted']:.3f}",
            f"{row['alone / predicted']:.3f}",
            f"{row['last / predicted']:.3f}",
            row["parted at step"] or "-",
        ]
        for row in slopes
    ]
    last = f"at step {options.steps}"
    heads = ["activation", "feature", "predicted slope", "measured / predicted", "v alone",
             last, "parted at"]  # fmt: skip
    worst = max(abs(row["measured / predicted"] - 1) for row in slopes)
    sections = [
        Section(
            f"Slopes at the start, d = {options.d}, n = {options.n}, width = {options.width}, "
            f"lr = {options.lr:g}",
            heads,
            rows,
            [
                f"Inside typical inputs the slopes are within {100 * worst:.1f} % of the "
                f"theorem's.",
                "At v alone a smooth activation is steeper than it is on average over typical "
                "inputs, by its slope at 0 over zeta: "
                + ", ".join(
                    f"{name} {_steeper(name):.2f}"
                    for name in options.activations
                    if name not in ("relu", "leaky_relu")
                )
                + "; the theorem's constants do not hold there.",
                f"'parted at' is the first step that differs by more than {100 * PARTED:.0f} %. "
                f"The theorem is for {_window(options):.0f} steps or so, sqrt(d^(3/4) / lr).",
            ],
        )
    ]
    if errors:
        sections.append(
            Section(
                "How the error falls: relative, root mean square over features, activations, seeds",
                ["swept", "from", "to", "error from", "error to", "exponent"],
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
            )
        )
    return sections
