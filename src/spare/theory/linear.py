"""The network and the linear model that it begins as, side by side on Colored MNIST.

The proofs replace the network by a linear model on psi(x) (linear_model.py), also on a feature by
itself. Here the outputs of both are compared on full images, on their color alone and on the digit
alone; and on data as the theory has it, against the rate of Hu et al. (2020): a mean squared gap of
at most (lr t)^2 / d^(2 + Omega(alpha)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from spare.errors import InputError
from spare.limits import Range, check_ranges
from spare.progress import SILENT, Progress
from spare.report.sections import Section
from spare.theory.colored_digits import PARTS, versions
from spare.theory.constants import (
    ACTIVATIONS,
    NAMES,
    activation_named,
    by_adaptive_quadrature,
    constants_of,
)
from spare.theory.linear_figure import plot
from spare.theory.linear_model import fitted
from spare.theory.mixtures import Mixture, sampled
from spare.theory.network import check_memory, check_step, check_width, symmetric
from spare.theory.study import Row, Study, check_entries, exponent, generator_of, options_of

#: Of data as the theory has it, with n = width = 2 d^(1 + alpha); gaps are taken after some steps.
DIMENSIONS, ALPHA, RATE_STEPS, RATE_SEEDS = (50, 100, 200, 400), 0.25, 3, 4
#: "Early" ends when the linear model's loss on full images is this share of its start.
EARLY = 0.5
#: The step size, of the largest stable one.
SHARE = 0.05

CLAIM = (
    "Early on, a network of two layers computes nearly a linear function of its inputs, and so a "
    "linear model tells what it will have learned: on whole images, and on a color or a digit by "
    "itself."
)


@dataclass(frozen=True)
class LinearOptions:
    """Sizes and settings of `linear`."""

    n: Annotated[int, Range(8, 20_000)] = 1000
    width: Annotated[int, Range(2, 10**6)] = 4000
    #: Images are averaged down to so many pixels a side; 32 is all of them.
    side: Annotated[int, Range(4, 32)] = 32
    steps: Annotated[int, Range(1, 100_000)] = 20
    #: 0 for a twentieth of the largest stable one.
    lr: Annotated[float, Range(0, 1e9)] = 0.0
    activations: tuple[str, ...] = ("relu", "erf", "tanh")
    palette: str = "distinct"
    #: The two classes that are told apart.
    classes: tuple[Annotated[int, Range(0, 4)], ...] = (0, 1)
    #: Whether the rate is measured on data as the theory has it.
    rate: bool = True

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(set(self.classes)) != 2:
            raise InputError(f"classes are two of 0 to 4, not {self.classes}.")
        check_entries(activations=self.activations)
        for name in self.activations:
            activation_named(name)


def linear(
    *, seed: int = 0, data: Path | None = None, progress: Progress = SILENT, **settings: Any
) -> Study:
    """Train the network and the linear model on Colored MNIST, and measure how far they are apart.

    Parameters
    ----------
    seed : int
    data : Path, optional
        Folder of data sets, which holds MNIST.
    progress : Progress, optional
    **settings
        Fields of `LinearOptions`.

    Returns
    -------
    Study
    """
    options = options_of(LinearOptions, settings)
    check_width(options.width)
    # Three versions of the images, without the noise that drawn data is kept with.
    check_memory(3 * options.side**2, options.n, options.width, versions=2)
    constants = _constants()
    inputs, y = versions(data, seed, options.palette, options.classes, options.n, options.side)
    rows: list[Row] = []
    for number, activation in enumerate(options.activations):
        progress.report("linear", number, len(options.activations) + 1)
        rows += _compared(activation, inputs, y, options, seed)
    progress.report("linear", len(options.activations), len(options.activations) + 1)
    rates = _rates(options.activations, seed) if options.rate else []
    early = [row for row in rows if row["early"]]
    gaps = {
        activation: {
            part: float(
                np.mean([
                    r[f"gap {part}"] for r in early if r["activation"] == activation
                ])
            )
            for part in PARTS
        }
        for activation in options.activations
    }  # fmt: skip
    full = inputs["full"]
    cosines = full @ full.T / full.shape[1]
    off = cosines - torch.diag(cosines.diagonal())
    facts = {
        "gaps": gaps,
        "largest_gap": {activation: max(each.values()) for activation, each in gaps.items()},
        "constants_largest_difference": max(abs(row["difference"]) for row in constants),
        "cosine_rms": float((off**2).sum() / (len(full) * (len(full) - 1))) ** 0.5,
        "cosine_allowed": math.sqrt(math.log(len(full)) / full.shape[1]),
        "rate_exponents": {
            activation: exponent(
                [r["d"] for r in rates if r["activation"] == activation],
                [r["gap / (lr t)^2"] for r in rates if r["activation"] == activation],
            )
            for activation in options.activations
            if rates
        },
    }
    return Study(
        name="linear",
        title="Linear: the network begins as a linear model",
        claim=CLAIM,
        facts=facts,
        tables={"losses": rows, "constants": constants, **({"rates": rates} if rates else {})},
        sections=_sections(gaps, facts, constants, rates, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(rows, rates, options.activations),
    )


def _constants() -> list[Row]:
    """Every constant as it is used, and by a numerical integration that is not the one used."""
    rows = []
    for name, activation in ACTIVATIONS.items():
        used, integrated = constants_of(name), by_adaptive_quadrature(name)
        rows += [
            {
                "activation": name,
                "constant": each,
                "used": getattr(used, each),
                "quadrature": integrated[each],
                "difference": getattr(used, each) - integrated[each],
                "closed form": each in activation.closed,
            }
            for each in NAMES
        ]
    return rows


def _largest(constants: Sequence[Row], activation: str) -> float:
    return float(max(abs(r["difference"]) for r in constants if r["activation"] == activation))


def _compared(
    activation: str, inputs: dict[str, Tensor], y: Tensor, options: LinearOptions, seed: int
) -> list[Row]:
    """Losses of both on every version of the images, and their gaps, after every step."""
    x = inputs["full"]
    lr = options.lr or SHARE * check_step(x, activation, 0.0)
    check_step(x, activation, lr)
    network = symmetric(activation, options.width, x.shape[1], generator_of(seed, 5), x.dtype)
    line = fitted(x, y, activation, lr)
    rows = []
    for step in range(1, options.steps + 1):
        network.step(x, y, lr)
        row: Row = {"activation": activation, "step": step, "lr": lr}
        for part, each in inputs.items():
            ours, theirs = network(each), line(each, step)
            row[f"network loss {part}"] = float(((ours - y) ** 2).mean() / 2)
            row[f"linear loss {part}"] = float(((theirs - y) ** 2).mean() / 2)
            row[f"gap {part}"] = float(((ours - theirs) ** 2).mean() / ours.var())
        row["early"] = row["linear loss full"] > EARLY * 0.5  # it begins at 1/2
        rows.append(row)
    return rows


def _rates(activations: Sequence[str], seed: int) -> list[Row]:
    """The mean squared gap on data as the theory has it, over d; a mean over several draws."""
    rows = []
    for activation in activations:
        for d in DIMENSIONS:
            size = 2 * round(d ** (1 + ALPHA))
            gaps = [_gap(activation, d, size, (seed, 6, d, draw)) for draw in range(RATE_SEEDS)]
            rows.append(
                {
                    "activation": activation,
                    "d": d,
                    "n": size,
                    "width": size,
                    "gap / (lr t)^2": float(np.mean(gaps)),
                    "1 / d^2": d**-2.0,
                }
            )
    return rows


def _gap(activation: str, d: int, size: int, key: tuple[int, ...]) -> float:
    """The mean squared gap after a few steps of size 1, over the square of their number."""
    generator = generator_of(*key)
    examples = sampled(Mixture(d=d, n=size, core=2.0, spurious=3.0), generator)
    network = symmetric(activation, size, d, generator, examples.x.dtype)
    for _ in range(RATE_STEPS):
        network.step(examples.x, examples.y, 1.0)
    line = fitted(examples.x, examples.y, activation, 1.0)
    gap = (network(examples.x) - line(examples.x, RATE_STEPS)).square().mean()
    return float(gap) / RATE_STEPS**2


def _sections(
    gaps: dict[str, dict[str, float]],
    facts: dict[str, Any],
    constants: Sequence[Row],
    rates: Sequence[Row],
    options: LinearOptions,
) -> list[Section]:
    sections = [
        Section(
            f"Colored MNIST, {options.n} images, width = {options.width}: mean squared gap between "
            f"network and linear model, in % of the outputs' variance, until the loss has halved",
            ["activation", *PARTS.values()],
            [[name, *[f"{100 * each[part]:.2f}" for part in PARTS]] for name, each in gaps.items()],
            [
                "Inputs are centered and as long as sqrt(d). The theory wants them nearly at right "
                f"angles, with cosines of about {facts['cosine_allowed']:.2f}; those of the "
                f"images are {facts['cosine_rms']:.2f} (root mean square). Of an odd activation "
                "the next term after the linear one is cubic in the cosine, of ReLU it is "
                "quadratic: that is why ReLU is further away."
            ],
        ),
        Section(
            "Constants of the activations",
            ["activation", *NAMES, "largest difference from quadrature"],
            [
                [
                    name,
                    *[f"{getattr(constants_of(name), each):.6f}" for each in NAMES],
                    f"{_largest(constants, name):.1e}",
                ]
                for name in ACTIVATIONS
            ],
            [
                "Closed forms where there are any, else Gauss-Legendre quadrature; both are "
                "compared with the adaptive quadrature of SciPy. nu is theta_1 sqrt(Tr(Sigma^2) "
                "/ d)."
            ],
        ),
    ]
    if rates:
        names = list(dict.fromkeys(row["activation"] for row in rates))
        sections.append(
            Section(
                "Data as the theory has it, n = width = 2 d^(5/4): mean squared gap over "
                f"(lr t)^2, after {RATE_STEPS} steps",
                ["d", *names, "1 / d^2"],
                [
                    [
                        d,
                        *[f"{row['gap / (lr t)^2']:.2e}" for row in rates if row["d"] == d],
                        f"{d**-2.0:.2e}",
                    ]
                    for d in DIMENSIONS
                ],
                [
                    "Powers of d: "
                    + ", ".join(f"{k} {v:.2f}" for k, v in facts["rate_exponents"].items())
                    + "; the theorem says below -2."
                ],
            )
        )
    return sections
