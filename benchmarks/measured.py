"""Where benchmarks keep what they measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "engines"


def keep(name: str, measured: Any) -> None:
    """Write what was measured to results/engines/NAME.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(measured, indent=2) + "\n")
