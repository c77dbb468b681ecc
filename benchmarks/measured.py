"""How benchmarks keep what they measured: with the commit of the code that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spare.files.writing import write_json
from spare.records.code import code_version

ENGINES = Path(__file__).parents[1] / "results" / "engines"


def keep(file: Path | str, measured: Mapping[str, Any]) -> None:
    """Write what was measured to a file, or under this name to results/engines."""
    path = file if isinstance(file, Path) else ENGINES / f"{file}.json"
    write_json(path, {"code": code_version(), **measured})
