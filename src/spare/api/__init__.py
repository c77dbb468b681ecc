"""Python for everything the command line does."""

from spare.api.clusters import cluster_file, fits_in_memory
from spare.api.pages import compare, figure
from spare.api.results import Bench, Discovery, Run
from spare.api.verbs import bench, discover, load_run, train

__all__ = [
    "Bench",
    "Discovery",
    "Run",
    "bench",
    "cluster_file",
    "compare",
    "discover",
    "figure",
    "fits_in_memory",
    "load_run",
    "train",
]
