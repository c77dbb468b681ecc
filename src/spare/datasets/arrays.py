"""Someone's own embeddings or outputs: .npy, .npz, .safetensors, .csv, .tsv or .parquet.

Embeddings are inputs of a head that is trained in seconds. A file with just one column a class is
taken to be a model's outputs (probabilities or logits), and `spare discover` clusters those.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Split, Task
from spare.datasets.image_files import check_classes
from spare.datasets.manifest import LABEL_COLUMNS, SPLIT_COLUMNS
from spare.datasets.splits import Shares, as_numbers, complete
from spare.datasets.tables import MISSING, encode_column, labels_of, read_table
from spare.errors import DataError, InputError, SpareWarning, unknown

TREAT_AS = ("auto", "outputs", "embeddings")
NAME_COLUMNS = ("id", "name", "img_filename", "filename", "path")


def load(
    data: Path,
    seed: int,
    *,
    shares: Shares,
    label: str = "",
    split: str = "",
    attributes: tuple[str, ...] = (),
    features: tuple[str, ...] = (),
    treat_as: str = "auto",
    standardize: bool = True,
    encoding: str = "utf8",
) -> Task:
    """The task of one file of numbers.

    label, split, attributes   arrays or columns; empty for the usual names (attributes: none).
                               The label of a .npy file is the path of a second .npy file.
    features                   the array, or the columns, to learn from; empty for the one
                               two-dimensional array, or all other columns of numbers
    treat_as                   outputs, embeddings, or auto: outputs if there are just as many
                               columns as classes
    standardize                embeddings to mean 0 and deviation 1, by the training split's
    """
    import torch

    from spare.data.inputs import TensorInputs

    if treat_as not in TREAT_AS:
        raise unknown("treat_as", treat_as, TREAT_AS)
    found = _read(data, label, encoding)
    label = _named(found, label, LABEL_COLUMNS, "label", data)
    labels, class_names = labels_of(found[label], label, data)
    split = split or next((name for name in SPLIT_COLUMNS if name in found), "")
    given = None
    if split:
        codes, words = labels_of(_column(found, split, data), split, data)
        given = as_numbers(words, f"{split!r} of {data.name}")[codes]
    encoded = {name: encode_column(_column(found, name, data), MISSING) for name in attributes}
    points = _features(found, features, {label, split, *attributes}, data)
    splits = complete(given, labels, shares)
    check_classes(labels, splits, class_names)
    outputs = treat_as == "outputs" or (treat_as == "auto" and points.shape[1] == len(class_names))
    if standardize and not outputs:
        points = _standardized(points, splits == 0)
    tensor = torch.from_numpy(points)
    ids = next((name for name in NAME_COLUMNS if name in found and name not in features), None)
    called = None if ids is None else [str(value) for value in found[ids].to_pylist()]

    def part(number: int) -> Split | None:
        rows = np.flatnonzero(splits == number)
        if not len(rows):
            return None
        own = {name: codes[rows] for name, (codes, _) in encoded.items()}
        return Split(TensorInputs(tensor[torch.from_numpy(rows)]), labels[rows], own or None)

    train = part(0)
    assert train is not None
    return Task(
        name=data.name,
        train=train,
        val=part(1),
        test=part(2),
        class_names=class_names,
        attribute_values={name: values for name, (_, values) in encoded.items()},
        names={
            name: [f"row {i}" if called is None else called[i] for i in np.flatnonzero(splits == n)]
            for n, name in enumerate(("train", "val", "test"))
            if (splits == n).any()
        },
        holds_outputs=outputs,
    )


def _read(path: Path, label: str, encoding: str) -> dict[str, Any]:
    """Every array or column by name, as pyarrow arrays (a two-dimensional one as it is)."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".parquet"):
        table = read_table(path, encoding)
        return {name: table[name].combine_chunks() for name in table.column_names}
    try:
        if suffix == ".npy":
            arrays: dict[str, np.ndarray] = {"features": np.load(path, allow_pickle=False)}
            if not label:
                raise InputError(
                    f"{path.name} holds one array: name a second .npy file with its labels, as "
                    f"--label labels.npy."
                )
            second = next((p for p in (path.parent / label, Path(label)) if p.is_file()), None)
            if second is None:
                raise DataError(f"there is no file {label} with the labels of {path.name}.")
            arrays[label] = np.load(second, allow_pickle=False)
        elif suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        else:
            from safetensors.numpy import load_file

            arrays = load_file(path)
    except (InputError, DataError):
        raise
    except Exception as error:  # each reader has errors of its own
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read: {reason or type(error).__name__}.") from error
    return {name: _as_column(values) for name, values in arrays.items()}


