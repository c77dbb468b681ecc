"""What torchrun says in the environment, and whoever starts processes as it does."""

from __future__ import annotations

import os

#: How each process is told which it is.
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def started_together() -> bool:
    """Whether this process was started as one of several; quick to ask."""
    return all(os.environ.get(name) for name in NAMES) and os.environ["WORLD_SIZE"] != "1"


def follows() -> bool:
    """Whether another process talks to people."""
    return started_together() and os.environ["RANK"] != "0"
