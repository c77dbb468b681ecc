"""Classifiers: features, then one linear head.

Every model here is a `Classifier`, so that the last layer's outputs and the features before it can
be had from one forward pass whatever the network is. `builder` makes one of a name: a model of
ours, of torchvision, of timm, or a user's own function; `as_classifier` makes one of any network
whose output is a linear layer's, by looking at one forward pass.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spare.errors import DataError, InputError, unknown

Shape = tuple[int, ...]
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


class Classifier(nn.Module):
    def __init__(self, features: nn.Module, head: nn.Linear):
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def lenet5(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 32) -> Classifier:
    """LeNet-5 with ReLU and max-pooling; 84 features before the head.

    Pooling stands before ReLU: the maximum of rectified values is the rectified maximum, and there
    are four times fewer of them.
    """
    height, width = (((side - 4) // 2 - 4) // 2 for side in _sides("lenet5", size, 16))
    features = nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(84, classes))


def small_cnn(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 16) -> Classifier:
    """Two convolutions for images of a few pixels; 64 features before the head."""
    height, width = (side // 4 for side in _sides("small_cnn", size, 4))
    features = nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * height * width, 64),
        nn.ReLU(),
    )
    return Classifier(features, nn.Linear(64, classes))


def conv4(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 64) -> Classifier:
    """Four convolutions with batch normalisation, for images of 32 to 128 pixels on a laptop; 64
    features before the head."""
    height, width = (side // 16 for side in _sides("conv4", size, 16))
    layers: list[nn.Module] = []
    for maps in (16, 32, 64, 64):
        layers += [
            nn.Conv2d(channels, maps, 3, padding=1, bias=False),
            nn.BatchNorm2d(maps),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        channels = maps
    # Places are kept, not averaged away: what tells the classes apart may be a shape.
    layers += [nn.Flatten(), nn.Linear(64 * height * width, 64), nn.ReLU()]
    return Classifier(nn.Sequential(*layers), nn.Linear(64, classes))


def mlp(classes: int, *, inputs: int, hidden: int = 256) -> Classifier:
    """One hidden layer, for inputs that are features."""
    return Classifier(
        nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU()), nn.Linear(hidden, classes)
    )


def linear(classes: int, *, inputs: int) -> Classifier:
    """The head alone, for inputs that are features."""
    return Classifier(nn.Identity(), nn.Linear(inputs, classes))


OF_IMAGES: dict[str, Callable[..., Classifier]] = {
    "lenet5": lenet5,
    "small_cnn": small_cnn,
    "conv4": conv4,
}
OF_FEATURES: dict[str, Callable[..., Classifier]] = {"mlp": mlp, "linear": linear}


def _sides(name: str, size: int | tuple[int, int], least: int) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else size
    if min(sides) < least:
        raise InputError(
            f"{name} takes images of at least {least} by {least} pixels, and these are "
            f"{sides[0]} by {sides[1]}: use a larger size, or another model."
        )
    return sides


def build(builder: Callable[[], nn.Module], key: tuple[int, ...]) -> nn.Module:
    """A fresh model whose initial weights depend on `key` alone, not on the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(key))
        return builder()


def torch_seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def builder(choice: ModelChoice, classes: int, shape: Shape) -> Callable[[], Classifier]:
    """What makes the chosen model; a name that does not exist is an error at once.

    shape   of one example's input: (d,) for features, (channels, height, width) for images.
    """
    name, file = choice.model, _weights_file(choice.weights)
    imagenet = choice.weights == "imagenet"
    ours = name in OF_IMAGES or name in OF_FEATURES
    of_user = ":" in name and not name.startswith("timm:")
    if ours:
        make: Callable[[], nn.Module] = partial(_ours, name, classes, shape)
        build(make, (0,))  # costs nothing, and says now that the shape does not fit
        if choice.head not in ("", "head"):
            raise unknown(f"linear layer of {name}", choice.head, ["head"])
    elif of_user:
        make = partial(_call, name, _function(name), classes)
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
            head = "head" if ours else _head_path(network, shape, choice.head)
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
        f"the weights {weights} could not be fetched ({_reason(error)}): go online once, put the "
        f"file {place}, or train from scratch with --set weights=none."
    )


def _reason(error: BaseException) -> str:
    """The first line of what an error says."""
    said = str(getattr(error, "reason", None) or error).strip() or type(error).__name__
    return said.splitlines()[0].rstrip(".")


