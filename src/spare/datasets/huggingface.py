"""Images from Hugging Face `datasets` (an extra): hf:NAME, hf:NAME:CONFIG, or a saved folder.

The image column is the one of that type, the label column that of class labels; both can be named.
Images are decoded by this package's own decoder, and no code of a data set is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spare.data.task import Task
from spare.datasets.image_task import image_task
from spare.datasets.listing import Listing
from spare.datasets.preparation import Preparation
from spare.datasets.splits import SPLIT_NUMBER, Shares, complete_splits
from spare.datasets.values import as_array, as_column
from spare.datasets.words import FIRST_ROW, MISSING, encode_column
from spare.errors import DataError, InputError, unknown
from spare.images.decoded import read_image
from spare.progress import SILENT, Progress


def load(
    data: Path,
    seed: int,
    progress: Progress = SILENT,
    *,
    preparation: Preparation,
    shares: Shares,
    path: str = "",
    label: str = "",
    attributes: tuple[str, ...] = (),
) -> Task:
    """The task of a Hugging Face data set.

    Parameters
    ----------
    data : Path
        A saved folder, or the name on the hub with its configuration, as NAME:CONFIG.
    seed : int
        Not used: the task is the same for every seed.
    progress : Progress
        Told of the images that are decoded.
    preparation : Preparation
        How an image becomes a network's input.
    shares : Shares
        How the examples are divided if there is only one split.
    path, label : str
        The columns of the image and of the class; empty for those of these types.
    attributes : tuple of str
        Columns that are used only for scores.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "Hugging Face data sets need an extra: pip install 'spare-ml[huggingface]'."
        ) from error
    parts = _splits(datasets, data)
    first = next(iter(parts.values()))
    path = path or _column_of(first, datasets.Image, "image", "path")
    label = label or _column_of(first, datasets.ClassLabel, "label", "label")
    for name in (path, label, *attributes):
        if name not in first.column_names:
            raise unknown(f"column of {data}", name, first.column_names)
    images = [part.cast_column(path, datasets.Image(decode=False)) for part in parts.values()]
    offsets = np.cumsum([0, *(len(part) for part in images)])
    splits = np.concatenate(
        [np.full(len(part), SPLIT_NUMBER[name]) for name, part in parts.items()]
    ).astype(np.int64)
    labels, class_names = _labels(parts, label, data)
    encoded = {
        name: encode_column(_column(parts, name, data), name, str(data), MISSING)
        for name in attributes
    }

    def read(i: int) -> bytes:
        part = int(np.searchsorted(offsets, i, side="right")) - 1
        image = images[part][int(i - offsets[part])][path]
        content = image["bytes"]
        return content if content is not None else read_image(Path(image["path"]))

    listing = Listing(
        root=data,
        names=[f"{name}[{i}]" for name, part in parts.items() for i in range(len(part))],
        labels=labels,
        splits=complete_splits(splits if len(parts) > 1 else None, labels, shares),
        class_names=class_names,
        attributes={name: codes for name, (codes, _) in encoded.items()},
        attribute_values={name: values for name, (_, values) in encoded.items()},
    )
    content = "-".join(part._fingerprint for part in parts.values())
    return image_task(
        data.name, listing, preparation, read=read, fingerprint=content, progress=progress
    )


def _splits(datasets: Any, data: Path) -> dict[str, Any]:
    """The splits by name; one that is not called train, val or test is an error."""
    try:
        if data.is_dir():
            loaded = datasets.load_from_disk(str(data))
        else:
            name, _, config = str(data).partition(":")
            loaded = datasets.load_dataset(name, config or None, trust_remote_code=False)
    except Exception as error:  # the library and its back ends have many
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"the Hugging Face data set {data} cannot be loaded: {reason}.") from error
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    for name in parts:
        if name.lower() not in SPLIT_NUMBER:
            raise DataError(
                f"{data} has a split called {name!r}: only train, validation and test are used."
            )
    return {name.lower(): part for name, part in parts.items()}


def _column_of(part: Any, kind: type, usual: str, option: str) -> str:
    names = [name for name, feature in part.features.items() if isinstance(feature, kind)]
    if len(names) == 1:
        return str(names[0])
    if usual in part.column_names:
        return usual
    raise InputError(
        f"it is not clear which column is the {usual}: name it with --{option} (there are "
        f"{', '.join(part.column_names[:12])})."
    )


def _labels(parts: dict[str, Any], label: str, data: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    values = [value for part in parts.values() for value in part[label]]
    missing = [i for i, value in enumerate(values) if value is None or value == -1]
    if missing:
        rows = ", ".join(str(i + FIRST_ROW) for i in missing[:5])
        raise DataError(f"{data} has no label in {len(missing):,} rows ({rows}): remove them.")
    names = getattr(next(iter(parts.values())).features[label], "names", None)
    if names:
        return np.array(values, dtype=np.int64), tuple(names)
    return encode_column(_column(parts, label, data), label, str(data))


def _column(parts: dict[str, Any], name: str, data: Path) -> Any:
    values = as_array([value for part in parts.values() for value in part[name]])
    if values.ndim != 1:
        raise InputError(
            f"column {name!r} of {data} has more than one value in each row: one is needed."
        )
    return as_column(values, name, str(data))
