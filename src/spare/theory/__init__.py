"""The paper's theory of early training as something to run: one function per result.

    study = spare.theory.growth(d=500, activations=("tanh",))
    print(study)                       # what `spare theory growth` prints
    study.write("growth")              # tables as CSV, the figure, the numbers as JSON

`growth`, `separability` and `dominance` simulate; `linear`, `reliance`, `nsr` and `predict` train
on data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spare.theory.dominance import DominanceOptions, dominance
from spare.theory.growth import GrowthOptions, growth
from spare.theory.linear import LinearOptions, linear
from spare.theory.nsr import NsrOptions, nsr
from spare.theory.reliance import RelianceOptions, reliance
from spare.theory.separability import SeparabilityOptions, separability
from spare.theory.study import Study


class Command(NamedTuple):
    """A study as the command line finds it."""

    function: Callable[..., Study]
    #: The class of its settings.
    options: type
    #: Whether it takes the folder of data sets.
    needs_data: bool
    #: Whether it makes runs, which are kept below the study's folder.
    keeps_runs: bool = False


STUDIES = {
    "growth": Command(growth, GrowthOptions, False),
    "separability": Command(separability, SeparabilityOptions, False),
    "dominance": Command(dominance, DominanceOptions, False),
    "linear": Command(linear, LinearOptions, True),
    "reliance": Command(reliance, RelianceOptions, True),
    "nsr": Command(nsr, NsrOptions, True, keeps_runs=True),
}

__all__ = ["STUDIES", "Study", "dominance", "growth", "linear", "nsr", "reliance", "separability"]
