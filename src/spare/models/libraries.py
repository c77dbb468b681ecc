"""Networks of torchvision and of timm (an extra), from scratch or with their ImageNet weights."""

from __future__ import annotations

import contextlib
import difflib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spare.errors import DataError, InputError, reason, unknown
from spare.models.classifier import Shape
from spare.models.small import OF_FEATURES, OF_IMAGES

TIMM_EXTRA = "pip install 'spare-ml[timm]'"


def torchvision_names() -> list[str]:
    """The classification models of torchvision."""
    import torchvision

    names: list[str] = torchvision.models.list_models(module=torchvision.models)
    return names


def of_torchvision(name: str, imagenet: bool) -> nn.Module:
    """A network of torchvision; its weights are fetched if they are not there yet."""
    from torchvision.models import get_model, get_model_weights

    if not imagenet:
        # Two have auxiliary heads, which nothing here trains, and warn unless told how to begin.
        with_aux = name in ("googlenet", "inception_v3")
        options = {"aux_logits": False, "init_weights": True} if with_aux else {}
        fresh: nn.Module = get_model(name, weights=None, **options)
        return fresh
    versions = get_model_weights(name)
    # The first version is what papers used; a few names have only a later one.
    weights = versions.__members__.get("IMAGENET1K_V1", versions.DEFAULT)
    file = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    try:
        # Downloaded under a temporary name, checked and renamed; and read once with only tensors
        # allowed, because torchvision's own reading would run the code of a pickle.
        with contextlib.redirect_stdout(sys.stderr):  # where it announces a download
            weights.get_state_dict(progress=sys.stderr.isatty(), check_hash=True, weights_only=True)
    except Exception as error:  # no network, no room, another hash, a damaged file
        if file.is_file():
            raise DataError(
                f"{file} cannot be read as the weights {weights!r}: delete it to have it "
                f"fetched again."
            ) from error
        raise _not_fetched(f"{weights!r} ({weights.url})", f"at {file}", error) from error
    network: Any = get_model(name, weights=weights)
    if name == "inception_v3":  # its ImageNet weights bring the auxiliary head
        network.aux_logits = False
        network.AuxLogits = None
    assert isinstance(network, nn.Module)
    return network


def checked_timm_name(name: str, imagenet: bool) -> str:
    """The name that timm knows the model by, checked."""
    timm_name = name.removeprefix("timm:")
    try:
        import timm
    except ImportError:
        if timm_name != name:
            raise InputError(f"model {name!r} needs timm: {TIMM_EXTRA}.") from None
        error = unknown("model", name, _known_names())
        raise InputError(f"{error} (names that only timm knows need {TIMM_EXTRA})") from None
    architecture, _, tag = timm_name.partition(".")
    if not timm.is_model(architecture):
        if timm_name == name:
            raise unknown("model", name, _known_names())
        near = difflib.get_close_matches(timm_name, timm.list_models(), n=1)
        hint = f"did you mean 'timm:{near[0]}'?" if near else "timm.list_models() gives the names."
        raise InputError(f"unknown model {name!r}: {hint}")
    tags = [full.partition(".")[2] for full in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise unknown(f"weights of timm's {architecture}", tag, tags)
    if imagenet and not timm.models.is_model_pretrained(timm_name):
        raise InputError(
            f"timm has no pretrained weights for {timm_name!r}: train it from scratch with "
            f"--set weights=none."
        )
    return timm_name


def of_timm(name: str, pretrained: bool, classes: int, shape: Shape) -> nn.Module:
    """A network of timm for images of this shape; its weights are fetched likewise."""
    import timm

    make = partial(timm.create_model, name, num_classes=classes, in_chans=shape[0])
    if not pretrained:
        return make(pretrained=False)
    try:
        return make(pretrained=True)
    except Exception as error:  # the errors of the Hugging Face client have no common base
        config = timm.models.get_pretrained_cfg(name)
        source = config.hf_hub_id if config is not None else name
        raise _not_fetched(
            f"{source} of timm", "in Hugging Face's cache (below HF_HOME)", error
        ) from error


def _known_names() -> list[str]:
    return [*OF_IMAGES, *OF_FEATURES, *torchvision_names()]


def _not_fetched(weights: str, destination: str, error: Exception) -> DataError:
    return DataError(
        f"the weights {weights} could not be fetched ({reason(error)}): go online once, put the "
        f"file {destination}, or train from scratch with --set weights=none."
    )
