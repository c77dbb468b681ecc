"""Noise on the shortcut: what becomes of the methods when the colors of Colored MNIST are noisy.

The theory says that a feature with less noise for its size is learned first, so noise on the color
should make the shortcut weaker; the paper claims in words that SPARE does well throughout. Each
point is a bench of its own, as `spare bench` runs it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from spare.datasets import locate
from spare.errors import InputError
from spare.limits import Count, CountOrNone, Range, Share, check_ranges
from spare.progress import SILENT, Progress
from spare.report.figures.canvas import COLORS, canvas, plain_text
from spare.report.sections import Section, percent
from spare.runs.grid import bench
from spare.theory.axes import label
from spare.theory.noisy_colors import NAME, noise_to_signal
from spare.theory.study import Row, Study, options_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One mark per method: curves may lie on each other.
MARKS = "os^Dv"

CLAIM = (
    "The less noise a shortcut has for its size, the more a network relies on it: plain training "
    "fails on the worst group while the colors are clean, and methods that find the groups should "
    "do well whatever the noise."
)


@dataclass(frozen=True)
class NsrOptions:
    """Sizes and settings of `nsr`; the defaults are a small part of the sweep.

    With much fewer images or epochs no method learns anything but the color, and there is nothing
    to compare; benchmarks/noise.py has the whole sweep.
    """

    #: Standard deviations of the noise, in units of the largest value of a color.
    noises: tuple[Annotated[float, Range(0, 100)], ...] = (0.0, 1.0)
    #: Without JTT: where colors are noisy, its first model, which has seen little here, is wrong on
    #: most images, and with copies of them all it takes many times as long as the others.
    methods: tuple[str, ...] = ("erm", "eiil", "gb", "spare")
    seeds: tuple[Annotated[int, Range(0, 2**32 - 1)], ...] = (0,)
    palette: str = "distinct"
    p_corr: Share = 0.98
    #: 0 for the paper's 50,000.
    train_size: CountOrNone = 10_000
    epochs: Count = 15
    #: Copies of its mistakes that JTT trains with; 0 for the preset's 500, which would take hours
    #: with the many mistakes of a model that has seen little.
    upweight: CountOrNone = 20
    #: Runs at a time; 0 for all cores.
    jobs: Annotated[int, Range(0, 1024)] = 0

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.noises or len(set(self.noises)) != len(self.noises):
            raise InputError("noises are one or more different numbers.")


def nsr(
    *,
    seed: int = 0,
    data: Path | None = None,
    runs: Path | None = None,
    progress: Progress = SILENT,
    **settings: Any,
) -> Study:
    """Bench methods on Colored MNIST with more and more noise on the colors.

    Parameters
    ----------
    seed : int
        Added to every seed of the settings.
    data : Path, optional
        Folder of data sets, which holds MNIST.
    runs : Path, optional
        Folder in which the runs are kept, and found again; by default they are thrown away.
    progress : Progress, optional
    **settings
        Fields of `NsrOptions`.

    Returns
    -------
    Study
    """
    options = options_of(NsrOptions, settings)
    rows: list[Row] = []
    more = {"upweight": options.upweight} if options.upweight and "jtt" in options.methods else {}
    with _kept(runs) as folder:
        for noise in options.noises:
            done = bench(
                locate(NAME, data),
                options.methods,
                [seed + each for each in options.seeds],
                folder / f"noise-{noise:g}",
                overrides=more
                | {
                    "color_noise": noise,
                    "palette": options.palette,
                    "p_corr": options.p_corr,
                    "train_size": options.train_size,
                    "epochs": options.epochs,
                },
                jobs=options.jobs,
                progress=progress,
            )
            rows += [
                {
                    "noise": noise,
                    "noise / signal": noise_to_signal(noise, options.palette),
                    "method": row["method"],
                    "worst group": row["selected"]["worst_group"]["mean"],
                    "deviation": row["selected"]["worst_group"]["sd"],
                    "average": row["selected"]["average"]["mean"],
                    "seeds": len(row["seeds"]),
                    "examples seen": row["examples_seen"],
                }
                for row in done.table["rows"]
            ]
    facts = {
        "worst_group": {
            method: {f"{r['noise']:g}": r["worst group"] for r in rows if r["method"] == method}
            for method in options.methods
        }
    }
    return Study(
        name="nsr",
        title="Noise on the shortcut: worst groups as the colors become noisy",
        claim=CLAIM,
        facts=facts,
        tables={"worst-groups": rows},
        sections=_sections(rows, options),
        settings={**asdict(options), "seed": seed},
        plot=lambda: plot(rows, options),
    )


@contextlib.contextmanager
def _kept(runs: Path | None) -> Iterator[Path]:
    """The folder for the runs, which is only a temporary one if none is given."""
    if runs is not None:
        yield runs
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _sections(rows: Sequence[Row], options: NsrOptions) -> list[Section]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    size = f"{options.train_size:,}" if options.train_size else "50,000"
    table = []
    for noise in options.noises:
        of = {row["method"]: row for row in rows if row["noise"] == noise}
        cells = [f"{percent(of[m]['worst group'])} / {percent(of[m]['average'])}" for m in methods]
        table.append([f"{noise:g}", f"{of[methods[0]]['noise / signal']:.2f}", *cells])
    return [
        Section(
            f"Worst group / average in % of the test split, {size} training images, "
            f"{options.epochs} epoch{'s' if options.epochs > 1 else ''}, "
            f"{100 * options.p_corr:g} % in the class's color, "
            f"{len(options.seeds)} seed{'s' if len(options.seeds) > 1 else ''}",
            ["noise", "noise / signal", *methods],
            table,
            [
                "noise: its standard deviation, where a color's largest value is 1; noise / "
                "signal: that over the norm of the colors. It is on every split.",
                "Epochs are selected by the worst group of validation, as in the results.",
                *(
                    [
                        "With so few images these numbers say where things go, not how good a "
                        "method is: the full sweep is for that (benchmarks/noise.py)."
                    ]
                    if options.train_size
                    else []
                ),
            ],
        ),
        Section(
            "Examples that each method trained on, in thousands",
            ["noise", *methods],
            [
                [
                    f"{noise:g}",
                    *[
                        f"{row['examples seen'] / 1000:.0f}"
                        for method in methods
                        for row in rows
                        if row["noise"] == noise and row["method"] == method
                    ],
                ]
                for noise in options.noises
            ],
            [
                "First models count, too."
                + (
                    " JTT trains with copies of its first model's mistakes: the more of them, the "
                    "longer it trains."
                    if "jtt" in methods
                    else ""
                )
            ],
        ),
    ]


def plot(rows: Sequence[Row], options: NsrOptions) -> Figure:
    figure = canvas(5.2, 3.4)
    axes = figure.subplots()
    for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        of = [row for row in rows if row["method"] == method]
        axes.errorbar(
            [row["noise"] for row in of], [100 * row["worst group"] for row in of],
            [100 * row["deviation"] for row in of] if options.seeds[1:] else None,
            fmt=f"{MARKS[number % len(MARKS)]}-", ms=4, lw=1, capsize=2, mfc="none",
            color=COLORS[number % len(COLORS)], label=plain_text(method),
        )  # fmt: skip
    axes.set_ylim(-3, 100)
    label(
        axes,
        "noise on the color (standard deviation; a color's largest value is 1)",
        "worst group of the test split, %",
    )
    return figure
