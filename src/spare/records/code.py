"""Which code made a record."""

from __future__ import annotations

import contextlib
import subprocess
from functools import cache
from pathlib import Path

import spare
from spare.records.record import Code


@cache
def code_version() -> Code:
    """The package's version and, where it is used from a checkout, the commit."""
    code: Code = {"version": spare.__version__}
    checkout = Path(spare.__file__).parents[2]
    if not ((checkout / ".git").exists() and (checkout / "src" / "spare").is_dir()):
        return code
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        described = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        code["commit"] = described.stdout.strip()
    return code
