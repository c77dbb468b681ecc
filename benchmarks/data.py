"""What several benchmarks read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spare.data.task import Task
from spare.datasets import locate
from spare.methods import method_named
from spare.progress import SILENT
from spare.runs.plan import Plan, make_plan, with_model


def load(name: str, data: Path | None, choices: Mapping[str, str], seed: int) -> tuple[Task, Plan]:
    """A task with its model, and how SPARE would be run on it."""
    plan = make_plan(locate(name, data, choices), method_named("spare"), choices)
    return with_model(plan.load_task(seed, SILENT), plan, SILENT), plan
