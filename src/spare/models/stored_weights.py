"""Weights from a file: a plain state dict, or the weights of a run folder; never code."""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from spare.errors import DataError, InputError
from spare.limits import ARRAY
from spare.models.classifier import Classifier
from spare.records.weights_file import selected_weights


def weights_file(weights: str) -> Path | None:
    """The file that a setting names, if it names one."""
    if weights in ("imagenet", "none"):
        return None
    file = Path(weights).expanduser()
    if file.suffix not in (".safetensors", ".pt", ".pth"):
        raise InputError(
            f"weights is imagenet, none, or the path of a .safetensors, .pt or .pth file, not "
            f"{weights!r}."
        )
    if not file.is_file():
        raise DataError(f"there is no weights file {file}.")
    return file


def load_weights(network: nn.Module, file: Path, head: str) -> None:
    """Load a state dict; only the head (a module's path) may be missing or of another shape."""
    expected = network.state_dict()
    head_names = {f"{head}.{part}".lstrip(".") for part in ("weight", "bias")}
    state = {
        name: tensor
        for name, tensor in _bare_names(_read_state(file), network, head).items()
        if name not in head_names or (name in expected and tensor.shape == expected[name].shape)
    }
    # Files older than batch norm's counter do not have it.
    optional = head_names | {name for name in expected if name.endswith("num_batches_tracked")}
    wrong = {
        "missing": [name for name in expected if name not in state and name not in optional],
        "unknown": [name for name in state if name not in expected],
        "of another shape": [
            name for name in state if name in expected and state[name].shape != expected[name].shape
        ],
    }
    if any(wrong.values()):
        listed = "; ".join(
            f"{what}: {', '.join(names[:3])}" + (f" and {len(names) - 3} more" * (len(names) > 3))
            for what, names in wrong.items()
            if names
        )
        raise DataError(f"{file} does not fit {type(network).__name__} ({listed}).")
    network.load_state_dict(state, strict=False)


def _read_state(file: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    refusal = DataError(
        f"{file} is damaged, or not a plain state dict: write it with "
        f"torch.save(model.state_dict(), ...) or as .safetensors, because files that hold more "
        f"than tensors are not opened."
    )
    ARRAY.check(_size_in_memory(file), str(file))
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever its bytes lead to
        raise refusal from error
    plain = isinstance(loaded, dict) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in loaded.items()
    )
    if not plain:
        raise refusal
    state: dict[str, Tensor] = loaded
    return state


def _size_in_memory(file: Path) -> int:
    """At most: a file of torch's is an archive, whose parts may have been compressed."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return sum(part.file_size for part in archive.infolist())
        return file.stat().st_size
    except Exception:  # a damaged archive, which reading it then refuses
        return 0


def _bare_names(state: dict[str, Tensor], network: nn.Module, head: str) -> dict[str, Tensor]:
    """The selected weights of a run folder, by their names in the network itself."""
    selected = selected_weights(state)
    if selected is None:
        return state
    if isinstance(network, Classifier):
        return selected
    return {
        (f"{head}.{name[5:]}" if name.startswith("head.") else name.removeprefix("features.")): t
        for name, t in selected.items()
    }
