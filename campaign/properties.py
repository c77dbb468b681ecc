"""Properties of the public functions and readers, for many cases.

    python -m campaign.properties --cases 10000

The properties themselves are in `tests/groups/properties.py` and `tests/datasets/properties.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.datasets import properties as readers
from tests.groups import properties as functions
from tests.groups.properties import Property, try_cases

PROPERTIES = (*functions.PROPERTIES, *readers.PROPERTIES)

#: Properties whose cases take long get so much of an equal share; others make up for it.
SHARES = {"groups are whole": 0.5, "clear clusters": 0.2}


def run(cases: int, seed: int = 0, properties: Sequence[Property] = PROPERTIES) -> dict[str, Any]:
    """At least so many cases of all properties together; a property that fails is one failure."""
    started = time.monotonic()
    details: dict[str, Any] = {}
    tried = failures = 0
    # The slow ones first: what they leave undone, the last ones do.
    ordered = sorted(properties, key=lambda what: SHARES.get(what.name, 1.0))
    for number, what in enumerate(ordered):
        left = sum(SHARES.get(other.name, 1.0) for other in ordered[number:])
        examples = max(1, -int(-(cases - tried) * SHARES.get(what.name, 1.0) // left))
        began = time.monotonic()
        done, error = try_cases(what, examples, seed)
        problem = "" if error is None else "".join(traceback.format_exception(error))
        failures += error is not None
        tried += done
        seconds = round(time.monotonic() - began, 1)
        details[what.name] = {"cases": done, "seconds": seconds, "problem": problem}
        print(f"{what.name}: {done} cases, {seconds} s, {problem or 'ok'}", flush=True)
    return {
        "name": "properties",
        "cases": tried,
        "failures": failures,
        "seconds": round(time.monotonic() - started, 1),
        "seed": seed,
        "details": details,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    result = run(given.cases, given.seed)
    print(f"{result['cases']} cases, {result['failures']} failures, seed {result['seed']}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
