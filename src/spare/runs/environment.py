"""What surrounds a run: threads, memory, warnings, and the versions of libraries."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import torch

import spare
from spare.errors import SpareWarning
from spare.limits import Range

#: Threads of a run, and runs at a time; 0 for all cores.
Threads = Annotated[int, Range(0, 1024)]
VERSIONED = ("torch", "torchvision", "numpy", "scikit-learn")


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """The number of threads changes the last bits of a sum, so a run fixes it; 0 for all."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def collected_warnings(say: Callable[[str], None]) -> Iterator[list[str]]:
    """Our own warnings within it, said once each and kept in the list."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpareWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, SpareWarning):
            if str(warning.message) not in notes:
                notes.append(str(warning.message))
        else:  # not ours to hold back
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    for note in notes:
        say(f"warning: {note}")


def forget_peak_memory() -> None:
    """Start measuring the peak anew, where the system can: a worker lives longer than a run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if platform.system() == "Linux" else peak / 1024**2


def versions() -> dict[str, str]:
    of_packages = {name: version(name) for name in VERSIONED}
    return {"spare-ml": spare.__version__, "python": platform.python_version()} | of_packages
