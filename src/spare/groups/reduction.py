"""GEORGE's features in few dimensions: scaled, then reduced class by class."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spare.errors import InputError, SpareWarning
from spare.groups.arrays import checked_outputs, one_of
from spare.groups.mixtures import PointMap

SCALINGS = ("standard", "unit")
REDUCTIONS = ("auto", "umap", "pca", "none", "boundary")
DIMENSIONS = 2
NEIGHBORS = 10


def available_reduction(reduction: str) -> str:
    """The reduction itself; for "auto", UMAP if it is installed, else PCA with a warning."""
    one_of("reduction", reduction, REDUCTIONS)
    if reduction not in ("auto", "umap"):
        return reduction
    try:
        import umap  # noqa: F401
    except ImportError as error:
        if reduction == "umap":
            raise InputError(
                "reduction='umap' needs umap-learn, which is not installed: "
                "pip install 'spare-ml[george]'."
            ) from error
        warnings.warn(
            "umap-learn is not installed, so features are reduced by PCA and not by UMAP as in "
            "GEORGE's paper: pip install 'spare-ml[george]', or choose reduction='pca'.",
            SpareWarning,
            stacklevel=3,
        )
        return "pca"
    return "umap"


def preparation(
    kind: str, scaling: str, points: np.ndarray, classes: list[Any], normal: Any
) -> PointMap:
    """What is done to features of every class alike: scale them, or project them."""
    one_of("scaling", scaling, SCALINGS)
    if kind == "boundary":
        direction = None if normal is None else checked_outputs(normal, "normal")
        if len(classes) > 2:
            raise InputError(
                f"reduction='boundary' is for two classes, and there are {len(classes)}: use "
                f"'umap' or 'pca'."
            )
        if direction is None or direction.shape != (points.shape[1], 1) or not direction.any():
            raise InputError(
                f"reduction='boundary' needs the boundary's normal, {points.shape[1]} numbers that "
                f"are not all 0."
            )
        unit = direction[:, 0] / np.linalg.norm(direction)
        return lambda features: (features @ unit)[:, None]
    if scaling == "unit":
        return _directions
    mean, spread = points.mean(0), points.std(0)
    spread[spread == 0] = 1.0
    return lambda features: (features - mean) / spread


def _directions(features: np.ndarray) -> np.ndarray:
    """Each example's features scaled to length 1; zeros stay zeros."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(length > 0, length, 1.0)


def reduced(features: np.ndarray, kind: str, seed: int) -> tuple[np.ndarray, PointMap]:
    """The features of one class in few dimensions, and the function that does it to others."""
    if kind == "umap" and len(features) <= 3 * NEIGHBORS:
        kind = "pca"  # too few to have neighborhoods
    if kind == "umap":
        import umap

        # A fixed random_state needs n_jobs=1, and umap warns where it is left out.
        fitted = umap.UMAP(
            n_components=DIMENSIONS,
            n_neighbors=NEIGHBORS,
            min_dist=0.0,
            random_state=seed,
            n_jobs=1,
        )
        points = np.asarray(fitted.fit_transform(features), dtype=np.float64)
        reduce = fitted.transform
    else:
        directions = np.eye(features.shape[1])
        if kind == "pca" and features.shape[1] > DIMENSIONS:
            directions = np.linalg.eigh(np.cov(features.T))[1][:, -DIMENSIONS:]
        points = features @ directions

        def reduce(features: np.ndarray) -> np.ndarray:
            return features @ directions

    # One scale for all directions changes no clustering, but a mixture adds 1e-6 to variances.
    center = points.mean(0)
    scale = np.sqrt(((points - center) ** 2).mean())
    return (
        (points - center) / scale,
        lambda features: (np.asarray(reduce(features), dtype=np.float64) - center) / scale,
    )
