"""What people pass in, as NumPy arrays and plain numbers: the one place where it is checked.

Lists, arrays, data frames, Arrow arrays, and tensors of any kind and wherever they are. What cannot
be used as it is meant is refused with a reason, always as an InputError.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from spare.errors import InputError, reason, unknown
from spare.groups.points import Points
from spare.limits import Range
from spare.text import shown

#: The square of a larger number is infinite, or its sum with others is.
LARGEST = 1e100
#: The square of a smaller number is 0, so it counts as 0.
SMALLEST = 1e-100
#: Rows that are checked at once.
CHECKED_ROWS = 1 << 16


def as_numpy(values: Any, what: str = "values") -> np.ndarray:
    """What was passed as an array, in this machine's byte order.

    >>> import torch
    >>> as_numpy(torch.ones(2, requires_grad=True)), as_numpy([1, 2])
    (array([1., 1.], dtype=float32), array([1, 2]))
    """
    if _is_masked(values):
        raise InputError(
            f"{what} have masked entries: leave those examples out, or fill them in with filled()."
        )
    try:
        array = np.asarray(_on_cpu(values) if hasattr(values, "detach") else values)
    # Whatever a class of someone else raises where it cannot be read; NumPy itself, for lists of
    # different lengths, raises ValueError.
    except Exception as error:
        raise InputError(
            f"{what} cannot be read as an array ({reason(error)}): pass a list, a NumPy array or a "
            f"tensor with as many values in every row."
        ) from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _is_masked(values: Any) -> bool:
    parts = values if isinstance(values, list | tuple) else [values]
    return any(np.ma.is_masked(part) for part in parts if isinstance(part, np.ma.MaskedArray))


def _on_cpu(tensor: Any) -> np.ndarray:
    """A tensor's numbers; kinds that NumPy does not have become float32."""
    import torch

    here = tensor.detach().cpu()
    if here.layout != torch.strided:
        raise TypeError("the tensor is sparse; to_dense() makes it a plain one")
    if here.is_quantized:
        here = here.dequantize()
    try:
        return np.asarray(here.resolve_conj().resolve_neg().numpy())
    except TypeError:
        if not here.is_floating_point():
            raise
        return np.asarray(here.float().numpy())  # bfloat16, and floats of 8 bits


def checked_outputs(outputs: Any, what: str = "outputs") -> np.ndarray:
    """(n, d) float64 of one's own, checked as `checked_points` does."""
    return np.array(checked_points(outputs, what), dtype=np.float64)


def checked_points(
    outputs: Any, what: str = "outputs", numbers: np.ndarray | None = None
) -> np.ndarray:
    """(n, d) floats whose squares are finite, refused with the first rows that are not.

    What can be used as it is, is not copied: outputs may fill half of the memory.

    Parameters
    ----------
    numbers
        Of the rows, where these are only some of what was passed in.
    """
    points = as_numpy(outputs, what)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0:
        raise InputError(f"{what} must have shape (examples, values); got {points.shape}.")
    if points.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers; got {_kind(points)}.")
    if points.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # of a type with a wider range: refused below
            points = points.astype(np.float64)
    bad: list[int] = []
    largest, tiny = 0.0, False
    for start in range(0, len(points), CHECKED_ROWS):
        size = np.abs(points[start : start + CHECKED_ROWS])
        finite = np.isfinite(size).all(1)
        bad += (start + np.flatnonzero(~finite)).tolist()
        if not bad:
            largest = max(largest, float(size.max()))
            tiny = tiny or bool(((size < SMALLEST) & (size > 0)).any())
    if bad:
        named = bad[:5] if numbers is None else numbers[bad[:5]].tolist()
        listed = ", ".join(map(str, named)) + (", ..." if len(bad) > 5 else "")
        raise InputError(
            f"{len(bad)} of {len(points)} rows of {what} are NaN or infinite (rows {listed}): "
            f"check the model's training before clustering."
        )
    if largest > LARGEST:
        raise InputError(
            f"{what} are as large as {largest:.3g}, and distances are not finite beyond "
            f"{LARGEST:g}: divide them by a constant."
        )
    return np.where(np.abs(points) < SMALLEST, 0, points) if tiny else points


def integers(values: Any, what: str, length: int | None = None) -> np.ndarray:
    """Integers, one per example; anything else is refused with a reason, as `what`."""
    array = as_numpy(values, what)
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"{what} must be a non-empty list of integers; got shape {array.shape}.")
    _check_length(array, what, length)
    if array.dtype.kind not in "iub":
        raise InputError(f"{what} must be integers; got {_kind(array)}.")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{what} must be at most 2**63 - 1; one is {array.max()}.")
    return array.astype(np.int64)


def name_of(label: Any, class_names: Any) -> str:
    """What a class is called: its label, or its name where there are names."""
    try:
        name = label if class_names is None else class_names[label]
    except (LookupError, TypeError):
        name = None
    if not isinstance(name, str | int | np.integer):
        raise InputError(
            f"class_names needs a name for every class, and has none for {shown(label)}."
        )
    return str(name)


