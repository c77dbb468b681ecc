"""Runs as tests make them: from a task's name to the record."""

from __future__ import annotations

from pathlib import Path

from spare.datasets import locate
from spare.methods import discovery_with, method_named
from spare.progress import SILENT
from spare.runs import grid
from spare.runs.plan import make_plan
from spare.runs.run import run as walk


def run(task, method, seed, folder, *, data=None, overrides=None, threads=1, progress=SILENT):
    """The record of one training."""
    plan = make_plan(locate(task, data, overrides), method_named(method), overrides or {})
    return walk(plan, seed, Path(folder), threads=threads, progress=progress).record


def discover(task, seed, folder, *, inference="spare", overrides=None, progress=SILENT):
    """The record of one discovery."""
    plan = make_plan(locate(task, None, overrides), discovery_with(inference), overrides or {})
    return walk(plan, seed, Path(folder), progress=progress).record


def bench(task, methods, seeds, out, *, overrides=None, jobs=0, progress=SILENT):
    """The table of a grid of trainings."""
    source = locate(task, None, overrides)
    done = grid.bench(
        source, methods, seeds, Path(out), overrides=overrides, jobs=jobs, progress=progress
    )
    return done.table
