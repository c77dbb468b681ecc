"""Files of outputs that are only clustered, by an engine that need not hold them in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spare.api.results import folder_for, progress_or_stderr
from spare.engines.files import is_folder_of_shards
from spare.engines.outputs import FILE_ENGINES, ClusteredOutputs, cluster_outputs, too_large
from spare.errors import InputError
from spare.files.paths import path_given
from spare.groups.arrays import one_of
from spare.progress import Progress
from spare.runs.values import convert


def fits_in_memory(task: Any, engine: str = "auto") -> bool:
    """Whether a discovery runs here as a whole; if not, its outputs are only clustered."""
    path = Path(str(task))
    if one_of("engine", engine, FILE_ENGINES) not in ("auto", "local") or is_folder_of_shards(path):
        return False
    of_outputs = path.suffix.lower() in (".parquet", ".npy") and path.is_file()
    return engine == "local" or not (of_outputs and too_large(path))


def cluster_file(
    task: Any,
    *,
    engine: str,
    master: str = "local[*]",
    seed: int = 0,
    out: Path | str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ClusteredOutputs:
    """`cluster_outputs` as the command line calls it: with settings as text, and a folder."""
    path = path_given("task", task)
    given = {key: value for key, value in settings.items() if value is not None}
    options: dict[str, Any] = {}
    for key, kind in (("k", int), ("k_max", int), ("label", str), ("clusterer", str)):
        if key in given:
            options[key] = convert(key, given.pop(key), kind)
    if "power" in given:
        options["power"] = convert("power", given.pop("power"), float)
    if given:
        raise InputError(
            f"{next(iter(given))} is not for outputs that are only clustered, as engine {engine!r} "
            f"does: leave it out, or use --engine local."
        )
    return cluster_outputs(
        path,
        engine=engine,
        master=master,
        seed=seed,
        out=folder_for(out, f"clusters-{path.stem}"),
        progress=progress_or_stderr(progress),
        **options,
    )