@contextlib.contextmanager
def _current_folder_importable() -> Iterator[None]:
    """As `python -m` has it."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)


def _function(name: str) -> Callable[..., Any]:
    """The function that `package.module:function` names."""
    module, _, attribute = name.partition(":")
    try:
        with _current_folder_importable():
            found = importlib.import_module(module)
    except Exception as error:  # whatever the user's module raises
        raise InputError(
            f"model {name!r}: {module!r} cannot be imported "
            f"({type(error).__name__}: {_reason(error)})."
        ) from error
    functions = {key: value for key, value in vars(found).items() if callable(value)}
    if attribute not in functions:
        raise unknown(f"function of {module}", attribute, functions)
    return functions[attribute]


def _call(name: str, function: Callable[..., Any], classes: int) -> nn.Module:
    try:
        with _current_folder_importable():
            network = _with_classes(function, classes)()
    except Exception as error:  # whatever the user's function raises
        raise InputError(
            f"model {name!r}: the function raised {type(error).__name__}: {_reason(error)}."
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


# The head of any network


def as_classifier(
    network: nn.Module, classes: int, shape: Shape, head: str = "", fresh_head: bool = True
) -> Classifier:
    """Part `network` into features and head, found by one forward pass or named by its path.

    The head is taken out of `network`, which becomes the features. With `fresh_head` a new one with
    PyTorch's initial weights takes its place; else only if it has not `classes` outputs.
    """
    path = _head_path(network, shape, head)
    last = network.get_submodule(path)
    assert isinstance(last, nn.Linear)
    features: nn.Module = nn.Identity()
    if network is not last:
        with _looking_at(network):
            _take_head_out(network, path, last, shape)
            _use_channels_last(network, shape)
        features = network
    if fresh_head or last.out_features != classes:
        last = nn.Linear(last.in_features, classes)
    return Classifier(features, last)


def _take_head_out(network: nn.Module, path: str, head: nn.Linear, shape: Shape) -> None:
    """Put nothing in the head's place, once it is sure that nothing happens after it."""
    kind = type(network).__name__
    example = _example(shape)
    nothing = nn.Identity()
    try:
        _replace(network, head, nothing)
        features = _forward(network, example)
        if features.dim() != 2 or features.shape[1] != head.in_features:
            raise InputError(
                f"{kind} without its head gives the shape {tuple(features.shape)}, where "
                f"(examples, {head.in_features}) is needed: let its head be the last thing in "
                f"forward, on pooled or flattened features."
            )
        probe = _probe_head(features, head.out_features)
        _replace(network, nothing, probe)
        logits, wanted = _forward(network, example), probe(features)
        tolerance = 1e-4 * float(wanted.abs().max())
        if logits.shape != wanted.shape or not torch.allclose(
            logits, wanted, rtol=1e-3, atol=tolerance, equal_nan=True
        ):
            raise InputError(
                f"{kind} does something after its head, so the features cannot be parted from it: "
                f"return the head's own output (the loss takes the softmax)."
            )
    except InputError:
        _replace(network, network.get_submodule(path), head)
        raise
    _replace(network, probe, nothing)


def _probe_head(features: Tensor, outputs: int) -> nn.Linear:
    """A head after which anything would show, a ReLU (two signs) or a factor (a bias as large)."""
    generator = torch.Generator().manual_seed(0)
    half = (outputs + 1) // 2
    rows = torch.randn(half, features.shape[1], generator=generator)
    bias = torch.randn(half, generator=generator) * (features @ rows.T).abs().mean()
    probe = nn.Linear(features.shape[1], outputs)
    probe.weight.copy_(torch.cat([rows, -rows])[:outputs])
    probe.bias.copy_(torch.cat([bias, -bias])[:outputs])
    return probe


def _head_path(network: nn.Module, shape: Shape, named: str) -> str:
    """The path of the linear layer whose output is the network's output."""
    kind = type(network).__name__
    linears = {
        path: module for path, module in network.named_modules() if isinstance(module, nn.Linear)
    }
    if not linears:
        raise InputError(
            f"{kind} has no linear layer, so it has no linear head: use another model."
        )
    if getattr(network, "aux_logits", False):
        raise InputError(
            f"{kind} has auxiliary outputs in training: build it with aux_logits=False."
        )
    if named:
        if named not in linears:
            raise unknown(f"linear layer of {kind}", named, linears)
        return named
    given: dict[str, Tensor] = {}

    def remember(path: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
        given[path] = output

    hooks = [
        module.register_forward_hook(partial(remember, path)) for path, module in linears.items()
    ]
    try:
        with _looking_at(network):
            logits = _forward(network, _example(shape))
    finally:
        for hook in hooks:
            hook.remove()
    same = [
        path
        for path, output in given.items()
        if output.data_ptr() == logits.data_ptr() and output.numel() == logits.numel()
    ]
    if not same:
        raise InputError(
            f"no linear layer's output is what {kind} returns, so it has no head to be found: let "
            f"it end in an nn.Linear and return that layer's own output (the loss takes the "
            f"softmax)."
        )
    return same[-1]


def _forward(network: nn.Module, example: Tensor) -> Tensor:
    """One pass; the result is a tensor, or an error that says what it was."""
    kind = type(network).__name__
    try:
        result = network(example)
    except Exception as error:  # whatever the network raises
        raise InputError(
            f"{kind} cannot take inputs of shape {tuple(example.shape[1:])} ({_reason(error)}): "
            f"use another size or another model."
        ) from error
    if not isinstance(result, Tensor):
        raise InputError(
            f"{kind} returns a {type(result).__name__}: let it return one tensor of logits."
        )
    return result


def _example(shape: Shape) -> Tensor:
    """Two inputs of noise, from a generator of their own."""
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))


@contextlib.contextmanager
def _looking_at(network: nn.Module) -> Iterator[None]:
    """Passes within it leave no trace: no statistics, no random numbers, no training flags."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` stands: a module may have several names."""
    paths = [path for path, m in network.named_modules(remove_duplicate=False) if m is old]
    for path in paths:
        network.set_submodule(path, new)


def _use_channels_last(network: nn.Module, shape: Shape) -> None:
    """The layout that CPUs convolve faster, where the network's own code can live with it."""
    if len(shape) != 3 or not any(isinstance(m, nn.Conv2d) for m in network.modules()):
        return
    network.to(memory_format=torch.channels_last)
    try:
        network(_example(shape).contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # `x.view(n, -1)` needs the usual layout
        network.to(memory_format=torch.contiguous_format)
        network.register_forward_pre_hook(_usual_layout)


def _usual_layout(network: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0].contiguous(),)


# Weights from a file


def _weights_file(weights: str) -> Path | None:
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
