"""DFR on validation examples (the paper's main variant): see dfr.py.

Kirichenko, Izmailov, Wilson: Last Layer Re-Training is Sufficient for Robustness to Spurious
Correlations, ICLR 2023.

    as dfr, with balanced subsets of the validation split:
    C: fitted on a balanced subset of one half, chosen by the worst group of the other half
    the last layer: fitted on fresh balanced subsets of all of it

So a run's validation scores are of examples that the last layer was fitted to.

A departure: every group is halved separately, so that a small one is in both halves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spare.data.folds import halves
from spare.data.task import Task
from spare.errors import InputError
from spare.limits import Count
from spare.methods.dfr import (
    DfrOptions,
    checked_groups,
    examples_of,
    features_of,
    refitted,
    train_base,
)
from spare.methods.method import Fitted, Method, sees
from spare.training.stages import Stages


@dataclass(frozen=True)
class DfrValOptions(DfrOptions):
    #: Regressions, each on another balanced subset, whose coefficients are averaged.
    refits: Count = 20


def fit(task: Task, stages: Stages, options: DfrValOptions) -> Fitted:
    if task.val is None:
        raise InputError(
            "dfr_val fits the last layer to validation examples, and there are none: give a "
            "validation split, or use dfr."
        )
    tuned = len(options.c_grid) > 1
    groups = checked_groups(task, task.val, "validation", least=2 if tuned else 1)
    base = train_base(task, stages)
    val = examples_of(base, task.val, groups, stages)
    first, second = halves(groups, np.random.default_rng([stages.seed, 0x4A1F]))
    return refitted(
        base,
        features_of(base, task.train, stages),
        stages,
        options,
        pool=val,
        fitting=val.subset(first),
        tuning=val.subset(second) if tuned else None,
    )


METHOD = Method(
    name="dfr_val",
    title="deep feature reweighting: the last layer anew, on validation groups in equal numbers",
    paper="Kirichenko et al. 2023",
    sees=sees("val"),
    fit=fit,
    options=DfrValOptions,
)
