"""The network that a name stands for: one of ours, of torchvision, of timm, or a user's function.

Names are checked when the builder is made, before anything is trained.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spare.errors import DataError, InputError, reason, unknown
from spare.imports import current_folder_importable, import_object
from spare.models.classifier import Classifier, Shape, build
from spare.models.heads import as_classifier, head_path
from spare.models.small import OF_FEATURES, OF_IMAGES
from spare.models.stored_weights import load_weights, weights_file

TIMM_EXTRA = "pip install 'spare-ml[timm]'"


@dataclass(frozen=True)
class ModelChoice:
    """Which network is trained, and from which weights."""

    #: lenet5, small_cnn, conv4, mlp, linear; a name of torchvision or timm; or
    #: package.module:function.
    model: str = ""
    #: Path of the last linear layer within the network (such as classifier.3); empty: it is found.
    head: str = ""
    #: imagenet, none (from scratch), or a .safetensors, .pt or .pth file; models of ours have no
    #: ImageNet weights and start from scratch, and a user's function decides for itself.
    weights: str = "imagenet"
    #: Train the head alone, on features computed once.
    frozen: bool = False


def builder(choice: ModelChoice, classes: int, shape: Shape) -> Callable[[], Classifier]:
    """What makes the chosen model; a name that does not exist is an error at once.

    shape   of one example's input: (d,) for features, (channels, height, width) for images.
    """
    name, file = choice.model, weights_file(choice.weights)
    imagenet = choice.weights == "imagenet"
    ours = name in OF_IMAGES or name in OF_FEATURES
    of_user = ":" in name and not name.startswith("timm:")
    if ours:
        make: Callable[[], nn.Module] = partial(_ours, name, classes, shape)
        build(make, (0,))  # costs nothing, and says now that the shape does not fit
        if choice.head not in ("", "head"):
            raise unknown(f"linear layer of {name}", choice.head, ["head"])
    elif of_user:
        make = partial(_call, name, import_object("model", name, callable), classes)
    elif name in torchvision_names():
        make = partial(_of_torchvision, name, imagenet)
        _need_images(name, shape)
        if shape[0] != 3:
            raise InputError(
                f"torchvision's {name} takes images of 3 channels, and these have {shape[0]}: use "
                f"lenet5, small_cnn, or timm's models (timm:NAME), which adapt."
            )
    else:
        make = partial(_of_timm, _timm_name(name, imagenet), imagenet, classes, shape)
        _need_images(name, shape)

    def classifier() -> Classifier:
        network = make()
        if file is not None:
            head = "head" if ours else head_path(network, shape, choice.head)
            load_weights(network, file, head)
        if ours:
            assert isinstance(network, Classifier)
            return network
        return as_classifier(network, classes, shape, choice.head, fresh_head=not of_user)

    return classifier


def _ours(name: str, classes: int, shape: Shape) -> Classifier:
    if name in OF_IMAGES:
        _need_images(name, shape)
        return OF_IMAGES[name](classes, channels=shape[0], size=(shape[1], shape[2]))
    if len(shape) != 1:
        raise InputError(
            f"{name} takes features, and these inputs have the shape {shape}: name an image model "
            f"such as resnet18, with frozen=true to train only a linear layer on its features."
        )
    return OF_FEATURES[name](classes, inputs=shape[0])


def _need_images(name: str, shape: Shape) -> None:
    if len(shape) != 3:
        raise InputError(
            f"{name} takes images (channels, height, width), and these inputs have the shape "
            f"{shape}: use mlp or linear for features."
        )


# Networks of others


def torchvision_names() -> list[str]:
    """The classification models of torchvision."""
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)


def _of_torchvision(name: str, imagenet: bool) -> nn.Module:
    from torchvision.models import get_model, get_model_weights

    if not imagenet:
        # Two have auxiliary heads, which nothing here trains, and warn unless told how to start.
        with_aux = name in ("googlenet", "inception_v3")
        options = {"aux_logits": False, "init_weights": True} if with_aux else {}
        return get_model(name, weights=None, **options)
    known = get_model_weights(name)
    # The first version is what papers used; a few names have only a later one.
    weights = known.__members__.get("IMAGENET1K_V1", known.DEFAULT)
    file = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    try:
        # Fetched to a temporary name and checked before it is renamed; and read once with tensors
        # alone allowed, because torchvision's own reading would run a pickle's code.
        with contextlib.redirect_stdout(sys.stderr):  # where it announces a download
            weights.get_state_dict(progress=sys.stderr.isatty(), check_hash=True, weights_only=True)
    except Exception as error:  # no network, no room, another hash, a damaged file
        if file.is_file():
            raise DataError(
                f"{file} cannot be read as the weights {weights!r}: delete it, and it is fetched "
                f"again."
            ) from error
        raise _not_fetched(f"{weights!r} ({weights.url})", f"at {file}", error) from error
    network = get_model(name, weights=weights)
    if name == "inception_v3":  # its ImageNet weights bring the auxiliary head
        network.aux_logits = False
        network.AuxLogits = None
    return network


def _timm_name(name: str, imagenet: bool) -> str:
    """The name as timm has it, checked."""
    asked = name.removeprefix("timm:")
    try:
        import timm
    except ImportError:
        if asked != name:
            raise InputError(f"model {name!r} needs timm: {TIMM_EXTRA}.") from None
        error = unknown("model", name, _known_names())
        raise InputError(f"{error} (names that only timm knows need {TIMM_EXTRA})") from None
    architecture, _, tag = asked.partition(".")
    if not timm.is_model(architecture):
        if asked == name:
            raise unknown("model", name, _known_names())
        near = difflib.get_close_matches(asked, timm.list_models(), n=1)
        hint = f"did you mean 'timm:{near[0]}'?" if near else "timm.list_models() gives the names."
        raise InputError(f"unknown model {name!r}: {hint}")
    tags = [full.partition(".")[2] for full in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise unknown(f"weights of timm's {architecture}", tag, tags)
    if imagenet and not timm.models.is_model_pretrained(asked):
        raise InputError(
            f"timm has no pretrained weights for {asked!r}: train it from scratch with "
            f"--set weights=none."
        )
    return asked


def _of_timm(name: str, pretrained: bool, classes: int, shape: Shape) -> nn.Module:
    import timm

    make = partial(timm.create_model, name, num_classes=classes, in_chans=shape[0])
    if not pretrained:
        return make(pretrained=False)
    try:
        return make(pretrained=True)
    except Exception as error:  # the Hugging Face client's errors have no base that we could name
        known = timm.models.get_pretrained_cfg(name)
        source = known.hf_hub_id if known is not None else name
        raise _not_fetched(
            f"{source} of timm", "in Hugging Face's cache (below HF_HOME)", error
        ) from error


def _known_names() -> list[str]:
    return [*OF_IMAGES, *OF_FEATURES, *torchvision_names()]


def _not_fetched(weights: str, place: str, error: Exception) -> DataError:
    return DataError(
        f"the weights {weights} could not be fetched ({reason(error)}): go online once, put the "
        f"file {place}, or train from scratch with --set weights=none."
    )


def _call(name: str, function: Callable[..., Any], classes: int) -> nn.Module:
    try:
        with current_folder_importable():
            network = _with_classes(function, classes)()
    except Exception as error:  # whatever the user's function raises
        raise InputError(
            f"model {name!r}: the function raised {type(error).__name__}: {reason(error)}."
        ) from error
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {name!r}: the function returned a {type(network).__name__}, not an nn.Module."
        )
    return network


def _with_classes(function: Callable[..., Any], classes: int) -> Callable[[], Any]:
    """Give the number of classes by name, or to a first argument that must be given."""
    parameters = inspect.signature(function).parameters
    for name in ("classes", "num_classes"):
        if name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
            return partial(function, **{name: classes})
    first = next(iter(parameters.values()), None)
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if first is not None and first.kind in by_place and first.default is first.empty:
        return partial(function, classes)
    return function
