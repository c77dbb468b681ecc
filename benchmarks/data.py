"""What several benchmarks read."""

from __future__ import annotations

import argparse

from spare.data.task import Task
from spare.datasets import locate
from spare.methods import method_named
from spare.runs.plan import plan
from spare.runs.run import load_task


def cmnist_task(seed: int, arguments: argparse.Namespace) -> Task:
    choice = {"palette": arguments.palette}
    source = locate("cmnist", arguments.data, choice)
    return load_task(plan(source, method_named("spare"), choice), seed, lambda *_: None)