def _as_column(values: np.ndarray) -> Any:
    import pyarrow as pa

    if values.ndim != 1:
        return values
    return pa.array(values.tolist() if values.dtype.kind in "SUO" else values)


def _named(
    found: Mapping[str, Any], name: str, usual: tuple[str, ...], what: str, path: Path
) -> str:
    if name:
        _column(found, name, path)
        return name
    known = next((word for word in usual if word in found), None)
    if known is None:
        raise InputError(
            f"{path.name} has nothing called {usual[0]!r}: name it with --{what} (there are "
            f"{', '.join(list(found)[:12])})."
        )
    return known


def _column(found: Mapping[str, Any], name: str, path: Path) -> Any:
    if name not in found:
        raise unknown(f"column of {path.name}", name, found)
    if isinstance(found[name], np.ndarray):
        raise InputError(
            f"{name!r} of {path.name} has the shape {found[name].shape}: one value an example is "
            f"needed."
        )
    return found[name]


def _features(
    found: Mapping[str, Any], names: tuple[str, ...], taken: set[str], path: Path
) -> np.ndarray:
    """The numbers to learn from as one (n, d) array of float32."""
    for name in names:
        if name not in found:
            raise unknown(f"column of {path.name}", name, found)
    candidates = {name: found[name] for name in (names or found) if name not in taken}
    blocks = {name: _block(values) for name, values in candidates.items()}
    wide = [name for name, block in blocks.items() if block is not None and block.shape[1] > 1]
    if not names and wide:  # arrays of vectors beside single columns: the vectors are meant
        if len(wide) > 1:
            raise InputError(
                f"{path.name} has more than one array of vectors ({', '.join(wide)}): name the one "
                f"to use with --set features={wide[0]}."
            )
        chosen = [blocks[wide[0]]]
    else:
        left = [name for name, block in blocks.items() if block is None]
        if names and left:
            raise InputError(f"column {left[0]!r} of {path.name} holds no numbers.")
        left_numbers = [name for name in left if name not in NAME_COLUMNS]
        if left_numbers:
            warnings.warn(
                f"{path.name}: columns without numbers are not used as features: "
                f"{', '.join(left_numbers[:5])}.",
                SpareWarning,
                stacklevel=3,
            )
        skipped = {"id"} if not names else set()
        chosen = [b for name, b in blocks.items() if b is not None and name not in skipped]
    if not chosen:
        raise InputError(f"{path.name} has no columns of numbers besides {', '.join(taken)}.")
    points = np.concatenate([block for block in chosen if block is not None], axis=1)
    strange = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(strange):
        raise DataError(
            f"{path.name} has {len(strange):,} rows with a missing or infinite number (the first "
            f"is row {strange[0]}, counted from 0): mend or remove them."
        )
    lengths = {len(points)} | {len(found[name]) for name in taken if name}
    if len(lengths) > 1:
        raise DataError(
            f"{path.name}: features and labels differ in length ({', '.join(map(str, lengths))})."
        )
    return points


def _block(values: Any) -> np.ndarray | None:
    """A column as (n, 1), vectors as (n, d); None for what is not numbers."""
    if isinstance(values, np.ndarray):
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            return None
        return values.astype(np.float32)
    import pyarrow as pa

    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return values.to_numpy(zero_copy_only=False).astype(np.float32)[:, None]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = values.to_pylist()
        widths = {len(row) if row is not None else 0 for row in rows}
        if len(widths) != 1 or not isinstance(rows[0][0] if rows[0] else None, int | float):
            return None
        return np.array(rows, dtype=np.float32)
    return None


def _standardized(points: np.ndarray, train: np.ndarray) -> np.ndarray:
    mean = points[train].mean(axis=0, dtype=np.float64)
    deviation = points[train].std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0  # a constant column says nothing, and becomes 0
    return ((points - mean) / deviation).astype(np.float32)