def class_numbers(labels: Any, length: int, classes: int) -> np.ndarray:
    """Labels that are columns of outputs: integers from 0 to classes - 1."""
    numbers = integers(labels, "labels", length)
    strange = np.flatnonzero((numbers < 0) | (numbers >= classes))
    if len(strange):
        row = int(strange[0])
        raise InputError(
            f"label of row {row} is {numbers[row]}: with {classes} outputs per example, labels "
            f"are from 0 to {classes - 1}."
        )
    return numbers


def class_labels(labels: Any, length: int | None = None, what: str = "labels") -> np.ndarray:
    """Labels as an array of integers or strings; anything else is refused with a reason.

    Text in bytes is decoded, and labels that would become one in an array are refused.
    """
    if isinstance(labels, list | tuple):
        _check_alike(labels)
    array = as_numpy(labels, what)
    if array.ndim != 1:
        raise InputError(
            f"{what} must be one per example; got an array of shape {array.shape} (for one-hot "
            f"labels, pass labels.argmax(1))."
        )
    _check_length(array, what, length)
    if array.dtype.kind == "f":
        raise InputError(
            f"{what} are floats: class labels are integers or strings (for whole numbers, pass "
            f"labels.astype(int))."
        )
    if array.dtype.kind in "OST":
        array = np.array([_text(row, value) for row, value in enumerate(array.tolist())], dtype=str)
    if array.dtype.kind not in "iubU":
        raise InputError(f"{what} of type {_kind(array)} cannot be class labels.")
    return array


def _check_length(array: np.ndarray, what: str, length: int | None) -> None:
    if length is not None and len(array) != length:
        raise InputError(f"lengths differ: {length} examples but {len(array)} {what}.")


def _check_alike(labels: Collection[Any]) -> None:
    """NumPy would turn 1 into "1", and drop the null characters that a label ends with."""
    is_text = {issubclass(kind, str | bytes) for kind in set(map(type, labels))}
    if len(is_text) > 1:
        row, other = next(
            (row, value) for row, value in enumerate(labels) if not isinstance(value, str | bytes)
        )
        raise InputError(f"label of row {row} is {shown(other)}, and others are text.")
    if True in is_text:
        for row, value in enumerate(labels):
            _text(row, value)


def _text(row: int, value: Any) -> str:
    """A label as text; bytes are taken to be UTF-8."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InputError(
                f"label of row {row} is {shown(value)}, bytes that are not UTF-8: decode the "
                f"labels first."
            ) from None
    if not isinstance(value, str):
        raise InputError(
            f"label of row {row} is {shown(value)}: class labels are integers or strings."
        )
    if value.endswith("\0"):
        raise InputError(
            f"label of row {row} is {shown(value)}: a label cannot end with a null character."
        )
    return value


def _kind(array: np.ndarray) -> str:
    return "records with fields" if array.dtype.names else str(array.dtype)


def number(name: str, value: Any, range_: Range) -> float:
    """A number of any library as a float, if it is in the range.

    >>> number("power", np.float32(1.5), Range(0))
    1.5
    """
    array = as_numpy(value, name)
    if array.ndim or array.dtype.kind not in "iuf":
        raise InputError(f"{name} is a number, not {shown(value)}.")
    range_.check(name, float(array))
    return float(array)


def one_of(kind: str, name: Any, known: Collection[str]) -> str:
    """The name, if it is known."""
    if not isinstance(name, str):
        raise unknown(kind, shown(name), known)
    if name not in known:
        raise unknown(kind, name, known)
    return name


def rows_by_class(labels: np.ndarray) -> dict[Any, np.ndarray]:
    """The rows of every class in ascending order, classes sorted, without a look at all for each.

    >>> {label: rows.tolist() for label, rows in rows_by_class(np.array([7, 3, 7])).items()}
    {3: [1], 7: [0, 2]}
    """
    if not len(labels):
        return {}
    classes, sizes = np.unique(labels, return_counts=True)
    codes = np.empty(len(labels), dtype=np.min_scalar_type(len(classes)))
    for start in range(0, len(labels), CHECKED_ROWS):
        part = slice(start, start + CHECKED_ROWS)
        codes[part] = np.searchsorted(classes, labels[part])
    order = np.argsort(codes, kind="stable")
    return dict(zip(classes.tolist(), np.split(order, np.cumsum(sizes)[:-1]), strict=True))


def distinct_rows(points: Points | np.ndarray, enough: int) -> int:
    """How many rows are distinct, counted no further than enough.

    >>> distinct_rows(np.array([[0.0], [1.0], [0.0], [2.0]]), enough=2)
    2
    """
    points = points if isinstance(points, Points) else Points(points)
    found = np.empty((0, points.width))
    for _, block in points.blocks():
        for part in (block[: 4 * enough], block[4 * enough :]):
            if len(found) < enough and len(part):
                # Adding 0 makes -0.0, which is the same number, 0.0.
                found = np.unique(np.concatenate([found, part + 0.0]), axis=0)[:enough]
        if len(found) == enough:
            break
    together = points.gather(found)
    return min(enough, len(np.unique(together, axis=0)))
