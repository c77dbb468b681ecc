"""Someone's own embeddings or outputs: .npy, .npz, .safetensors, .csv, .tsv or .parquet.

Embeddings are the inputs of a head that is trained in seconds. A file with exactly one column per
class is taken to hold a model's outputs (probabilities or logits), which `spare discover` clusters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.datasets.columns import FeatureColumns, as_column, task_of_columns
from spare.datasets.splits import Shares
from spare.datasets.tables import read_table
from spare.errors import DataError, InputError
from spare.progress import SILENT, Progress


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    shares: Shares,
    columns: FeatureColumns,
    encoding: str = "utf8",
) -> Task:
    """The task of one file of numbers."""
    return task_of_columns(read_columns(data, columns.label, encoding), data.name, columns, shares)


def read_columns(path: Path, label: str, encoding: str) -> dict[str, Any]:
    """Every array or column of a file, by name.

    Of a .npy file, which holds one array, `label` is the path of a second one with the labels.
    """
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
    return {name: as_column(values) for name, values in arrays.items()}
