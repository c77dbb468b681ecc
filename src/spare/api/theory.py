"""Studies of the theory by name: run, written to a folder, and shown on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spare.api.results import as_path, folder_for, progress_or_stderr
from spare.errors import unknown
from spare.files.building import no_empty_folders
from spare.progress import Progress
from spare.runs.environment import limited_threads
from spare.runs.values import convert, typed_fields
from spare.theory import STUDIES, Study, predict
from spare.theory.everything import everything
from spare.theory.page import write_page

#: Where the runs of a study are kept, below its folder.
RUNS = "runs"


@dataclass(frozen=True)
class Studied:
    """A study, and where it was written to."""

    study: Study
    folder: Path
    page: Path


def run_study(
    name: str,
    *,
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Studied:
    """Run a study, and write its tables, its figure and the page of its folder.

    Parameters
    ----------
    name : str
        One of `spare.theory.STUDIES`.
    seed : int
    out : Path, optional
        Folder to write to; by default runs/theory.
    data : Path, optional
        Folder of data sets, for the studies that need one.
    threads : int
        Threads to compute with; 0 for all.
    progress : Progress, optional
    settings : mapping, optional
        The study's own, as text or as they are.
    """
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    command = STUDIES[name]
    types = typed_fields(command.options)
    given = {
        key: convert(key, value, types[key]) if key in types else value
        for key, value in (settings or {}).items()
    }
    if command.needs_data:
        given["data"] = as_path(data)
    if command.makes_runs:
        given["runs"] = folder_for(out, "theory") / RUNS
    with limited_threads(threads):
        study = command.function(seed=seed, progress=progress_or_stderr(progress), **given)
    return written(study, out)


def run_prediction(
    task: Any,
    *,
    watched: int = 3,
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Studied:
    """Predict when data separates, as `spare.theory.predict`, and write it like a study."""
    with limited_threads(threads):
        study = predict(
            task, seed=seed, data=as_path(data), watched=watched,
            progress=progress_or_stderr(progress), **settings,
        )  # fmt: skip
    return written(study, out)


def run_all(
    *,
    seed: int = 0,
    out: Path | str | None = None,
    data: Path | str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Iterator[Studied]:
    """Every study at its usual size, written as soon as it is finished; one page for all."""
    studies = everything(
        seed=seed, data=as_path(data), runs=folder_for(out, "theory") / RUNS,
        progress=progress_or_stderr(progress),
    )  # fmt: skip
    with limited_threads(threads):
        for study in studies:
            yield written(study, out)


def written(study: Study, out: Path | str | None) -> Studied:
    """Write a study to a folder, by default runs/theory, and make the folder's page."""
    folder = folder_for(out, "theory")
    with no_empty_folders(folder / study.name):
        study.write(folder)
        return Studied(study, folder, write_page(folder))
