"""The network that is trained: one of ours, of torchvision or timm, or someone's own.

Someone's own is a function named by its import path or, in Python, a network or what makes one.
Names are checked when the builder is made, before anything is trained.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from spare.errors import InputError, reason, unknown
from spare.imports import code_digest, current_folder_importable, import_object
from spare.models.classifier import Classifier, Shape, build, hash_state
from spare.models.heads import as_classifier, head_path
from spare.models.libraries import checked_timm_name, of_timm, of_torchvision, torchvision_names
from spare.models.small import OF_FEATURES, OF_IMAGES
from spare.models.stored_weights import load_weights, weights_file


@dataclass(frozen=True)
class ModelChoice:
    """Which network is trained, and from which weights."""

    #: lenet5, small_cnn, conv4, mlp, linear; a name of torchvision or timm; or
    #: package.module:function.
    model: str = ""
    #: Path of the last linear layer within the network (such as classifier.3); empty to find it.
    head: str = ""
    #: imagenet, none (from scratch), or a .safetensors, .pt or .pth file; our own models have no
    #: ImageNet weights and start from scratch, and someone's own starts as it is made.
    weights: str = "imagenet"
    #: Train only the head, on features computed once.
    frozen: bool = False
    #: Train only from this layer on (such as layer4, or 0.5 for half of the parameters), on what
    #: the layers before it give, computed once.
    frozen_until: str = ""

    def __post_init__(self) -> None:
        if self.frozen and self.frozen_until:
            raise InputError(
                "frozen=true trains only the last layer, and frozen_until more: use one of them."
            )

    @property
    def freezes(self) -> bool:
        """Whether there are layers that are not trained."""
        return self.frozen or bool(self.frozen_until)


#: How the record names a model that was given as a Python object.
GIVEN = "given:"


def model_description(given: nn.Module | Callable[..., Any]) -> str:
    """What stands in the record for a model that was given as a Python object.

    Its name is followed by a digest, so that a run with another model of that name is another run:
    of a network's layers and weights; of the code of a function or class (see `code_digest`),
    because what it makes depends on a number of classes that is not known yet.

    >>> first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> model_description(first) == model_description(copy.deepcopy(first))
    True
    >>> model_description(first) == model_description(second)
    False
    """
    if not isinstance(given, nn.Module):
        return f"{_given_name(given)}-{code_digest(given)}"
    digest = hashlib.sha256(re.sub(r"0x[0-9a-fA-F]+", "", repr(given)).encode())
    hash_state(digest, given.state_dict())
    return f"{_given_name(given)}-{digest.hexdigest()[:8]}"


def _given_name(given: Any) -> str:
    name = type(given).__name__
    if not isinstance(given, nn.Module):
        name = getattr(given, "__name__", name)
    return f"{GIVEN}{name}"


def check_model(choice: ModelChoice, given: Any = None) -> None:
    """Refuse a network or a file of weights that does not exist, as far as the data is not needed.

    A name of nobody's is looked for in torchvision and timm, which takes a moment.
    """
    weights_file(choice.weights)
    name = choice.model
    known = given is not None or not name or name in OF_IMAGES or name in OF_FEATURES
    if not known and (":" not in name or name.startswith("timm:")):
        _ = name in torchvision_names() or checked_timm_name(name, choice.weights == "imagenet")


def builder(
    choice: ModelChoice,
    classes: int,
    shape: Shape,
    given: nn.Module | Callable[..., Any] | None = None,
) -> Callable[[], Classifier]:
    """A function that makes the chosen model; a name that does not exist is an error at once.

    Parameters
    ----------
    choice : ModelChoice
        The network's name, its head and its weights.
    classes : int
        How many outputs it needs.
    shape : tuple of int
        Of one example's input: (d,) for features, (channels, height, width) for images.
    given : nn.Module or callable, optional
        In place of a name: a network, of which every model is a copy with the weights that it has
        now; or a function or class that makes one, called with the number of classes if it takes
        that.
    """
    name, file = choice.model, weights_file(choice.weights)
    imagenet = choice.weights == "imagenet"
    ours = given is None and (name in OF_IMAGES or name in OF_FEATURES)
    someones = given is not None or (":" in name and not name.startswith("timm:"))
    make: Callable[[], nn.Module]
    if given is not None:
        make = _maker(given, classes)
    elif name.startswith(GIVEN):
        raise InputError(
            f"model {name!r} was given as a Python object, so it cannot be found by its name: give "
            f"the object again."
        )
    elif not name:
        raise InputError("no model is chosen: name one with --model, or model=... in Python.")
    elif ours:
        make = partial(_ours, name, classes, shape)
        build(make, (0,))  # costs nothing, and fails now if the shape does not fit
        if choice.head not in ("", "head"):
            raise unknown(f"linear layer of {name}", choice.head, ["head"])
    elif someones:
        make = partial(_call, name, import_object("model", name, callable), classes)
    elif name in torchvision_names():
        make = partial(of_torchvision, name, imagenet)
        _need_images(name, shape)
        if shape[0] != 3:
            raise InputError(
                f"torchvision's {name} takes images of 3 channels, and these have {shape[0]}: use "
                f"lenet5, small_cnn, or timm's models (timm:NAME), which adapt."
            )
    else:
        make = partial(of_timm, checked_timm_name(name, imagenet), imagenet, classes, shape)
        _need_images(name, shape)

    def classifier() -> Classifier:
        network = make()
        if file is not None:
            head = "head" if ours else head_path(network, shape, choice.head)
            load_weights(network, file, head)
        if ours:
            assert isinstance(network, Classifier)
            return network
        return as_classifier(network, classes, shape, choice.head, fresh_head=not someones)

    return classifier


def _maker(given: nn.Module | Callable[..., Any], classes: int) -> Callable[[], nn.Module]:
    if isinstance(given, nn.Module):
        return partial(copy.deepcopy, given)
    if not callable(given):
        raise InputError(
            f"a model is a name, an nn.Module or a function that makes one, not a "
            f"{type(given).__name__}."
        )
    return partial(_call, _given_name(given), given, classes)


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


def _call(name: str, function: Callable[..., Any], classes: int) -> nn.Module:
    try:
        with current_folder_importable():
            network = _with_classes(function, classes)()
    except Exception as error:  # whatever someone's function raises
        raise InputError(
            f"model {name!r}: the function raised {type(error).__name__}: {reason(error)}."
        ) from error
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {name!r}: the function returned a {type(network).__name__}, not an nn.Module."
        )
    return network


def _with_classes(function: Callable[..., Any], classes: int) -> Callable[[], Any]:
    """Pass the number of classes by name, or as the first argument if that is required."""
    parameters = inspect.signature(function).parameters
    for name in ("classes", "num_classes"):
        if name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
            return partial(function, **{name: classes})
    first = next(iter(parameters.values()), None)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if first is not None and first.kind in positional and first.default is first.empty:
        return partial(function, classes)
    return function
