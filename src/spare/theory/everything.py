"""All studies, one after the other, at the sizes that fit into a quarter of an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spare.progress import SILENT, Progress
from spare.theory.dominance import DominanceOptions, dominance
from spare.theory.growth import GrowthOptions, growth
from spare.theory.linear import LinearOptions, linear
from spare.theory.nsr import NsrOptions, nsr
from spare.theory.predict import predict
from spare.theory.reliance import RelianceOptions, reliance
from spare.theory.separability import SeparabilityOptions, separability
from spare.theory.study import Study


class Command(NamedTuple):
    """A study as the command line finds it."""

    function: Callable[..., Study]
    #: The class of its settings.
    options: type
    #: Whether it takes the folder of data sets.
    needs_data: bool = False
    #: Whether it makes runs, which can be kept in a folder.
    makes_runs: bool = False


STUDIES = {
    "growth": Command(growth, GrowthOptions),
    "separability": Command(separability, SeparabilityOptions),
    "dominance": Command(dominance, DominanceOptions),
    "linear": Command(linear, LinearOptions, needs_data=True),
    "reliance": Command(reliance, RelianceOptions, needs_data=True),
    "nsr": Command(nsr, NsrOptions, needs_data=True, makes_runs=True),
}
#: What the prediction is made for: a part of Colored MNIST.
PREDICTED: dict[str, Any] = {"watched": 2, "palette": "distinct", "train_size": 10_000}


def everything(
    *,
    seed: int = 0,
    data: Path | None = None,
    runs: Path | None = None,
    progress: Progress = SILENT,
) -> Iterator[Study]:
    """Every study as it is finished, and last the prediction for Colored MNIST.

    Parameters
    ----------
    seed : int
    data : Path, optional
        Folder of data sets, which holds MNIST.
    runs : Path, optional
        Folder in which the runs of `nsr` are kept.
    progress : Progress, optional

    Yields
    ------
    Study
    """
    for name, command in STUDIES.items():
        progress.say(f"{name} ...")
        more: dict[str, Any] = {"data": data} if command.needs_data else {}
        if command.makes_runs:
            more["runs"] = runs
        yield command.function(seed=seed, progress=progress, **more)
    progress.say("predict ...")
    yield predict("cmnist", seed=seed, data=data, progress=progress, **PREDICTED)
