"""Weights from a file: a plain state dict, or what a run folder keeps; never code."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from spare.errors import DataError, InputError
from spare.models.classifier import Classifier


def weights_file(weights: str) -> Path | None:
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
    wanted = network.state_dict()
    of_head = {f"{head}.{part}".lstrip(".") for part in ("weight", "bias")}
    state = {
        name: tensor
        for name, tensor in _bare_names(_read_state(file), network, head).items()
        if name not in of_head or (name in wanted and tensor.shape == wanted[name].shape)
    }
    # Files older than this counter of batch norm do without it.
    optional = of_head | {name for name in wanted if name.endswith("num_batches_tracked")}
    wrong = {
        "missing": [name for name in wanted if name not in state and name not in optional],
        "unknown": [name for name in state if name not in wanted],
        "of another shape": [
            name for name in state if name in wanted and state[name].shape != wanted[name].shape
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
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever its bytes lead to
        raise refusal from error
    plain = isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()
    )
    if not plain:
        raise refusal
    return found


def _bare_names(state: dict[str, Tensor], network: nn.Module, head: str) -> dict[str, Tensor]:
    """The selected weights of a run folder, by the names they have in the network itself."""
    prefix = "selected/"
    if not any(name.startswith(prefix) for name in state):
        return state
    state = {name[len(prefix) :]: t for name, t in state.items() if name.startswith(prefix)}
    if isinstance(network, Classifier):
        return state
    return {
        (f"{head}.{name[5:]}" if name.startswith("head.") else name.removeprefix("features.")): t
        for name, t in state.items()
    }
