"""The paper's theory of early training as something to run: one function per result.

    study = spare.theory.growth(d=500, activations=("tanh",))
    print(study)                       # what `spare theory growth` prints
    study.write("growth")              # tables as CSV, the figure, the numbers as JSON

`growth`, `separability` and `dominance` simulate; `linear`, `reliance`, `nsr` and `predict` train
on data; `all` yields each of them in turn.
"""

from spare.theory.dominance import dominance
from spare.theory.everything import STUDIES
from spare.theory.everything import everything as all
from spare.theory.growth import growth
from spare.theory.linear import linear
from spare.theory.nsr import nsr
from spare.theory.predict import predict
from spare.theory.reliance import reliance
from spare.theory.separability import separability
from spare.theory.study import Study

__all__ = [
    "STUDIES",
    "Study",
    "all",
    "dominance",
    "growth",
    "linear",
    "nsr",
    "predict",
    "reliance",
    "separability",
]
