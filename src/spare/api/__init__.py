"""Python for everything the command line does."""

from spare.api.pages import compare, figure
from spare.api.results import Bench, Discovery, Run
from spare.api.verbs import bench, discover, load_run, train

__all__ = [
    "Bench",
    "Discovery",
    "Run",
    "bench",
    "compare",
    "discover",
    "figure",
    "load_run",
    "train",
]
