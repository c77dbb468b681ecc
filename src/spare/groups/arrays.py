"""What people pass in, as NumPy arrays: converted, and refused with a reason where unusable."""

from __future__ import annotations

from typing import Any

import numpy as np

from spare.errors import InputError

#: Rows that are looked at first when distinct ones are counted.
FIRST_ROWS = 10_000


def as_numpy(values: Any, dtype: Any = None) -> np.ndarray:
    """Lists, arrays, or tensors wherever they are and with or without gradients.

    >>> import torch
    >>> as_numpy(torch.ones(2, requires_grad=True)), as_numpy([1, 2], float)
    (array([1., 1.], dtype=float32), array([1., 2.]))
    """
    if hasattr(values, "detach"):
        import torch

        tensor = values.detach().cpu()
        # NumPy has no bfloat16.
        values = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return np.asarray(values, dtype=dtype)


def checked_outputs(outputs: Any) -> np.ndarray:
    """(n, d) float64, refused with the first offending rows when a value is not finite."""
    points = as_numpy(outputs)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0:
        raise InputError(f"outputs must have shape (examples, values); got {points.shape}.")
    if points.dtype.kind not in "fiub":
        raise InputError(f"outputs must be numbers; got {points.dtype}.")
    points = points.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(points).all(1))
    if len(bad):
        listed = ", ".join(map(str, bad[:5].tolist())) + (", ..." if len(bad) > 5 else "")
        raise InputError(
            f"{len(bad)} of {len(points)} output rows are NaN or infinite (rows {listed}): "
            f"check the model's training before clustering."
        )
    return points


def integers(values: Any, what: str) -> np.ndarray:
    """Integers, one per example; anything else is refused with a reason, as `what`."""
    array = as_numpy(values)
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"{what} must be a non-empty list of integers; got shape {array.shape}.")
    if not (np.issubdtype(array.dtype, np.integer) or array.dtype == bool):
        raise InputError(f"{what} must be integers; got {array.dtype}.")
    return array.astype(np.int64)


def class_labels(labels: Any, length: int | None = None) -> np.ndarray:
    """Labels as an array of integers or strings; anything else is refused with a reason."""
    array = as_numpy(labels)
    if array.ndim != 1:
        raise InputError(f"labels must be one per example; got an array of shape {array.shape}.")
    if length is not None and len(array) != length:
        raise InputError(f"lengths differ: {length} examples but {len(array)} labels.")
    if array.dtype.kind == "f":
        raise InputError(
            "labels are floats: class labels are integers or strings (for whole numbers, pass "
            "labels.astype(int))."
        )
    if array.dtype.kind == "O":
        strange = [i for i, v in enumerate(array.tolist()) if not isinstance(v, str)]
        if strange:
            raise InputError(
                f"label of row {strange[0]} is {array[strange[0]]!r}: class labels are integers "
                f"or strings."
            )
        array = array.astype(str)
    if array.dtype.kind not in "iubU":
        raise InputError(f"labels of type {array.dtype} cannot be class labels.")
    return array


def distinct_rows(points: np.ndarray, enough: int) -> int:
    """How many rows are distinct, looking no further than is needed to have enough.

    >>> distinct_rows(np.array([[0.0], [1.0], [0.0]]), enough=5)
    2
    """
    for limit in (FIRST_ROWS, len(points)):
        count = len(np.unique(points[:limit], axis=0))
        if count >= enough or limit >= len(points):
            break
    return count
